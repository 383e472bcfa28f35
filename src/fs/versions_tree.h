// SPDX-License-Identifier: Apache-2.0
//
// VersionsTree: what is in the .stepfs directories (docs/versions.md, "The virtual tree"):
//
//   DIR/.stepfs/versions/NAME/vNNNNNN, step-N     versions of a living file; the step is another name of the same file
//   DIR/.stepfs/deleted/NAME/vNNNNNN, partial-K   of a name that was removed; what a crash left incomplete
//   DIR/.stepfs/deleted/NAME/K/...                the last contents of the K-th removed directory of that name
//
// Everything is read-only. Owner and permissions of a directory here are DIR's without write bits, so that who may not
// read DIR may not read its history; of a version the writer's, narrowed to what the living file allows now.
//
// Thread-safe; holds nothing of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/virtual_nodes.h"
#include "store/store.h"

namespace stepfs::fs {

inline constexpr std::string_view kTopName = ".stepfs";

class VersionsTree {
 public:
  explicit VersionsTree(store::Store& store) : store_(store) {}

  // The .stepfs directory of a real directory. ENOENT when that was removed, ENOTDIR when it is none.
  Result<VirtualNode> TopOf(index::InodeNumber directory) const;
  // ENOENT when there is no such name.
  Result<VirtualNode> Lookup(const VirtualNode& parent, std::string_view name) const;
  struct Entry {
    std::string name;
    VirtualNode node;
  };
  // Without "." and "..".
  Result<std::vector<Entry>> List(const VirtualNode& directory) const;
  // The directory that a node is in; of the top itself nothing virtual: REQUIRES node.kind != kTop.
  Result<VirtualNode> ParentOf(const VirtualNode& node) const;

  // All but the inode number. ESTALE for a version that retention or coalescing has taken away.
  Result<store::Attributes> AttributesOf(const VirtualNode& node) const;
  // REQUIRES: node.is_file(), for both.
  Result<store::VersionInfo> InfoOf(const VirtualNode& node) const;
  Result<std::shared_ptr<const ByteSource>> Open(const VirtualNode& node) const;

  // "run1/last.pt, version 12", for the log.
  std::string Describe(const VirtualNode& node) const;

 private:
  Result<VirtualNode> LookupVersion(const VirtualNode& parent, std::string_view name) const;
  Result<VirtualNode> LookupDeleted(const VirtualNode& parent, std::string_view name) const;
  Result<VirtualNode> LookupInGrave(const VirtualNode& parent, std::string_view name) const;
  Result<bool> WasDeleted(const index::Place& place) const;

  store::Store& store_;
};

}  // namespace stepfs::fs
