// SPDX-License-Identifier: Apache-2.0
//
// FileSystem: what the handlers of the mount share: the open store, the inodes and handles the kernel knows, and the
// two kinds of inodes (real ones of the tree, virtual ones of .stepfs) under one roof. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fs/fuse_compat.h"
#include "fs/handle_table.h"
#include "fs/inode_table.h"
#include "fs/versions_tree.h"
#include "fs/virtual_nodes.h"
#include "store/store.h"

namespace stepfs::fs {

static_assert(sizeof(fuse_ino_t) == sizeof(index::InodeNumber), "a nodeid is an inode number");
static_assert(FUSE_ROOT_ID == index::kRootInode);

class FileSystem {
 public:
  explicit FileSystem(store::Store& store) : versions(store), store_(store) {}

  static FileSystem& Of(fuse_req_t request) { return *static_cast<FileSystem*>(fuse_req_userdata(request)); }

  store::Store& store() { return store_; }
  store::Tree& tree() { return store_.tree(); }
  // The kernel's first request (INIT) came: others follow. REQUIRES: SetOnStarted before requests are served.
  void SetOnStarted(std::function<void()> on_started) { on_started_ = std::move(on_started); }
  void Started() { on_started_(); }

  // Attributes of any inode the kernel knows.
  Result<store::Attributes> AttributesOf(std::uint64_t ino);
  // Looks a name up and counts the answer as told to the kernel: Drop() it when it is not sent.
  Result<store::Attributes> LookupAndHold(std::uint64_t parent, std::string_view name);
  void Hold(index::InodeNumber ino) { inodes_.Hold(ino); }
  // The kernel (or a reply that did not reach it) gives `count` mentions of an inode back.
  void Drop(std::uint64_t ino, std::uint64_t count);
  // After a release: an unlinked inode that the kernel had forgotten before can go now.
  void DropIfForgotten(index::InodeNumber ino);
  // The session is over.
  void DropAll();

  // The node of a virtual inode. ESTALE when the kernel should not know it.
  Result<VirtualNode> VirtualNodeOf(std::uint64_t ino) const;
  // EROFS when the entry `name` of `parent` is in .stepfs or is it.
  static Status CheckChangeable(std::uint64_t parent, std::string_view name = {});

  // "run1/last.pt (inode 12)" and the like, for the log.
  std::string Describe(std::uint64_t ino);

  HandleTable<FileHandle> files;
  HandleTable<DirectoryHandle> directories;
  VirtualNodes virtual_nodes;
  VersionsTree versions;

 private:
  store::Store& store_;
  std::function<void()> on_started_;
  InodeTable inodes_;
};

struct stat ToStat(const store::Attributes& attributes);
// Seconds the kernel may use attributes without asking again.
double AttributeSeconds(std::uint64_t ino);
fuse_entry_param ToEntry(const store::Attributes& attributes);

}  // namespace stepfs::fs
