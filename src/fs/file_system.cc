// SPDX-License-Identifier: Apache-2.0
#include "fs/file_system.h"

#include <sys/stat.h>

#include <cerrno>

namespace stepfs::fs {
namespace {

using index::InodeNumber;
using store::Attributes;

// Names and attributes of the tree change only by requests of this kernel, which updates what it has cached by itself;
// st_blocks alone changes behind its back, when a file is sealed. In .stepfs all follows from the live tree: nothing is
// kept, so that a file that was closed to others a moment ago has no open history.
constexpr double kNameSeconds = 60;
constexpr double kAttributeSeconds = 1;

timespec ToTimespec(store::Nanoseconds time) {
  constexpr store::Nanoseconds kSecond = 1'000'000'000;
  timespec spec{};
  spec.tv_sec = time / kSecond;
  spec.tv_nsec = time % kSecond;
  if (spec.tv_nsec < 0) {
    --spec.tv_sec;
    spec.tv_nsec += kSecond;
  }
  return spec;
}

}  // namespace

Result<VirtualNode> FileSystem::VirtualNodeOf(std::uint64_t ino) const {
  const auto node = virtual_nodes.Find(ino);
  if (!node) return Status::Posix(ESTALE);
  return *node;
}

Result<Attributes> FileSystem::AttributesOf(std::uint64_t ino) {
  if (!IsVirtual(ino)) return tree().GetAttributes(ino);
  STEPFS_ASSIGN_OR_RETURN(const VirtualNode node, VirtualNodeOf(ino));
  STEPFS_ASSIGN_OR_RETURN(Attributes attributes, versions.AttributesOf(node));
  attributes.ino = ino;
  return attributes;
}

Result<Attributes> FileSystem::LookupAndHold(std::uint64_t parent, std::string_view name) {
  if (!IsVirtual(parent) && name != kTopName) {
    STEPFS_ASSIGN_OR_RETURN(const Attributes attributes, tree().Lookup(parent, name));
    inodes_.Hold(attributes.ino);
    return attributes;
  }
  VirtualNode node;
  if (IsVirtual(parent)) {
    STEPFS_ASSIGN_OR_RETURN(const VirtualNode parent_node, VirtualNodeOf(parent));
    STEPFS_ASSIGN_OR_RETURN(node, versions.Lookup(parent_node, name));
  } else {
    STEPFS_ASSIGN_OR_RETURN(node, versions.TopOf(parent));
  }
  STEPFS_ASSIGN_OR_RETURN(Attributes attributes, versions.AttributesOf(node));
  attributes.ino = virtual_nodes.Hold(node);
  return attributes;
}

void FileSystem::Drop(std::uint64_t ino, std::uint64_t count) {
  if (IsVirtual(ino)) {
    virtual_nodes.Drop(ino, count);
  } else if (inodes_.Drop(ino, count)) {
    tree().Forget(ino);
  }
}

void FileSystem::DropIfForgotten(InodeNumber ino) {
  if (!inodes_.IsHeld(ino)) tree().Forget(ino);
}

void FileSystem::DropAll() {
  for (const InodeNumber ino : inodes_.TakeAll()) tree().Forget(ino);
}

Status FileSystem::CheckChangeable(std::uint64_t parent, std::string_view name) {
  return IsVirtual(parent) || name == kTopName ? Status::Posix(EROFS) : Status::Ok();
}

std::string FileSystem::Describe(std::uint64_t ino) {
  if (IsVirtual(ino)) {
    const auto node = virtual_nodes.Find(ino);
    return node ? versions.Describe(*node) : std::string(kTopName);
  }
  std::string text = "inode " + std::to_string(ino);
  const auto links = store_.catalog().LinksOf(ino);
  if (!links.ok() || links->empty()) return text;
  const auto path = store_.catalog().PathOf(links->front());
  return path.ok() ? *path + " (" + text + ")" : text;
}

struct stat ToStat(const Attributes& attributes) {
  struct stat stat {};
  stat.st_ino = attributes.ino;
  stat.st_mode = attributes.mode;
  stat.st_nlink = attributes.nlink;
  stat.st_uid = attributes.uid;
  stat.st_gid = attributes.gid;
  stat.st_rdev = attributes.rdev;
  stat.st_size = static_cast<off_t>(attributes.size);
  stat.st_blksize = 1 << 20;
  stat.st_blocks = static_cast<blkcnt_t>(attributes.blocks);
  stat.st_atim = ToTimespec(attributes.atime);
  stat.st_mtim = ToTimespec(attributes.mtime);
  stat.st_ctim = ToTimespec(attributes.ctime);
  return stat;
}

double AttributeSeconds(std::uint64_t ino) { return IsVirtual(ino) ? 0 : kAttributeSeconds; }

fuse_entry_param ToEntry(const Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.ino;
  entry.generation = 0;  // Inode numbers are never reused.
  entry.attr = ToStat(attributes);
  entry.attr_timeout = AttributeSeconds(attributes.ino);
  entry.entry_timeout = IsVirtual(attributes.ino) ? 0 : kNameSeconds;
  return entry;
}

}  // namespace stepfs::fs
