// SPDX-License-Identifier: Apache-2.0
#include "fs/inode_table.h"

namespace stepfs::fs {

using index::InodeNumber;

void InodeTable::Hold(InodeNumber ino) {
  Shard& shard = ShardOf(ino);
  std::lock_guard lock(shard.mutex);
  ++shard.counts[ino];
}

bool InodeTable::Drop(InodeNumber ino, std::uint64_t count) {
  Shard& shard = ShardOf(ino);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.counts.find(ino);
  if (found == shard.counts.end()) return false;
  if (found->second > count) {
    found->second -= count;
    return false;
  }
  shard.counts.erase(found);
  return true;
}

bool InodeTable::IsHeld(InodeNumber ino) const {
  const Shard& shard = ShardOf(ino);
  std::lock_guard lock(shard.mutex);
  return shard.counts.contains(ino);
}

std::vector<InodeNumber> InodeTable::TakeAll() {
  std::vector<InodeNumber> all;
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    for (const auto& [ino, count] : shard.counts) all.push_back(ino);
    shard.counts.clear();
  }
  return all;
}

}  // namespace stepfs::fs
