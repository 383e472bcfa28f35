// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/store_access.h"

namespace stepfs::cli {

void AddSync(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("sync", "Wait until nothing that was closed waits for the encoder any more");
  auto path = std::make_shared<std::string>();
  command->add_option("PATH", *path, "A store, or anything inside a mount")->required();
  command->callback([&chosen, path] {
    chosen = [path](Streams& streams) -> Result<int> {
      STEPFS_ASSIGN_OR_RETURN(const Location location, Locate(*path));
      STEPFS_ASSIGN_OR_RETURN(StoreAccess store, StoreAccess::Open(location.store, true));
      ProgressBar bar(streams, "encoding");
      QuietSink sink(&bar);
      STEPFS_RETURN_IF_ERROR(store.Call({{"command", "sync"}}, sink).status());
      return kDone;
    };
  });
}

}  // namespace stepfs::cli
