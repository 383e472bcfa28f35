// SPDX-License-Identifier: Apache-2.0
#include "fs/mount_checks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "fs/mount_table.h"

namespace stepfs::fs {
namespace {

// A daemon that was killed just now needs a moment to let go of its store.
constexpr auto kDyingTimeout = std::chrono::seconds(5);

// No daemon answers any more. Asked by statfs(2), which no cache of the kernel answers.
bool IsDeadMount(const std::string& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

Status TakeAwayDeadMount(const std::string& mountpoint) {
  const auto mounted = FindStepfsMount(mountpoint);
  if (!mounted) {
    return Status::Busy(mountpoint + " is a dead mount of another file system; unmount it first: `umount -l " +
                        mountpoint + "`");
  }
  if (umount2(mountpoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    const RunResult run = RunProgram({"fusermount3", "-u", "-z", mountpoint});
    if (run.exit_code != 0) {
      return Status::Busy(mountpoint + " is a dead stepfs mount that cannot be taken away (" + run.errors +
                          "); try `sudo umount -l " + mountpoint + "`");
    }
  }
  return AwaitClosed(mounted->source, kDyingTimeout);
}

Status CheckMountpoint(const std::string& mountpoint) {
  if (IsDeadMount(mountpoint)) STEPFS_RETURN_IF_ERROR(TakeAwayDeadMount(mountpoint));
  struct stat info {};
  const int failed = stat(mountpoint.c_str(), &info) == 0 ? 0 : errno;
  if (failed == ENOENT) {
    return Status::NotFound("there is no mount point " + mountpoint + "; make it: `mkdir -p " + mountpoint + "`");
  }
  if (failed != 0) return Status::FromErrno(failed, "mount point " + mountpoint);
  if (!S_ISDIR(info.st_mode)) return Status::InvalidArgument("the mount point " + mountpoint + " is not a directory");
  if (const auto mounted = FindStepfsMount(mountpoint)) {
    return Status::Busy(mountpoint + " carries the store " + mounted->source + " already; `stepfs umount " +
                        mountpoint + "` first");
  }
  DIR* directory = opendir(mountpoint.c_str());
  if (directory == nullptr) return Status::FromErrno(errno, "mount point " + mountpoint);
  bool empty = true;
  while (const dirent* entry = readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) empty = false;
  }
  closedir(directory);
  if (!empty) {
    return Status::InvalidArgument("the mount point " + mountpoint +
                                   " is not empty, and what is in it would be hidden; choose an empty directory");
  }
  return {};
}

Status CheckApart(const MountPlan& plan) {
  for (const std::string& path : {plan.store, plan.index_directory}) {
    if (path.empty()) continue;
    if (IsInside(path, plan.mountpoint)) {
      return Status::InvalidArgument(path + " lies inside the mount point " + plan.mountpoint +
                                     "; a store cannot be in its own mount");
    }
    if (IsInside(plan.mountpoint, path)) {
      return Status::InvalidArgument("the mount point " + plan.mountpoint + " lies inside the store " + path +
                                     "; choose one outside");
    }
    if (const auto above = FindStepfsMountAbove(path)) {
      return Status::InvalidArgument(path + " lies inside the stepfs mount " + above->mountpoint +
                                     "; choose a directory on a disk");
    }
  }
  return {};
}

bool OthersMayBeAllowed() {
  std::ifstream file("/etc/fuse.conf");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (words >> word && word == "user_allow_other") return true;
  }
  return false;
}

bool IsInPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

Status CheckFuse(const MountOptions& options, const std::string& mountpoint) {
  constexpr const char* kDevice = "/dev/fuse";
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (fd < 0 && (error == ENOENT || error == ENODEV || error == ENXIO)) {
    return Status::NotFound(
        "/dev/fuse is missing: load the module (`sudo modprobe fuse`), or start the container with "
        "`--device /dev/fuse --cap-add SYS_ADMIN`; `stepfs cat` and `stepfs restore` work without it");
  }
  if (fd < 0 && (error == EACCES || error == EPERM)) {
    return Status::FromErrno(error, "no permission to use /dev/fuse (run as root, or `sudo chmod 666 /dev/fuse`)");
  }
  if (fd < 0) return Status::FromErrno(error, kDevice);
  if (geteuid() == 0) return {};
  if (!IsInPath("fusermount3")) {
    return Status::NotFound("fusermount3 is missing, which users other than root need: install the package fuse3");
  }
  if (access(mountpoint.c_str(), W_OK) != 0) {
    return Status::FromErrno(errno, "the mount point " + mountpoint + " must be writable for who mounts");
  }
  if (options.allow_other && !OthersMayBeAllowed()) {
    return Status::InvalidArgument(
        "other users may be allowed only if /etc/fuse.conf has the line user_allow_other; add it, or mount without");
  }
  return {};
}

}  // namespace

Result<MountPlan> CheckMount(const MountOptions& options) {
  MountPlan plan;
  plan.mountpoint = CanonicalPath(options.mountpoint);
  STEPFS_RETURN_IF_ERROR(CheckMountpoint(plan.mountpoint));
  plan.store = CanonicalPath(options.store);
  if (!options.index_directory.empty()) plan.index_directory = CanonicalPath(options.index_directory);
  STEPFS_RETURN_IF_ERROR(CheckApart(plan));
  STEPFS_RETURN_IF_ERROR(CheckFuse(options, plan.mountpoint));
  return plan;
}

}  // namespace stepfs::fs
