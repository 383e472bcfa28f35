// SPDX-License-Identifier: Apache-2.0
//
// Attributes and extended attributes.
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>

#include "store/tree_impl.h"

namespace stepfs::store {

using index::Table;

Result<Attributes> Tree::Impl::AttributesOf(InodeNumber ino, const InodeRecord& record) {
  Attributes attributes;
  attributes.ino = ino;
  attributes.mode = record.mode;
  attributes.uid = record.uid;
  attributes.gid = record.gid;
  attributes.nlink = record.nlink;
  attributes.rdev = record.rdev;
  attributes.size = S_ISDIR(record.mode) ? 4096 : record.size;
  attributes.atime = record.atime;
  attributes.mtime = record.mtime;
  attributes.ctime = record.ctime;
  if (S_ISDIR(record.mode)) {
    attributes.blocks = 8;
  } else if (S_ISREG(record.mode) && record.size > 0) {
    std::uint64_t stored = record.size;
    if (auto content = catalog.GetContent(record.content); content.ok()) {
      if (content->state == ContentState::kSealed || content->state == ContentState::kInline ||
          content->state == ContentState::kAlias) {
        stored = content->stored_bytes;
      }
    }
    attributes.blocks = std::max<std::uint64_t>(1, (stored + 511) / 512);
  }
  return attributes;
}

Result<Attributes> Tree::GetAttributes(InodeNumber ino) {
  STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, impl_->CurrentRecord(ino));
  return impl_->AttributesOf(ino, record);
}

Result<Attributes> Tree::SetAttributes(InodeNumber ino, const AttributeChange& change) {
  STEPFS_ASSIGN_OR_RETURN(StatePtr state, impl_->GetState(ino));
  std::unique_lock io(state->io);
  if (change.size) {
    if (!S_ISREG(state->record.mode)) return Errno(S_ISDIR(state->record.mode) ? EISDIR : EINVAL);
    STEPFS_RETURN_IF_ERROR(impl_->Truncate(*state, *change.size));
    if (state->writers == 0) {
      // truncate(2) without an open file.
      STEPFS_RETURN_IF_ERROR(impl_->FlushLocked(*state));
      STEPFS_RETURN_IF_ERROR(impl_->Commit(*state));
    }
  }
  const Nanoseconds now = Now();
  Impl::Changes changes(*impl_);
  STEPFS_RETURN_IF_ERROR(changes.Patch(ino, [&](InodeRecord& record) {
    constexpr std::uint32_t kPermissions = 07777;
    if (change.mode) record.mode = (record.mode & ~kPermissions) | (*change.mode & kPermissions);
    if (change.uid) record.uid = *change.uid;
    if (change.gid) record.gid = *change.gid;
    if (change.atime) record.atime = *change.atime;
    if (change.mtime) record.mtime = *change.mtime;
    record.ctime = change.ctime.value_or(now);
  }));
  if (S_ISREG(state->record.mode) && !state->record.uncommitted &&
      (change.mode || change.uid || change.gid || change.mtime)) {
    // Metadata often arrives after the last close; it belongs to the version that was closed.
    STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, changes.transaction.GetInode(ino));
    STEPFS_ASSIGN_OR_RETURN(const auto links, impl_->catalog.LinksOf(ino));
    for (const Place& place : links) {
      STEPFS_ASSIGN_OR_RETURN(auto newest, impl_->catalog.NewestVersion(place));
      if (!newest || newest->record.ino != ino || newest->record.content != record.content) continue;
      newest->record.mode = record.mode;
      newest->record.uid = record.uid;
      newest->record.gid = record.gid;
      newest->record.mtime = record.mtime;
      changes.transaction.PutVersion(place, newest->version, newest->record);
    }
  }
  STEPFS_RETURN_IF_ERROR(changes.Commit());
  std::lock_guard lock(state->meta);
  return impl_->AttributesOf(ino, state->record);
}

Result<std::string> Tree::GetXattr(InodeNumber ino, std::string_view name) {
  STEPFS_ASSIGN_OR_RETURN(auto value, impl_->catalog.Raw(Table::kXattrs, index::XattrKey(ino, name)));
  if (!value) return Errno(ENODATA);
  return std::move(*value);
}

Status Tree::SetXattr(InodeNumber ino, std::string_view name, std::string_view value, int flags) {
  if (name.size() > 255) return Errno(ERANGE);
  if (value.size() > 65536) return Errno(E2BIG);
  const std::string key = index::XattrKey(ino, name);
  const Nanoseconds now = Now();
  Impl::Changes changes(*impl_);
  STEPFS_ASSIGN_OR_RETURN(const auto existing, changes.transaction.Raw(Table::kXattrs, key));
  if (existing && (flags & XATTR_CREATE)) return Errno(EEXIST);
  if (!existing && (flags & XATTR_REPLACE)) return Errno(ENODATA);
  changes.transaction.Put(Table::kXattrs, key, value);
  STEPFS_RETURN_IF_ERROR(changes.Patch(ino, [now](InodeRecord& record) { record.ctime = now; }));
  return changes.Commit();
}

Result<std::vector<std::string>> Tree::ListXattrs(InodeNumber ino) {
  std::vector<std::string> names;
  STEPFS_RETURN_IF_ERROR(impl_->catalog.index().Scan(Table::kXattrs, index::InodeKey(ino), {},
                                                     [&](std::string_view key, std::string_view) {
                                                       names.emplace_back(key.substr(8));
                                                       return true;
                                                     }));
  return names;
}

Status Tree::RemoveXattr(InodeNumber ino, std::string_view name) {
  const std::string key = index::XattrKey(ino, name);
  const Nanoseconds now = Now();
  Impl::Changes changes(*impl_);
  STEPFS_ASSIGN_OR_RETURN(const auto existing, changes.transaction.Raw(Table::kXattrs, key));
  if (!existing) return Errno(ENODATA);
  changes.transaction.Delete(Table::kXattrs, key);
  STEPFS_RETURN_IF_ERROR(changes.Patch(ino, [now](InodeRecord& record) { record.ctime = now; }));
  return changes.Commit();
}

Status Tree::SyncDirectory(InodeNumber) { return impl_->catalog.index().SyncJournal(); }

}  // namespace stepfs::store
