// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace stepfs::cli {

void AddVersion(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("version", "Show the version of this program");
  command->callback([&chosen] {
    chosen = [](Streams& streams) -> Result<int> {
      streams.out << "stepfs " STEPFS_VERSION "\n";
      return kDone;
    };
  });
}

}  // namespace stepfs::cli
