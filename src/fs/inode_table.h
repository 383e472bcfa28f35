// SPDX-License-Identifier: Apache-2.0
//
// InodeTable: how often the kernel was told of each real inode. A nodeid is the persistent inode number (the root is 1
// in both), so nothing else needs to be kept; the counts say when an unlinked inode is out of the kernel's sight.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "index/schema.h"

namespace stepfs::fs {

class InodeTable {
 public:
  // One more reply names the inode. Call it before the reply is sent.
  void Hold(index::InodeNumber ino);
  // The kernel takes back `count` of them. True when none is left.
  bool Drop(index::InodeNumber ino, std::uint64_t count);
  bool IsHeld(index::InodeNumber ino) const;
  // Every inode that is held; the table is empty then. At the end of a session the kernel does not say goodbye.
  std::vector<index::InodeNumber> TakeAll();

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<index::InodeNumber, std::uint64_t> counts;  // Guarded by mutex.
  };
  static constexpr std::size_t kShards = 16;
  Shard& ShardOf(index::InodeNumber ino) { return shards_[ino % kShards]; }
  const Shard& ShardOf(index::InodeNumber ino) const { return shards_[ino % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace stepfs::fs
