// SPDX-License-Identifier: Apache-2.0
//
// Requests that make, move and remove names.
#include <cerrno>

#include "fs/ops.h"
#include "fs/reply.h"

namespace stepfs::fs {
namespace {

store::Caller CallerOf(fuse_req_t request) {
  const fuse_ctx& context = *fuse_req_ctx(request);
  return {context.uid, context.gid};
}

// Makes an entry by `make(Tree&)` and answers with it. Making ".stepfs" itself is the tree's EEXIST.
template <typename Make>
void MakeEntry(fuse_req_t request, const char* operation, fuse_ino_t parent, Make&& make) {
  Handle(request, {operation, parent}, [&](FileSystem& fs, Reply& reply) -> Status {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(parent));
    STEPFS_ASSIGN_OR_RETURN(const store::Attributes attributes, make(fs.tree()));
    fs.Hold(attributes.ino);
    reply.Entry(attributes);
    return {};
  });
}

}  // namespace

void OpMknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  MakeEntry(request, "mknod", parent,
            [&](store::Tree& tree) { return tree.MakeNode(parent, name, mode, rdev, CallerOf(request)); });
}

void OpMkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  MakeEntry(request, "mkdir", parent,
            [&](store::Tree& tree) { return tree.MakeDirectory(parent, name, mode, CallerOf(request)); });
}

void OpSymlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  MakeEntry(request, "symlink", parent,
            [&](store::Tree& tree) { return tree.MakeSymlink(parent, name, target, CallerOf(request)); });
}

void OpLink(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char* new_name) {
  MakeEntry(request, "link", new_parent, [&](store::Tree& tree) -> Result<store::Attributes> {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(ino));
    return tree.Link(ino, new_parent, new_name);
  });
}

void OpUnlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Handle(request, {"unlink", parent}, [&](FileSystem& fs, Reply&) -> Status {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(parent, name));
    return fs.tree().Unlink(parent, name);
  });
}

void OpRmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Handle(request, {"rmdir", parent}, [&](FileSystem& fs, Reply&) -> Status {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(parent, name));
    return fs.tree().RemoveDirectory(parent, name);
  });
}

void OpRename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
              unsigned flags) {
  Handle(request, {"rename", parent}, [&](FileSystem& fs, Reply&) -> Status {
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(parent, name));
    STEPFS_RETURN_IF_ERROR(FileSystem::CheckChangeable(new_parent));
    return fs.tree().Rename(parent, name, new_parent, new_name, flags);
  });
}

}  // namespace stepfs::fs
