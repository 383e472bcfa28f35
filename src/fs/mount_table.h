// SPDX-License-Identifier: Apache-2.0
//
// The mounts of this machine as /proc/self/mountinfo tells them: read without touching any of them, so that dead and
// busy ones do not matter. Also small path helpers for mounting.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stepfs::fs {

inline constexpr std::string_view kMountType = "fuse.stepfs";

struct MountEntry {
  std::string mountpoint;
  std::string type;    // "fuse.stepfs", "ext4", ...
  std::string source;  // Of ours: the store's absolute path.
  unsigned major = 0;  // Device number, as in st_dev.
  unsigned minor = 0;
};

Result<std::vector<MountEntry>> ReadMountTable();
// The topmost mount at exactly this path (the last in the table); nothing when there is none or it is of another type.
std::optional<MountEntry> FindStepfsMount(const std::string& path);
// The stepfs mount a path lies in or at, by its spelling.
std::optional<MountEntry> FindStepfsMountAbove(const std::string& path);

// `path` without links and dots as far as it exists, absolute. Never fails: a last component that cannot be looked at
// (a dead mount) is appended as it is.
std::string CanonicalPath(const std::string& path);
// Both canonical: `inner` is `outer` or below it.
bool IsInside(std::string_view inner, std::string_view outer);

// Waits until no process has the store open. kBusy, with its name, when one still has at the end of the time.
Status AwaitClosed(const std::string& store, std::chrono::milliseconds timeout);

// Runs a program (found in PATH) and waits for it. Its exit code, 127 when it cannot be run, and what it wrote to
// stderr, without the last newline.
struct RunResult {
  int exit_code = 127;
  std::string errors;
};
RunResult RunProgram(const std::vector<std::string>& arguments);

}  // namespace stepfs::fs
