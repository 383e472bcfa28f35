// SPDX-License-Identifier: Apache-2.0
#include <sys/xattr.h>

#include <cerrno>

#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/virtual_xattrs.h"

namespace stepfs::fs {
namespace {

constexpr std::string_view kUserPrefix = "user.";

// The version that a living file's content was last committed as; ENODATA before the first.
Result<store::VersionInfo> NewestVersionOf(FileSystem& fs, std::uint64_t ino) {
  const store::Catalog& catalog = fs.store().catalog();
  STEPFS_ASSIGN_OR_RETURN(const auto links, catalog.LinksOf(ino));
  for (const index::Place& place : links) {
    STEPFS_ASSIGN_OR_RETURN(const auto newest, catalog.NewestVersion(place));
    if (newest && newest->record.ino == ino) return fs.store().history().Version(place, newest->version);
  }
  return Status::Posix(ENODATA);
}

Result<std::string> GetVirtual(FileSystem& fs, std::uint64_t ino, std::string_view name) {
  store::VersionInfo info;
  if (IsVirtual(ino)) {
    STEPFS_ASSIGN_OR_RETURN(const VirtualNode node, fs.VirtualNodeOf(ino));
    if (!node.is_file()) return Status::Posix(ENODATA);
    STEPFS_ASSIGN_OR_RETURN(info, fs.versions.InfoOf(node));
  } else {
    STEPFS_ASSIGN_OR_RETURN(info, NewestVersionOf(fs, ino));
  }
  auto value = VirtualXattr(fs.store().history(), info, name);
  if (!value) return Status::Posix(ENODATA);
  return std::move(*value);
}

// Answers a request that first asks for the size (0 bytes of room), then for the bytes.
Status ReplyValue(Reply& reply, std::string_view value, std::size_t room) {
  if (room == 0) {
    reply.XattrSize(value.size());
  } else if (value.size() > room) {
    return Status::Posix(ERANGE);
  } else {
    reply.Data(AsBytes(value));
  }
  return {};
}

Status CheckSettable(std::uint64_t ino, std::string_view name) {
  STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(ino));
  if (name.starts_with(kVirtualXattrPrefix)) return Status::Posix(EPERM);
  return name.starts_with(kUserPrefix) ? Status::Ok() : Status::Posix(EOPNOTSUPP);
}

}  // namespace

void OpGetxattr(fuse_req_t request, fuse_ino_t ino, const char* name, std::size_t size) {
  // The kernel asks for security.capability before every write: that one is answered without looking anything up.
  const std::string_view key = name;
  if (!key.starts_with(kUserPrefix)) {
    fuse_reply_err(request, ENODATA);
    return;
  }
  Handle(request, {"getxattr", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    if (!key.starts_with(kVirtualXattrPrefix) && IsVirtual(ino)) return Status::Posix(ENODATA);
    STEPFS_ASSIGN_OR_RETURN(const std::string value, key.starts_with(kVirtualXattrPrefix)
                                                         ? GetVirtual(fs, ino, key)
                                                         : fs.tree().GetXattr(ino, key));
    return ReplyValue(reply, value, size);
  });
}

void OpSetxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value, std::size_t size, int flags) {
  Handle(request, {"setxattr", ino}, [&](FileSystem& fs, Reply&) -> Status {
    STEPFS_RETURN_IF_ERROR(CheckSettable(ino, name));
    return fs.tree().SetXattr(ino, name, std::string_view(value, size), flags);
  });
}

void OpListxattr(fuse_req_t request, fuse_ino_t ino, std::size_t size) {
  Handle(request, {"listxattr", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    std::string list;
    if (!IsVirtual(ino)) {
      STEPFS_ASSIGN_OR_RETURN(const auto names, fs.tree().ListXattrs(ino));
      for (const std::string& name : names) (list += name) += '\0';
    }
    return ReplyValue(reply, list, size);
  });
}

void OpRemovexattr(fuse_req_t request, fuse_ino_t ino, const char* name) {
  Handle(request, {"removexattr", ino}, [&](FileSystem& fs, Reply&) -> Status {
    STEPFS_RETURN_IF_ERROR(CheckSettable(ino, name));
    return fs.tree().RemoveXattr(ino, name);
  });
}

}  // namespace stepfs::fs
