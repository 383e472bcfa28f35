// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include "fs/ops.h"
#include "fs/reply.h"

namespace stepfs::fs {

void OpCreate(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Handle(request, {"create", parent}, [&](FileSystem& fs, Reply& reply) -> Status {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(parent));
    const fuse_ctx& caller = *fuse_req_ctx(request);
    auto handle = std::make_unique<FileHandle>();
    STEPFS_ASSIGN_OR_RETURN(auto created, fs.tree().Create(parent, name, mode, info->flags, {caller.uid, caller.gid}));
    handle->live = std::move(created.second);
    fs.Hold(created.first.ino);
    reply.Create(created.first, *info, std::move(handle), ChooseIoMode(FileKind::kLive, info->flags));
    return {};
  });
}

void OpWrite(fuse_req_t request, fuse_ino_t ino, const char* bytes, std::size_t size, off_t offset,
             fuse_file_info* info) {
  Handle(request, {"write", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    FileHandle& handle = fs.files.Get(info->fh);
    if (!handle.live) return Status::Posix(EROFS);
    STEPFS_ASSIGN_OR_RETURN(const std::size_t written, fs.tree().Write(*handle.live, static_cast<std::uint64_t>(offset),
                                                                       AsBytes(std::string_view(bytes, size))));
    reply.Written(written);
    return {};
  });
}

void OpFlush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Handle(request, {"flush", ino}, [&](FileSystem& fs, Reply&) -> Status {
    FileHandle& handle = fs.files.Get(info->fh);
    return handle.live ? fs.tree().Flush(*handle.live) : Status();
  });
}

void OpRelease(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Handle(request, {"release", ino}, [&](FileSystem& fs, Reply&) -> Status {
    const auto handle = fs.files.Take(info->fh);
    if (!handle->live) return {};
    const Status status = fs.tree().Release(std::move(handle->live));
    fs.DropIfForgotten(ino);
    return status;
  });
}

void OpFsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info* info) {
  Handle(request, {"fsync", ino}, [&](FileSystem& fs, Reply&) -> Status {
    FileHandle& handle = fs.files.Get(info->fh);
    return handle.live ? fs.tree().Fsync(*handle.live) : Status();
  });
}

void OpFallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length, fuse_file_info* info) {
  Handle(request, {"fallocate", ino}, [&](FileSystem& fs, Reply&) -> Status {
    FileHandle& handle = fs.files.Get(info->fh);
    if (!handle.live) return Status::Posix(EROFS);
    return fs.tree().Allocate(*handle.live, mode, static_cast<std::uint64_t>(offset),
                              static_cast<std::uint64_t>(length));
  });
}

}  // namespace stepfs::fs
