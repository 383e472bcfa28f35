// SPDX-License-Identifier: Apache-2.0
//
// VirtualNodes: the inodes of the .stepfs directories that the kernel knows. Their numbers start at 2^63, where no real
// inode is, and are derived from what the node is: the same node has the same number as long as the mount lives.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "index/schema.h"

namespace stepfs::fs {

inline constexpr std::uint64_t kFirstVirtualInode = std::uint64_t{1} << 63;
inline bool IsVirtual(std::uint64_t ino) { return ino >= kFirstVirtualInode; }

struct VirtualNode {
  enum class Kind : std::uint8_t {
    kTop,         // DIR/.stepfs
    kVersions,    // DIR/.stepfs/versions
    kVersionsOf,  // DIR/.stepfs/versions/NAME
    kDeleted,     // DIR/.stepfs/deleted
    kDeletedOf,   // DIR/.stepfs/deleted/NAME
    kGrave,       // DIR/.stepfs/deleted/NAME/K and directories below it: `directory` is the removed one.
    kVersion,     // A file: one version, under whatever names it has.
  };
  Kind kind = Kind::kTop;
  index::InodeNumber directory = 0;  // DIR, whose owner and permissions hold.
  std::string name = {};             // NAME of kVersionsOf, kDeletedOf and kVersion.
  index::VersionNumber version = 0;  // kVersion: key of its row (index::kPartialNumbers included).
  index::ContentId content = 0;      // kVersion: a number may be given other bytes when versions are coalesced; then it
  std::uint64_t size = 0;            // is another node.

  bool operator==(const VirtualNode&) const = default;
  bool is_file() const { return kind == Kind::kVersion; }
  index::Place place() const { return {directory, name}; }
};

class VirtualNodes {
 public:
  // The number a node has, or will have.
  std::uint64_t NumberOf(const VirtualNode& node) const;
  // As NumberOf; the kernel is told of the node once more.
  std::uint64_t Hold(const VirtualNode& node);
  void Drop(std::uint64_t ino, std::uint64_t count);
  // Null for a number that is not held.
  std::shared_ptr<const VirtualNode> Find(std::uint64_t ino) const;

 private:
  struct Slot {
    std::shared_ptr<const VirtualNode> node;
    std::uint64_t count = 0;
  };
  std::uint64_t NumberLocked(const VirtualNode& node) const;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Slot> slots_;  // Guarded by mutex_.
};

}  // namespace stepfs::fs
