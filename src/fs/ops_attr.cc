// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "fs/ops.h"
#include "fs/reply.h"

namespace stepfs::fs {
namespace {

store::Nanoseconds ToNanoseconds(const timespec& time) {
  return store::Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

store::AttributeChange ToChange(const struct stat& stat, int to_set) {
  store::AttributeChange change;
  if (to_set & FUSE_SET_ATTR_MODE) change.mode = stat.st_mode;
  if (to_set & FUSE_SET_ATTR_UID) change.uid = stat.st_uid;
  if (to_set & FUSE_SET_ATTR_GID) change.gid = stat.st_gid;
  if (to_set & FUSE_SET_ATTR_SIZE) change.size = static_cast<std::uint64_t>(stat.st_size);
  if (to_set & FUSE_SET_ATTR_ATIME) change.atime = ToNanoseconds(stat.st_atim);
  if (to_set & FUSE_SET_ATTR_MTIME) change.mtime = ToNanoseconds(stat.st_mtim);
  if (to_set & FUSE_SET_ATTR_ATIME_NOW) change.atime = store::Now();
  if (to_set & FUSE_SET_ATTR_MTIME_NOW) change.mtime = store::Now();
  if (to_set & FUSE_SET_ATTR_CTIME) change.ctime = ToNanoseconds(stat.st_ctim);
  return change;
}

}  // namespace

void OpGetattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  Handle(request, {"getattr", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    STEPFS_ASSIGN_OR_RETURN(const store::Attributes attributes, fs.AttributesOf(ino));
    reply.Attributes(attributes);
    return {};
  });
}

void OpSetattr(fuse_req_t request, fuse_ino_t ino, struct stat* stat, int to_set, fuse_file_info*) {
  Handle(request, {"setattr", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(ino));
    STEPFS_ASSIGN_OR_RETURN(const store::Attributes attributes, fs.tree().SetAttributes(ino, ToChange(*stat, to_set)));
    reply.Attributes(attributes);
    return {};
  });
}

void OpStatfs(fuse_req_t request, fuse_ino_t ino) {
  Handle(request, {"statfs", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    struct statvfs info {};
    if (statvfs(fs.store().root().c_str(), &info) != 0) return Status::FromErrno(errno, "statvfs of the store");
    info.f_namemax = 255;
    reply.Statfs(info);
    return {};
  });
}

}  // namespace stepfs::fs
