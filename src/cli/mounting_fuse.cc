// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/logging.h"
#include "cli/mounting.h"
#include "fs/mount_table.h"
#include "fs/session.h"
#include "store/control.h"

namespace stepfs::cli {
namespace {

// What goes with the store of a mount while it is open.
struct Companions {
  std::vector<std::string> early_warnings;  // Until there is a log.
  bool logging = false;
  std::unique_ptr<store::ControlServer> control;
};

Status Begin(Companions& companions, const MountRequest& request, store::Store& store) {
  STEPFS_RETURN_IF_ERROR(StartLogging(store.root(), request.log_level, request.foreground));
  companions.logging = true;
  for (const std::string& text : companions.early_warnings) LogWarning(text);
  const store::ReportContext context{"plain"};
  STEPFS_ASSIGN_OR_RETURN(
      companions.control,
      store::ControlServer::Start(store.root(), [&store, context](const store::Json& command, store::ReplySink& sink) {
        return store::RunCommand(store, context, command, sink);
      }));
  return {};
}

}  // namespace

Status Mount(const MountRequest& request) {
  LogToStderr(request.log_level);
  Companions companions;
  fs::MountOptions options;
  options.store = request.store;
  options.mountpoint = request.mountpoint;
  options.foreground = request.foreground;
  options.allow_other = options.allow_other || request.allow_other;
  options.index_directory = request.index_directory;
  options.cache_bytes = request.cache_bytes;
  options.encode_threads = request.encode_threads;
  options.codec = request.codec;
  options.durable_close = request.durable_close;
  options.on_open = [&](store::Store& store) { return Begin(companions, request, store); };
  options.on_close = [&](store::Store&) { companions.control.reset(); };
  options.on_seal = LogSave;
  options.on_warning = [&](const std::string& text) {
    if (companions.logging) {
      LogWarning(text);
    } else {
      companions.early_warnings.push_back(text);
    }
  };
  return fs::Mount(options);
}

Status Unmount(const std::string& mountpoint) { return fs::Unmount(mountpoint); }

std::optional<MountAbove> FindMountAbove(const std::string& path) {
  const auto entry = fs::FindStepfsMountAbove(path);
  if (!entry) return std::nullopt;
  return MountAbove{entry->mountpoint, entry->source};
}

std::string CanonicalPath(const std::string& path) { return fs::CanonicalPath(path); }

}  // namespace stepfs::cli
