// SPDX-License-Identifier: Apache-2.0
#include "cli/store_access.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/mounting.h"

namespace stepfs::cli {
namespace {

// An owner that is just starting has the lock, but does not answer yet; one that ends has the lock, and no longer does.
constexpr auto kOwnerPatience = std::chrono::seconds(10);
constexpr auto kOwnerPause = std::chrono::milliseconds(100);

// DIR/.stepfs/versions/NAME/vNNNNNN -> DIR/NAME and vNNNNNN.
Status StripVirtual(Location& location) {
  std::vector<std::string> before, after;
  bool inside = false;
  for (const auto& part : std::filesystem::path(location.path)) {
    if (part == ".stepfs") {
      inside = true;
    } else {
      (inside ? after : before).push_back(part.string());
    }
  }
  if (!inside) return {};
  if (after.size() > 3 || (after.size() == 3 && !store::ParseVersion(after[2]))) {
    return Status::InvalidArgument(location.path + " is in a removed directory; ask for the directory above .stepfs");
  }
  if (after.size() >= 2) before.push_back(after[1]);
  if (after.size() == 3) location.version = after[2];
  location.path.clear();
  for (const std::string& part : before) location.path += (location.path.empty() ? "" : "/") + part;
  return {};
}

}  // namespace

Result<Location> Locate(const std::string& path) {
  const std::string canonical = CanonicalPath(path);
  if (const auto mount = FindMountAbove(canonical)) {
    Location location;
    location.store = mount->store;
    location.path = canonical.substr(std::min(canonical.size(), mount->mountpoint.size()));
    location.path.erase(0, location.path.find_first_not_of('/'));
    STEPFS_RETURN_IF_ERROR(StripVirtual(location));
    return location;
  }
  if (access((canonical + "/format.json").c_str(), F_OK) == 0) return Location{canonical, {}, {}};
  if (errno == EACCES) return Status::FromErrno(EACCES, path);
  return Status::NotFound(path + " is neither a stepfs store nor inside a stepfs mount");
}

PathAndVersion SplitVersion(const std::string& text) {
  const auto at = text.rfind('@');
  if (at == text.npos || !store::ParseVersion(std::string_view(text).substr(at + 1))) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

Result<StoreAccess> StoreAccess::Open(const std::string& store, bool start_threads) {
  StoreAccess access;
  const auto give_up = std::chrono::steady_clock::now() + kOwnerPatience;
  for (;;) {
    auto owner = store::ControlClient::Connect(store);
    if (owner.ok()) {
      access.owner_.emplace(std::move(*owner));
      return access;
    }
    if (owner.status().kind() != StatusKind::kNotFound) return owner.status();
    store::StoreOptions options;
    options.root = store;
    options.create = false;
    options.start_threads = start_threads;
    auto opened = store::Store::Open(options);
    if (opened.ok()) {
      access.store_ = std::move(*opened);
      return access;
    }
    if (opened.status().kind() != StatusKind::kBusy || std::chrono::steady_clock::now() > give_up) {
      return opened.status();
    }
    std::this_thread::sleep_for(kOwnerPause);
  }
}

Result<store::Json> StoreAccess::Call(const store::Json& request, store::ReplySink& sink) {
  if (owner_) return owner_->Call(request, sink);
  return store::RunCommand(*store_, {}, request, sink);
}

}  // namespace stepfs::cli
