// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "cli/mounting.h"

namespace stepfs::cli {
namespace {

Status WithoutFuse() {
  return Status::Unsupported(
      "this stepfs was built without FUSE (STEPFS_FUSE=OFF) and cannot mount; `stepfs cat` and `stepfs restore` work");
}

}  // namespace

Status Mount(const MountRequest&) { return WithoutFuse(); }
Status Unmount(const std::string&) { return WithoutFuse(); }
std::optional<MountAbove> FindMountAbove(const std::string&) { return std::nullopt; }

std::string CanonicalPath(const std::string& path) {
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : canonical.string();
}

}  // namespace stepfs::cli
