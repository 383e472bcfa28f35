// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cerrno>
#include <mutex>

#include "fs/ops.h"
#include "fs/reply.h"

namespace stepfs::fs {
namespace {

using Kind = VirtualNode::Kind;

Status ListReal(FileSystem& fs, std::uint64_t ino, std::vector<ListedEntry>& entries) {
  STEPFS_ASSIGN_OR_RETURN(const std::uint64_t parent, fs.tree().ParentOf(ino));
  STEPFS_ASSIGN_OR_RETURN(auto children, fs.tree().ReadDirectory(ino));
  entries.reserve(children.size() + 2);
  entries.push_back({".", ino, S_IFDIR});
  entries.push_back({"..", parent, S_IFDIR});
  for (auto& child : children) entries.push_back({std::move(child.name), child.ino, child.type});
  return {};
}

Status ListVirtual(FileSystem& fs, std::uint64_t ino, std::vector<ListedEntry>& entries) {
  STEPFS_ASSIGN_OR_RETURN(const VirtualNode node, fs.VirtualNodeOf(ino));
  std::uint64_t parent = node.directory;
  if (node.kind != Kind::kTop) {
    STEPFS_ASSIGN_OR_RETURN(const VirtualNode above, fs.versions.ParentOf(node));
    parent = fs.virtual_nodes.NumberOf(above);
  }
  STEPFS_ASSIGN_OR_RETURN(const auto listed, fs.versions.List(node));
  entries.push_back({".", ino, S_IFDIR});
  entries.push_back({"..", parent, S_IFDIR});
  for (const auto& entry : listed) {
    const std::uint32_t type = entry.node.is_file() ? S_IFREG : S_IFDIR;
    entries.push_back({entry.name, fs.virtual_nodes.NumberOf(entry.node), type});
  }
  return {};
}

// Adds one entry to the answer of READDIR. Bytes needed; 0 when the entry is to be left out.
using AddEntry = std::size_t (*)(FileSystem&, fuse_req_t, std::uint64_t directory, MutableBytes room,
                                 const ListedEntry& entry, off_t next);

std::size_t AddPlain(FileSystem&, fuse_req_t request, std::uint64_t, MutableBytes room, const ListedEntry& entry,
                     off_t next) {
  struct stat stat {};
  stat.st_ino = entry.ino;
  stat.st_mode = entry.type;
  return fuse_add_direntry(request, reinterpret_cast<char*>(room.data()), room.size(), entry.name.c_str(), &stat, next);
}

// The kernel makes dentries of these entries, so names are looked up now (it holds the directory's lock meanwhile), not
// when the listing was taken.
std::size_t AddWithAttributes(FileSystem& fs, fuse_req_t request, std::uint64_t directory, MutableBytes room,
                              const ListedEntry& entry, off_t next) {
  fuse_entry_param param{};  // Number 0: a name only.
  param.attr.st_ino = entry.ino;
  param.attr.st_mode = entry.type;
  if (entry.name != "." && entry.name != "..") {
    const auto attributes = fs.LookupAndHold(directory, entry.name);
    if (!attributes.ok() && attributes.status().ToErrno() == ENOENT) return 0;
    if (attributes.ok()) param = ToEntry(*attributes);
  }
  const std::size_t needed = fuse_add_direntry_plus(request, reinterpret_cast<char*>(room.data()), room.size(),
                                                    entry.name.c_str(), &param, next);
  if (needed > room.size() && param.ino != 0) fs.Drop(param.ino, 1);
  return needed;
}

// Fills the answer. The handle's lock is free again before that is sent: a RELEASEDIR may follow it at once.
Status FillEntries(FileSystem& fs, fuse_req_t request, std::uint64_t ino, off_t offset, std::uint64_t handle_number,
                   AddEntry add, MutableBytes buffer, std::size_t& used) {
  DirectoryHandle& handle = fs.directories.Get(handle_number);
  std::lock_guard lock(handle.mutex);
  if (!handle.listed || offset == 0) {
    handle.entries.clear();
    STEPFS_RETURN_IF_ERROR(IsVirtual(ino) ? ListVirtual(fs, ino, handle.entries) : ListReal(fs, ino, handle.entries));
    handle.listed = true;
  }
  for (auto at = static_cast<std::size_t>(offset); at < handle.entries.size(); ++at) {
    const MutableBytes room = buffer.subspan(used);
    const std::size_t needed = add(fs, request, ino, room, handle.entries[at], static_cast<off_t>(at) + 1);
    if (needed > room.size()) break;
    used += needed;
  }
  return {};
}

void ReadEntries(fuse_req_t request, const char* operation, fuse_ino_t ino, std::size_t size, off_t offset,
                 std::uint64_t handle_number, AddEntry add) {
  Handle(request, {operation, ino}, [&](FileSystem& fs, Reply& reply) -> Status {
    ByteVector buffer(size);
    std::size_t used = 0;
    STEPFS_RETURN_IF_ERROR(FillEntries(fs, request, ino, offset, handle_number, add, buffer, used));
    reply.Data(Bytes(buffer).first(used));
    return {};
  });
}

}  // namespace

void OpOpendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Handle(request, {"opendir", ino}, [&](FileSystem&, Reply& reply) -> Status {
    reply.OpenDirectory(*info, std::make_unique<DirectoryHandle>());
    return {};
  });
}

void OpReaddir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info) {
  ReadEntries(request, "readdir", ino, size, offset, info->fh, AddPlain);
}

void OpReaddirplus(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info) {
  ReadEntries(request, "readdirplus", ino, size, offset, info->fh, AddWithAttributes);
}

void OpReleasedir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Handle(request, {"releasedir", ino}, [&](FileSystem& fs, Reply&) -> Status {
    fs.directories.Take(info->fh);
    if (!IsVirtual(ino)) fs.DropIfForgotten(ino);
    return {};
  });
}

void OpFsyncdir(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  Handle(request, {"fsyncdir", ino},
         [&](FileSystem& fs, Reply&) -> Status { return IsVirtual(ino) ? Status() : fs.tree().SyncDirectory(ino); });
}

}  // namespace stepfs::fs
