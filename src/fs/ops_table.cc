// SPDX-License-Identifier: Apache-2.0
#include "fs/file_system.h"
#include "fs/ops.h"

namespace stepfs::fs {

const fuse_lowlevel_ops& Operations() {
  static const fuse_lowlevel_ops operations = [] {
    fuse_lowlevel_ops ops{};
    ops.init = OpInit;
    ops.lookup = OpLookup;
    ops.forget = OpForget;
    ops.forget_multi = OpForgetMulti;
    ops.readlink = OpReadlink;
    ops.mknod = OpMknod;
    ops.mkdir = OpMkdir;
    ops.symlink = OpSymlink;
    ops.link = OpLink;
    ops.unlink = OpUnlink;
    ops.rmdir = OpRmdir;
    ops.rename = OpRename;
    ops.opendir = OpOpendir;
    ops.readdir = OpReaddir;
    ops.readdirplus = OpReaddirplus;
    ops.releasedir = OpReleasedir;
    ops.fsyncdir = OpFsyncdir;
    ops.open = OpOpen;
    ops.read = OpRead;
    ops.lseek = OpLseek;
    ops.create = OpCreate;
    ops.write = OpWrite;
    ops.flush = OpFlush;
    ops.release = OpRelease;
    ops.fsync = OpFsync;
    ops.fallocate = OpFallocate;
    ops.getattr = OpGetattr;
    ops.setattr = OpSetattr;
    ops.statfs = OpStatfs;
    ops.getxattr = OpGetxattr;
    ops.setxattr = OpSetxattr;
    ops.listxattr = OpListxattr;
    ops.removexattr = OpRemovexattr;
    return ops;
  }();
  return operations;
}

void OpInit(void* fs, fuse_conn_info* connection) {
  fuse_conn_info& c = *connection;
  constexpr unsigned kMaxTransfer = 1 << 20;
  c.max_write = kMaxTransfer;
  c.max_readahead = kMaxTransfer;

  // A reader of a growing file saw zero bytes with it: pages were dropped and read back while the size was older.
  Want(c, FUSE_CAP_AUTO_INVAL_DATA, false);
  Want(c, FUSE_CAP_EXPLICIT_INVAL_DATA, true);
  // write(2) reports ENOSPC itself, and another process sees what was written, only without it.
  Want(c, FUSE_CAP_WRITEBACK_CACHE, false);
  // The kernel clears set-user-id bits by SETATTR; the tree does not do it on writes.
  Want(c, FUSE_CAP_HANDLE_KILLPRIV, false);
  // O_TRUNC inside OPEN: the former content becomes a version in the same step.
  Want(c, FUSE_CAP_ATOMIC_O_TRUNC, true);
  Want(c, FUSE_CAP_ASYNC_READ, true);
  Want(c, FUSE_CAP_ASYNC_DIO, true);
  Want(c, FUSE_CAP_PARALLEL_DIROPS, true);
  Want(c, FUSE_CAP_READDIRPLUS, true);
  Want(c, FUSE_CAP_READDIRPLUS_AUTO, true);
  Want(c, FUSE_CAP_CACHE_SYMLINKS, true);
  // Kernel-local locks (ops.h), no lookups by number alone, no umask of our own.
  Want(c, FUSE_CAP_POSIX_LOCKS, false);
  Want(c, FUSE_CAP_FLOCK_LOCKS, false);
  Want(c, FUSE_CAP_EXPORT_SUPPORT, false);
  Want(c, FUSE_CAP_DONT_MASK, false);
  static_cast<FileSystem*>(fs)->Started();
}

}  // namespace stepfs::fs
