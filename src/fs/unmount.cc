// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fs/mount_table.h"
#include "fs/session.h"

namespace stepfs::fs {
namespace {

using Clock = std::chrono::steady_clock;

// Closing writes what is still in memory; a slow disk and gigabytes of it take their time.
constexpr auto kCloseTimeout = std::chrono::minutes(10);
constexpr auto kSearchTimeout = std::chrono::seconds(3);
constexpr std::size_t kMaxHolders = 5;

std::string LinkTarget(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

bool HoldsByLink(const std::string& process, std::string_view mountpoint) {
  for (const char* link : {"/cwd", "/root", "/exe"}) {
    if (IsInside(LinkTarget(process + link), mountpoint)) return true;
  }
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(process + "/fd", error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (IsInside(LinkTarget(at->path().string()), mountpoint)) return true;
  }
  return false;
}

bool HoldsByMapping(const std::string& process, std::string_view mountpoint) {
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    if (path != line.npos && IsInside(std::string_view(line).substr(path), mountpoint)) return true;
  }
  return false;
}

// "python3 (1234), bash (77)": processes with files or their working directory in the mount, as far as we may look.
std::string Holders(const std::string& mountpoint) {
  const auto give_up = Clock::now() + kSearchTimeout;
  const std::string own = std::to_string(getpid());
  std::string names;
  std::size_t found = 0;
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return names;
  while (const dirent* entry = readdir(processes)) {
    if (Clock::now() > give_up || found == kMaxHolders) break;
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (entry->d_name == own) continue;  // Who asked from inside the mount is named as the parent process.
    const std::string process = std::string("/proc/") + entry->d_name;
    if (!HoldsByLink(process, mountpoint) && !HoldsByMapping(process, mountpoint)) continue;
    std::string command = "?";
    std::ifstream comm(process + "/comm");
    std::getline(comm, command);
    names += (names.empty() ? "" : ", ") + command + " (" + entry->d_name + ")";
    ++found;
  }
  closedir(processes);
  return names;
}

Status Detach(const std::string& mountpoint) {
  if (umount2(mountpoint.c_str(), UMOUNT_NOFOLLOW) == 0) return {};
  int error = errno;
  std::string detail;
  if (error == EPERM) {
    const RunResult run = RunProgram({"fusermount3", "-u", mountpoint});
    if (run.exit_code == 0) return {};
    if (run.exit_code == 127 && run.errors.empty()) {
      return Status::NotFound("fusermount3 is missing: install the package fuse3, or unmount as root");
    }
    detail = run.errors;
    if (detail.find("busy") != detail.npos) error = EBUSY;
  }
  if (error == EBUSY) {
    const std::string holders = Holders(mountpoint);
    return Status::Busy(mountpoint + " is in use" + (holders.empty() ? "" : " by " + holders) +
                        "; end that first, or leave the directory");
  }
  return detail.empty() ? Status::FromErrno(error, "unmounting " + mountpoint)
                        : Status::FromErrno(error, "unmounting " + mountpoint + " (" + detail + ")");
}

}  // namespace

Status Unmount(const std::string& mountpoint) {
  const std::string path = CanonicalPath(mountpoint);
  const auto mounted = FindStepfsMount(path);
  if (!mounted) {
    const auto above = FindStepfsMountAbove(path);
    return Status::NotFound(path + " is not a stepfs mount" +
                            (above ? "; it lies inside the one at " + above->mountpoint : std::string()));
  }
  STEPFS_RETURN_IF_ERROR(Detach(path));
  return AwaitClosed(mounted->source, kCloseTimeout).WithContext("unmounted, but it may still be writing");
}

}  // namespace stepfs::fs
