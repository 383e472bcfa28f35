// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "fs/ops.h"
#include "fs/reply.h"

namespace stepfs::fs {

void OpLookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Handle(request, {"lookup", parent}, [&](FileSystem& fs, Reply& reply) -> Status {
    STEPFS_ASSIGN_OR_RETURN(const store::Attributes attributes, fs.LookupAndHold(parent, name));
    reply.Entry(attributes);
    return {};
  });
}

// FORGET is never answered, so these two cannot go through Handle(). What could go wrong (memory) costs at most an
// unlinked inode's row, which the end of the session drops.
void OpForget(fuse_req_t request, fuse_ino_t ino, std::uint64_t count) {
  try {
    FileSystem::Of(request).Drop(ino, count);
  } catch (...) {
  }
  fuse_reply_none(request);
}

void OpForgetMulti(fuse_req_t request, std::size_t count, fuse_forget_data* forgets) {
  try {
    FileSystem& fs = FileSystem::Of(request);
    for (const fuse_forget_data& forget : std::span(forgets, count)) fs.Drop(forget.ino, forget.nlookup);
  } catch (...) {
  }
  fuse_reply_none(request);
}

void OpReadlink(fuse_req_t request, fuse_ino_t ino) {
  Handle(request, {"readlink", ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    if (IsVirtual(ino)) return Status::Posix(EINVAL);
    STEPFS_ASSIGN_OR_RETURN(const std::string target, fs.tree().ReadSymlink(ino));
    reply.Link(target);
    return {};
  });
}

}  // namespace stepfs::fs
