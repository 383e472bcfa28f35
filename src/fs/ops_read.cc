// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "fs/ops.h"
#include "fs/reply.h"

namespace stepfs::fs {
namespace {

Result<std::size_t> ReadVersion(const ByteSource& version, std::uint64_t offset, MutableBytes out) {
  if (offset >= version.size()) return std::size_t{0};
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), version.size() - offset));
  STEPFS_RETURN_IF_ERROR(version.ReadAt(offset, out.first(wanted)));
  return wanted;
}

}  // namespace

void OpOpen(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Handle(request, {"open", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    auto handle = std::make_unique<FileHandle>();
    if (!IsVirtual(ino)) {
      STEPFS_ASSIGN_OR_RETURN(handle->live, fs.tree().Open(ino, info->flags));
      reply.Open(*info, std::move(handle), ChooseIoMode(FileKind::kLive, info->flags));
      return {};
    }
    if ((info->flags & O_ACCMODE) != O_RDONLY || (info->flags & O_TRUNC)) return Status::Posix(EROFS);
    STEPFS_ASSIGN_OR_RETURN(const VirtualNode node, fs.VirtualNodeOf(ino));
    if (!node.is_file()) return Status::Posix(EISDIR);
    STEPFS_ASSIGN_OR_RETURN(handle->version, fs.versions.Open(node));
    reply.Open(*info, std::move(handle), ChooseIoMode(FileKind::kVersion, info->flags));
    return {};
  });
}

void OpRead(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info) {
  Handle(request, {"read", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    thread_local ByteVector buffer;
    if (buffer.size() < size) buffer.resize(size);
    const MutableBytes out = MutableBytes(buffer).first(size);
    FileHandle& handle = fs.files.Get(info->fh);
    const auto start = static_cast<std::uint64_t>(offset);
    STEPFS_ASSIGN_OR_RETURN(const std::size_t got, handle.live ? fs.tree().Read(*handle.live, start, out)
                                                               : ReadVersion(*handle.version, start, out));
    reply.Data(out.first(got));
    return {};
  });
}

void OpLseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, fuse_file_info* info) {
  Handle(request, {"lseek", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    if (whence != SEEK_DATA && whence != SEEK_HOLE) return Status::Posix(EINVAL);
    FileHandle& handle = fs.files.Get(info->fh);
    const auto start = static_cast<std::uint64_t>(offset);
    if (handle.live) {
      STEPFS_ASSIGN_OR_RETURN(const std::uint64_t found, fs.tree().Seek(*handle.live, start, whence));
      reply.Position(found);
      return {};
    }
    // Where a version has holes is not recorded; all of it counts as data.
    const std::uint64_t end = handle.version->size();
    if (start >= end) return Status::Posix(ENXIO);
    reply.Position(whence == SEEK_DATA ? start : end);
    return {};
  });
}

}  // namespace stepfs::fs
