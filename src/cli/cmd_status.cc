// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/store_access.h"
#include "cli/text.h"

namespace stepfs::cli {
namespace {

using store::Json;

void Print(const std::string& store, const Json& status, std::ostream& out) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.4f", status["ratio"].get<double>());
  const Json& disk = status["disk_bytes"];
  out << "store      " << Printable(store) << "\n"
      << "mounted    " << (status["mode"].is_null() ? "no" : "yes, " + status["mode"].get<std::string>() + " mode")
      << "\n"
      << "versions   " << status["versions"].get<std::uint64_t>() << "\n"
      << "logical    " << HumanSize(status["logical_bytes"]) << "\n"
      << "stored     " << HumanSize(status["stored_bytes"]) << ", ratio " << ratio << "\n"
      << "backlog    " << HumanSize(status["backlog_bytes"]) << " wait for the encoder\n"
      << "on disk    blobs " << HumanSize(disk["blobs"]) << ", index " << HumanSize(disk["index"]) << ", cache "
      << HumanSize(disk["cache"]) << ", staging " << HumanSize(disk["staging"]) << "\n";
  for (const Json& warning : status["warnings"]) out << "warning    " << Printable(warning.get<std::string>()) << "\n";
}

}  // namespace

void AddStatus(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("status", "Show what a store holds, what it saves and what waits");
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "A store, or anything inside a mount")->required();
  command->add_flag("--json", options->json, "As a JSON object");
  command->callback([&chosen, options] {
    chosen = [options](Streams& streams) -> Result<int> {
      STEPFS_ASSIGN_OR_RETURN(const Location location, Locate(options->path));
      STEPFS_ASSIGN_OR_RETURN(StoreAccess store, StoreAccess::Open(location.store));
      QuietSink sink;
      STEPFS_ASSIGN_OR_RETURN(const Json status, store.Call({{"command", "status"}}, sink));
      if (options->json) {
        streams.out << store::ToLine(status) << "\n";
      } else {
        Print(location.store, status, streams.out);
      }
      return kDone;
    };
  });
}

}  // namespace stepfs::cli
