// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/file_io.h"
#include "cli/mounting.h"
#include "cli/progress.h"
#include "cli/store_access.h"

namespace stepfs::cli {
namespace {

using store::Json;

// `name` of a file in `store`: from the root of the mount, or absolute inside the mount.
Result<Location> LocateIn(const std::string& store, const std::string& name) {
  STEPFS_ASSIGN_OR_RETURN(const Location at, Locate(store));
  const PathAndVersion split = SplitVersion(name);
  Location location{at.store, split.path, split.version};
  if (split.path.starts_with("/")) {
    const auto inside = Locate(split.path);
    if (inside.ok() && inside->store == at.store && !inside->path.empty()) {
      location.path = inside->path;
      if (location.version.empty()) location.version = inside->version;
      return location;
    }
  }
  if (!at.path.empty()) location.path = at.path + "/" + location.path;
  return location;
}

class CopySink final : public QuietSink {
 public:
  explicit CopySink(std::function<Status(Bytes)> write) : write_(std::move(write)) {}
  Status Data(Bytes bytes) override { return write_(bytes); }

 private:
  const std::function<Status(Bytes)> write_;
};

Result<Json> ReadVersion(const Location& location, CopySink& sink) {
  STEPFS_ASSIGN_OR_RETURN(StoreAccess store, StoreAccess::Open(location.store));
  Json request = {{"command", "read"}};
  store::SetPath(request, location.path);
  if (!location.version.empty()) request["version"] = location.version;
  return store.Call(request, sink);
}

Result<int> RunCat(const std::string& store, const std::string& name, Streams& streams) {
  STEPFS_ASSIGN_OR_RETURN(const Location location, LocateIn(store, name));
  CopySink sink([&](Bytes bytes) -> Status {
    streams.out.write(AsText(bytes).data(), static_cast<std::streamsize>(bytes.size()));
    return streams.out ? Status() : Status::FromErrno(EIO, "writing to standard output");
  });
  STEPFS_RETURN_IF_ERROR(ReadVersion(location, sink).status());
  return kDone;
}

Result<int> RunRestore(const std::string& store, const std::string& name, const std::string& output, bool force) {
  STEPFS_ASSIGN_OR_RETURN(const Location location, LocateIn(store, name));
  STEPFS_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(output, force));
  CopySink sink([&](Bytes bytes) { return file->Append(bytes); });
  STEPFS_ASSIGN_OR_RETURN(const Json told, ReadVersion(location, sink));
  STEPFS_RETURN_IF_ERROR(file->SetMode(told.value("mode", 0644u)));
  STEPFS_RETURN_IF_ERROR(file->SetMtime(told.value("mtime_ns", std::int64_t{0})));
  STEPFS_RETURN_IF_ERROR(file->Commit());
  return kDone;
}

struct Options {
  std::string store;
  std::string name;
  std::string output;
  bool force = false;
};

}  // namespace

void AddCat(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("cat", "Write a version to standard output; needs no mount");
  auto options = std::make_shared<Options>();
  command->add_option("STORE", options->store, "A store, or where it is mounted")->required();
  command->add_option("PATH@VERSION", options->name, "A file and N, vNNNNNN or step-N (default: the newest)")
      ->required();
  command->callback([&chosen, options] {
    chosen = [options](Streams& streams) { return RunCat(options->store, options->name, streams); };
  });
}

void AddRestore(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("restore", "Copy a version out, with its mode and time; needs no mount");
  auto options = std::make_shared<Options>();
  command->add_option("STORE", options->store, "A store, or where it is mounted")->required();
  command->add_option("PATH[@VERSION]", options->name, "A file and N, vNNNNNN or step-N (default: the newest)")
      ->required();
  command->add_option("-o,--output", options->output, "The file to write")->required();
  command->add_flag("--force", options->force, "Replace the file when it is there");
  command->callback([&chosen, options] {
    chosen = [options](Streams&) { return RunRestore(options->store, options->name, options->output, options->force); };
  });
}

}  // namespace stepfs::cli
