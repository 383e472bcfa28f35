// SPDX-License-Identifier: Apache-2.0
//
// What can be known before a mount is tried: whether it would fail, and what the user should do. Nothing is changed but
// one thing: a dead mount of ours at the mount point is taken away.
#pragma once

#include <string>

#include "base/result.h"
#include "fs/session.h"

namespace stepfs::fs {

struct MountPlan {
  std::string store;            // Absolute, canonical.
  std::string mountpoint;       // Absolute, canonical.
  std::string index_directory;  // Absolute, canonical; empty for the store's own.
};

Result<MountPlan> CheckMount(const MountOptions& options);

}  // namespace stepfs::fs
