// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/store_access.h"
#include "cli/text.h"

namespace stepfs::cli {

void AddVerify(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("verify", "Check everything stored; exit code 1 when something is damaged");
  struct Options {
    std::string path;
    bool deep = false;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "A store, or anything inside a mount")->required();
  command->add_flag("--deep", options->deep, "Decode everything and compare digests, not only checksums");
  command->add_flag("--json", options->json, "As a JSON object");
  command->callback([&chosen, options] {
    chosen = [options](Streams& streams) -> Result<int> {
      STEPFS_ASSIGN_OR_RETURN(const Location location, Locate(options->path));
      STEPFS_ASSIGN_OR_RETURN(StoreAccess store, StoreAccess::Open(location.store));
      store::Json result;
      {
        ProgressBar bar(streams, "verifying");
        QuietSink sink(&bar);
        STEPFS_ASSIGN_OR_RETURN(result, store.Call({{"command", "verify"}, {"deep", options->deep}}, sink));
      }
      const store::Json& damaged = result["damaged"];
      if (options->json) {
        streams.out << store::ToLine(result) << "\n";
      } else if (damaged.empty()) {
        streams.out << "everything is whole\n";
      } else {
        Table table({{"DAMAGED"}, {"VERSION", true}, {"WHAT"}});
        for (const store::Json& damage : damaged) {
          table.AddRow({damage["path"], std::to_string(damage["version"].get<std::uint64_t>()), damage["what"]});
        }
        table.Print(streams.out);
      }
      return damaged.empty() ? kDone : kFailed;
    };
  });
}

}  // namespace stepfs::cli
