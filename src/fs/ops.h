// SPDX-License-Identifier: Apache-2.0
//
// The handlers, one for each kernel request, named after it. What the kernel asks and which replies are valid is said
// in <fuse_lowlevel.h>. Locks (flock, POSIX, OFD) have none: the kernel's own are right on a mount of one machine.
// copy_file_range has none either: the kernel then copies by read and write.
#pragma once

#include "fs/fuse_compat.h"

namespace stepfs::fs {

const fuse_lowlevel_ops& Operations();

void OpInit(void* fs, fuse_conn_info* connection);

// ops_lookup.cc
void OpLookup(fuse_req_t request, fuse_ino_t parent, const char* name);
void OpForget(fuse_req_t request, fuse_ino_t ino, std::uint64_t count);
void OpForgetMulti(fuse_req_t request, std::size_t count, fuse_forget_data* forgets);
void OpReadlink(fuse_req_t request, fuse_ino_t ino);

// ops_names.cc
void OpMknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev);
void OpMkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode);
void OpSymlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name);
void OpLink(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char* new_name);
void OpUnlink(fuse_req_t request, fuse_ino_t parent, const char* name);
void OpRmdir(fuse_req_t request, fuse_ino_t parent, const char* name);
void OpRename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
              unsigned flags);

// ops_dir.cc
void OpOpendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info);
void OpReaddir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info);
void OpReaddirplus(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info);
void OpReleasedir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info);
void OpFsyncdir(fuse_req_t request, fuse_ino_t ino, int data_only, fuse_file_info* info);

// ops_read.cc
void OpOpen(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info);
void OpRead(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info);
void OpLseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, fuse_file_info* info);

// ops_write.cc
void OpCreate(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info);
void OpWrite(fuse_req_t request, fuse_ino_t ino, const char* bytes, std::size_t size, off_t offset,
             fuse_file_info* info);
void OpFlush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info);
void OpRelease(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info);
void OpFsync(fuse_req_t request, fuse_ino_t ino, int data_only, fuse_file_info* info);
void OpFallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length, fuse_file_info* info);

// ops_attr.cc
void OpGetattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info);
void OpSetattr(fuse_req_t request, fuse_ino_t ino, struct stat* stat, int to_set, fuse_file_info* info);
void OpStatfs(fuse_req_t request, fuse_ino_t ino);

// ops_xattr.cc
void OpGetxattr(fuse_req_t request, fuse_ino_t ino, const char* name, std::size_t size);
void OpSetxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value, std::size_t size, int flags);
void OpListxattr(fuse_req_t request, fuse_ino_t ino, std::size_t size);
void OpRemovexattr(fuse_req_t request, fuse_ino_t ino, const char* name);

}  // namespace stepfs::fs
