// SPDX-License-Identifier: Apache-2.0
#include "fs/virtual_nodes.h"

#include "base/hash.h"

namespace stepfs::fs {
namespace {

std::uint64_t Hashed(const VirtualNode& node) {
  std::string key(1, static_cast<char>(node.kind));
  for (const std::uint64_t number : {node.directory, node.version, node.content, node.size}) {
    key += std::to_string(number);
    key += '/';
  }
  key += node.name;
  return Hash64(AsBytes(key)) | kFirstVirtualInode;
}

}  // namespace

std::uint64_t VirtualNodes::NumberLocked(const VirtualNode& node) const {
  // Two nodes with one hash: the later one takes the next free number.
  for (std::uint64_t ino = Hashed(node);; ino = (ino + 1) | kFirstVirtualInode) {
    const auto found = slots_.find(ino);
    if (found == slots_.end() || *found->second.node == node) return ino;
  }
}

std::uint64_t VirtualNodes::NumberOf(const VirtualNode& node) const {
  std::lock_guard lock(mutex_);
  return NumberLocked(node);
}

std::uint64_t VirtualNodes::Hold(const VirtualNode& node) {
  std::lock_guard lock(mutex_);
  const std::uint64_t ino = NumberLocked(node);
  Slot& slot = slots_[ino];
  if (!slot.node) slot.node = std::make_shared<const VirtualNode>(node);
  ++slot.count;
  return ino;
}

void VirtualNodes::Drop(std::uint64_t ino, std::uint64_t count) {
  std::lock_guard lock(mutex_);
  const auto found = slots_.find(ino);
  if (found == slots_.end()) return;
  if (found->second.count > count) {
    found->second.count -= count;
  } else {
    slots_.erase(found);
  }
}

std::shared_ptr<const VirtualNode> VirtualNodes::Find(std::uint64_t ino) const {
  std::lock_guard lock(mutex_);
  const auto found = slots_.find(ino);
  return found == slots_.end() ? nullptr : found->second.node;
}

}  // namespace stepfs::fs
