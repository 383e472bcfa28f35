// SPDX-License-Identifier: Apache-2.0
//
// What the command line needs of the file system layer, so that a build without libfuse (STEPFS_FUSE=OFF) differs in
// one file: mounting_fuse.cc or mounting_none.cc.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "codec/frame.h"

namespace stepfs::cli {

struct MountRequest {
  std::string store;
  std::string mountpoint;
  bool foreground = false;
  bool allow_other = false;
  bool durable_close = false;
  std::string index_directory;
  std::uint64_t cache_bytes = 0;  // 0: a tenth of the free space.
  int encode_threads = 0;
  codec::CodecChoice codec = codec::CodecChoice::kDefault;
  std::string log_level = "info";
};

// As fs::Mount, with a log file and a control socket.
Status Mount(const MountRequest& request);
Status Unmount(const std::string& mountpoint);

// The stepfs mount that a canonical path lies in or at.
struct MountAbove {
  std::string mountpoint;
  std::string store;
};
std::optional<MountAbove> FindMountAbove(const std::string& path);

// Absolute, without links and dots, as far as the path exists.
std::string CanonicalPath(const std::string& path);

}  // namespace stepfs::cli
