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

struct Options {
  std::string path;
  bool json = false;
};

// Keeps the versions that were asked for.
class LogSink final : public QuietSink {
 public:
  explicit LogSink(const std::string& version) : wanted_(store::ParseVersion(version)) {}
  Status Item(const Json& item) override {
    const Json& version = item["version"];
    const bool all = !wanted_;
    if (all || (wanted_->version != 0 ? version["version"] == wanted_->version
                                      : !version["step"].is_null() && version["step"] == *wanted_->step)) {
      items.push_back(item);
    }
    return {};
  }
  std::vector<Json> items;

 private:
  const std::optional<store::VersionSpec> wanted_;
};

std::string VersionName(const Json& version) {
  char text[40];
  const bool partial = version["state"] == "partial";
  std::snprintf(text, sizeof text, partial ? "partial-%llu" : "v%06llu",
                static_cast<unsigned long long>(version["version"].get<std::uint64_t>()));
  return text;
}

std::string BaseName(const Json& version) {
  const Json& base = version["base"];
  if (base.is_null()) return "-";
  const std::string number = VersionName({{"version", base["version"]}, {"state", "sealed"}});
  return base["path"] == version["path"] ? number : base["path"].get<std::string>() + "@" + number;
}

void PrintTable(const std::vector<Json>& items, std::ostream& out) {
  Table table({{"PATH"},
               {"VERSION"},
               {"STEP", true},
               {"TIME (UTC)"},
               {"SIZE", true},
               {"STORED", true},
               {"RATIO", true},
               {"CODEC"},
               {"BASE"},
               {"DEPTH", true},
               {"STATE"},
               {"NOTES"}});
  for (const Json& item : items) {
    const Json& version = item["version"];
    char ratio[16];
    std::snprintf(ratio, sizeof ratio, "%.4f", version["ratio"].get<double>());
    std::string notes;
    for (const Json& note : item["notes"]) notes += (notes.empty() ? "" : ", ") + note.get<std::string>();
    table.AddRow({version["path"], VersionName(version),
                  version["step"].is_null() ? "-" : std::to_string(version["step"].get<std::int64_t>()),
                  ShortTime(version["time"].get<std::string>()), HumanSize(version["logical_bytes"]),
                  HumanSize(version["stored_bytes"]), ratio,
                  version["codec"].is_null() ? "-" : version["codec"].get<std::string>(), BaseName(version),
                  std::to_string(version["depth"].get<std::uint64_t>()), version["state"], notes});
  }
  table.Print(out);
}

// An array with one version a line.
void PrintJson(const std::vector<Json>& items, std::ostream& out) {
  out << "[";
  const char* separator = "\n";
  for (const Json& item : items) {
    out << separator << store::ToLine(item["version"]);
    separator = ",\n";
  }
  out << (items.empty() ? "]\n" : "\n]\n");
}

Result<int> RunLog(const Options& options, Streams& streams) {
  STEPFS_ASSIGN_OR_RETURN(const Location location, Locate(options.path));
  STEPFS_ASSIGN_OR_RETURN(StoreAccess store, StoreAccess::Open(location.store));
  Json request = {{"command", "log"}};
  store::SetPath(request, location.path);
  LogSink sink(location.version);
  STEPFS_RETURN_IF_ERROR(store.Call(request, sink).status());
  if (options.json) {
    PrintJson(sink.items, streams.out);
  } else if (sink.items.empty()) {
    streams.out << "no versions yet\n";
  } else {
    PrintTable(sink.items, streams.out);
  }
  return kDone;
}

}  // namespace

void AddLog(CLI::App& program, Action& chosen) {
  auto* command =
      program.add_subcommand("log", "List the versions of a file, or of everything in a directory or store");
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "A store, or anything inside a mount")->required();
  command->add_flag("--json", options->json, "As a JSON array");
  command->callback([&chosen, options] { chosen = [options](Streams& streams) { return RunLog(*options, streams); }; });
}

}  // namespace stepfs::cli
