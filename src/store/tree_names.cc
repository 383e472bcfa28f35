// SPDX-License-Identifier: Apache-2.0
//
// Names: making, linking, renaming and removing entries, and what their places remember.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "store/tree_impl.h"

namespace stepfs::store {

using index::DentryRecord;
using index::Table;

Status Tree::Impl::CheckNewName(std::string_view name) const {
  if (name.size() > 255) return Errno(ENAMETOOLONG);
  if (name.empty() || name == "." || name == ".." || name == ".stepfs") return Errno(EEXIST);
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return Errno(EINVAL);
  return {};
}

Result<InodeRecord> Tree::Impl::GetDirectory(Transaction& transaction, InodeNumber ino) const {
  STEPFS_ASSIGN_OR_RETURN(InodeRecord record, transaction.GetInode(ino));
  if (!S_ISDIR(record.mode)) return Errno(ENOTDIR);
  if (record.nlink == 0) return Errno(ENOENT);
  return record;
}

Result<Attributes> Tree::Impl::MakeEntry(const Place& place, InodeRecord record, const Caller& caller,
                                         std::uint32_t /*open_flags*/) {
  STEPFS_RETURN_IF_ERROR(CheckNewName(place.name));
  const Nanoseconds now = Now();
  Changes changes(*this);
  Transaction& transaction = changes.transaction;
  STEPFS_ASSIGN_OR_RETURN(const InodeRecord parent, GetDirectory(transaction, place.parent));
  STEPFS_ASSIGN_OR_RETURN(const auto existing, transaction.FindDentry(place));
  if (existing) return Errno(EEXIST);
  STEPFS_ASSIGN_OR_RETURN(const InodeNumber ino, transaction.NewInode());

  const bool directory = S_ISDIR(record.mode);
  record.uid = caller.uid;
  record.gid = caller.gid;
  if (parent.mode & S_ISGID) {
    record.gid = parent.gid;
    if (directory) record.mode |= S_ISGID;
  }
  record.nlink = directory ? 2 : 1;
  record.atime = record.mtime = record.ctime = now;
  if (directory) record.parent = place.parent;
  changes.Make(ino, record);
  transaction.PutDentry(place, {ino, record.mode & S_IFMT});
  STEPFS_RETURN_IF_ERROR(changes.Patch(place.parent, [now, directory](InodeRecord& changed) {
    ++changed.entries;
    if (directory) ++changed.nlink;
    changed.mtime = changed.ctime = now;
  }));
  STEPFS_RETURN_IF_ERROR(changes.Commit());
  return AttributesOf(ino, record);
}

Result<Attributes> Tree::Lookup(InodeNumber parent, std::string_view name) {
  if (name.size() > 255) return Errno(ENAMETOOLONG);
  STEPFS_ASSIGN_OR_RETURN(const auto dentry, impl_->catalog.FindDentry({parent, std::string(name)}));
  if (!dentry) return Errno(ENOENT);
  return GetAttributes(dentry->ino);
}

Result<Attributes> Tree::MakeNode(InodeNumber parent, std::string_view name, std::uint32_t mode, std::uint64_t rdev,
                                  const Caller& caller) {
  InodeRecord record;
  record.mode = (mode & S_IFMT) == 0 ? mode | S_IFREG : mode;
  record.rdev = rdev;
  return impl_->MakeEntry({parent, std::string(name)}, record, caller);
}

Result<Attributes> Tree::MakeDirectory(InodeNumber parent, std::string_view name, std::uint32_t mode,
                                       const Caller& caller) {
  InodeRecord record;
  record.mode = (mode & ~static_cast<std::uint32_t>(S_IFMT)) | S_IFDIR;
  return impl_->MakeEntry({parent, std::string(name)}, record, caller);
}

Result<Attributes> Tree::MakeSymlink(InodeNumber parent, std::string_view name, std::string_view target,
                                     const Caller& caller) {
  if (target.empty()) return Errno(ENOENT);
  if (target.size() >= 4096) return Errno(ENAMETOOLONG);
  InodeRecord record;
  record.mode = S_IFLNK | 0777;
  record.target = target;
  record.size = target.size();
  return impl_->MakeEntry({parent, std::string(name)}, record, caller);
}

Result<std::pair<Attributes, OpenFilePtr>> Tree::Create(InodeNumber parent, std::string_view name, std::uint32_t mode,
                                                        int flags, const Caller& caller) {
  InodeRecord record;
  record.mode = (mode & ~static_cast<std::uint32_t>(S_IFMT)) | S_IFREG;
  record.uncommitted = true;
  auto made = impl_->MakeEntry({parent, std::string(name)}, record, caller);
  if (!made.ok()) {
    if (made.status().ToErrno() != EEXIST || (flags & O_EXCL) || name == ".stepfs") return made.status();
    made = Lookup(parent, name);
    if (!made.ok()) return made.status();
  }
  STEPFS_ASSIGN_OR_RETURN(OpenFilePtr file, Open(made->ino, flags));
  STEPFS_ASSIGN_OR_RETURN(const Attributes attributes, GetAttributes(made->ino));
  return std::pair{attributes, std::move(file)};
}

Result<Attributes> Tree::Link(InodeNumber ino, InodeNumber new_parent, std::string_view new_name) {
  STEPFS_RETURN_IF_ERROR(impl_->CheckNewName(new_name));
  STEPFS_ASSIGN_OR_RETURN(StatePtr state, impl_->GetState(ino));
  std::unique_lock io(state->io);
  if (S_ISDIR(state->record.mode)) return Errno(EPERM);
  if (S_ISREG(state->record.mode) && state->record.uncommitted && (state->record.closed || state->writers == 0)) {
    STEPFS_RETURN_IF_ERROR(impl_->Commit(*state));
  }
  const Place place{new_parent, std::string(new_name)};
  const Nanoseconds now = Now();
  Impl::Changes changes(*impl_);
  Transaction& transaction = changes.transaction;
  STEPFS_RETURN_IF_ERROR(impl_->GetDirectory(transaction, new_parent).status());
  STEPFS_ASSIGN_OR_RETURN(const auto existing, transaction.FindDentry(place));
  if (existing) return Errno(EEXIST);
  STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, transaction.GetInode(ino));
  if (record.nlink == 0) return Errno(ENOENT);
  if (record.nlink >= 65000) return Errno(EMLINK);
  transaction.PutDentry(place, {ino, record.mode & S_IFMT});
  STEPFS_RETURN_IF_ERROR(changes.Patch(ino, [now](InodeRecord& changed) {
    ++changed.nlink;
    changed.ctime = now;
  }));
  STEPFS_RETURN_IF_ERROR(changes.Patch(new_parent, [now](InodeRecord& changed) {
    ++changed.entries;
    changed.mtime = changed.ctime = now;
  }));
  if (S_ISREG(record.mode) && !record.uncommitted && !IsTransientName(place.name)) {
    VersionRecord version;
    version.content = record.content;
    version.size = record.size;
    version.ino = ino;
    version.time = now;
    version.mtime = record.mtime;
    version.mode = record.mode;
    version.uid = record.uid;
    version.gid = record.gid;
    STEPFS_RETURN_IF_ERROR(Impl::AddVersion(transaction, place, version));
  }
  STEPFS_RETURN_IF_ERROR(changes.Commit());
  std::lock_guard lock(state->meta);
  return impl_->AttributesOf(ino, state->record);
}

Status Tree::Unlink(InodeNumber parent, std::string_view name) {
  const Place place{parent, std::string(name)};
  STEPFS_ASSIGN_OR_RETURN(const auto found, impl_->catalog.FindDentry(place));
  if (!found) return Errno(ENOENT);
  if (found->type == S_IFDIR) return Errno(EISDIR);
  STEPFS_ASSIGN_OR_RETURN(StatePtr state, impl_->GetState(found->ino));
  std::unique_lock io(state->io);
  if (state->record.uncommitted && (state->record.closed || state->writers == 0)) {
    STEPFS_RETURN_IF_ERROR(impl_->Commit(*state));
  }
  const Nanoseconds now = Now();
  Impl::Changes changes(*impl_);
  Transaction& transaction = changes.transaction;
  STEPFS_ASSIGN_OR_RETURN(const auto dentry, transaction.FindDentry(place));
  if (!dentry || dentry->ino != found->ino) return Errno(ENOENT);
  transaction.DeleteDentry(place, dentry->ino);
  STEPFS_RETURN_IF_ERROR(changes.Patch(dentry->ino, [now](InodeRecord& changed) {
    --changed.nlink;
    changed.ctime = now;
  }));
  STEPFS_RETURN_IF_ERROR(changes.Patch(parent, [now](InodeRecord& changed) {
    --changed.entries;
    changed.mtime = changed.ctime = now;
  }));
  STEPFS_RETURN_IF_ERROR(Impl::MarkDeleted(transaction, place));
  return changes.Commit();
}

Status Tree::Impl::BuryDirectory(Changes& changes, const Place& place, InodeNumber ino, InodeRecord record) {
  Transaction& transaction = changes.transaction;
  bool has_history = false;
  for (const Table table : {Table::kVersions, Table::kGraves}) {
    STEPFS_RETURN_IF_ERROR(
        catalog.index().Scan(table, index::ChildPrefix(ino), {}, [&](std::string_view, std::string_view) {
          has_history = true;
          return false;
        }));
  }
  transaction.DeleteDentry(place, ino);
  const Nanoseconds now = Now();
  if (has_history) {
    STEPFS_ASSIGN_OR_RETURN(index::PlaceRecord place_record, transaction.GetPlace(place));
    const std::uint64_t number = place_record.next_grave++;
    transaction.PutPlace(place, place_record);
    transaction.Put(Table::kGraves, index::VersionKey(place, number), index::GraveRecord{ino, now}.Encode());
  }
  record.nlink = 0;
  record.ctime = now;
  record.target = place.name;
  transaction.PutInode(ino, record);
  return {};
}

Status Tree::RemoveDirectory(InodeNumber parent, std::string_view name) {
  if (name == ".") return Errno(EINVAL);
  const Place place{parent, std::string(name)};
  Impl::Changes changes(*impl_);
  Transaction& transaction = changes.transaction;
  STEPFS_ASSIGN_OR_RETURN(const auto dentry, transaction.FindDentry(place));
  if (!dentry) return Errno(ENOENT);
  STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, transaction.GetInode(dentry->ino));
  if (!S_ISDIR(record.mode)) return Errno(ENOTDIR);
  if (record.entries != 0) return Errno(ENOTEMPTY);
  STEPFS_RETURN_IF_ERROR(impl_->BuryDirectory(changes, place, dentry->ino, record));
  const Nanoseconds now = Now();
  STEPFS_RETURN_IF_ERROR(changes.Patch(parent, [now](InodeRecord& changed) {
    --changed.entries;
    --changed.nlink;
    changed.mtime = changed.ctime = now;
  }));
  return changes.Commit();
}

namespace {

// Moves or makes the version that a renamed file's content becomes at its new place.
Status RenameVersion(Catalog& catalog, Transaction& transaction, const Place& from, const Place& to, InodeNumber ino,
                     const InodeRecord& record, bool replaces, bool keep_old) {
  if (!S_ISREG(record.mode) || record.uncommitted) return {};
  VersionRecord version;
  version.content = record.content;
  version.size = record.size;
  version.ino = ino;
  version.mtime = record.mtime;
  version.mode = record.mode;
  version.uid = record.uid;
  version.gid = record.gid;
  STEPFS_ASSIGN_OR_RETURN(const auto newest, catalog.NewestVersion(from));
  const bool moves = newest && newest->record.content == record.content && newest->record.size == record.size &&
                     newest->record.ino == ino;
  if (moves) version = newest->record;
  version.time = Now();
  version.flags &= ~static_cast<std::uint32_t>(VersionRecord::kProvisional);
  if (replaces) version.flags |= VersionRecord::kReplacing;
  if (!IsTransientName(to.name)) {
    STEPFS_RETURN_IF_ERROR(Tree::Impl::AddVersion(transaction, to, version));
  }
  if (moves && !keep_old) {
    transaction.DeleteVersion(from, newest->version);
    STEPFS_RETURN_IF_ERROR(transaction.DropReference(record.content));
  }
  return {};
}

}  // namespace

Status Tree::Rename(InodeNumber parent, std::string_view name, InodeNumber new_parent, std::string_view new_name,
                    unsigned flags) {
  if (flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) return Errno(EINVAL);
  if ((flags & RENAME_NOREPLACE) && (flags & RENAME_EXCHANGE)) return Errno(EINVAL);
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  if (Status checked = impl_->CheckNewName(new_name); !checked.ok()) return checked;
  const Place from{parent, std::string(name)};
  const Place to{new_parent, std::string(new_name)};
  Catalog& catalog = impl_->catalog;

  for (;;) {
    STEPFS_ASSIGN_OR_RETURN(const auto source, catalog.FindDentry(from));
    STEPFS_ASSIGN_OR_RETURN(const auto target, catalog.FindDentry(to));
    if (!source) return Errno(ENOENT);
    if (exchange && !target) return Errno(ENOENT);
    if (target && (flags & RENAME_NOREPLACE)) return Errno(EEXIST);
    if (target && target->ino == source->ino) return {};
    const bool source_is_directory = source->type == S_IFDIR;
    const bool target_is_directory = target && target->type == S_IFDIR;
    if (target && !exchange && source_is_directory != target_is_directory) {
      return Errno(source_is_directory ? ENOTDIR : EISDIR);
    }

    // Both files' data get their versions first: the one that comes, unless its writer is still at work, and the one
    // that goes, whatever its writer does.
    std::vector<InodeNumber> regular;
    if (source->type == S_IFREG) regular.push_back(source->ino);
    if (target && target->type == S_IFREG) regular.push_back(target->ino);
    STEPFS_ASSIGN_OR_RETURN(const auto states, impl_->StatesOf(regular));
    std::vector<std::unique_lock<std::shared_mutex>> locks;
    for (const StatePtr& state : states) locks.emplace_back(state->io);
    for (const StatePtr& state : states) {
      if (!state->record.uncommitted) continue;
      const bool at_rest = state->record.closed || state->writers == 0;
      const bool is_target = target && state->ino == target->ino;
      if (!at_rest && !is_target) continue;
      STEPFS_RETURN_IF_ERROR(impl_->FlushLocked(*state));
      STEPFS_RETURN_IF_ERROR(impl_->Commit(*state, at_rest ? 0u : std::uint32_t{VersionRecord::kUnclosed}));
    }

    const Nanoseconds now = Now();
    Impl::Changes changes(*impl_);
    Transaction& transaction = changes.transaction;
    STEPFS_ASSIGN_OR_RETURN(const auto source_now, transaction.FindDentry(from));
    STEPFS_ASSIGN_OR_RETURN(const auto target_now, transaction.FindDentry(to));
    const auto same = [](const std::optional<DentryRecord>& a, const std::optional<DentryRecord>& b) {
      return a.has_value() == b.has_value() && (!a || a->ino == b->ino);
    };
    if (!same(source, source_now) || !same(target, target_now)) continue;  // Somebody was faster: look again.

    STEPFS_RETURN_IF_ERROR(impl_->GetDirectory(transaction, new_parent).status());
    STEPFS_ASSIGN_OR_RETURN(const InodeRecord source_record, transaction.GetInode(source->ino));
    if (source_is_directory || (exchange && target_is_directory)) {
      // A directory cannot move below itself.
      for (const auto& [mover, into] :
           {std::pair{source->ino, new_parent}, std::pair{exchange && target ? target->ino : InodeNumber{0}, parent}}) {
        for (InodeNumber at = into; mover != 0 && at != index::kRootInode;) {
          if (at == mover) return Errno(EINVAL);
          STEPFS_ASSIGN_OR_RETURN(const InodeRecord ancestor, transaction.GetInode(at));
          at = ancestor.parent;
        }
      }
    }
    InodeRecord target_record;
    if (target) {
      STEPFS_ASSIGN_OR_RETURN(target_record, transaction.GetInode(target->ino));
      if (target_is_directory && !exchange && target_record.entries != 0) return Errno(ENOTEMPTY);
    }

    if (target && target_is_directory && !exchange) {
      STEPFS_RETURN_IF_ERROR(impl_->BuryDirectory(changes, to, target->ino, target_record));
    } else if (target) {
      transaction.DeleteDentry(to, target->ino);
    }
    transaction.DeleteDentry(from, source->ino);
    transaction.PutDentry(to, *source);
    STEPFS_RETURN_IF_ERROR(changes.Patch(source->ino, [now, new_parent, source_is_directory](InodeRecord& changed) {
      changed.ctime = now;
      if (source_is_directory) changed.parent = new_parent;
    }));
    STEPFS_RETURN_IF_ERROR(RenameVersion(catalog, transaction, from, to, source->ino, source_record,
                                         target && !target_is_directory, exchange));
    // Entries and subdirectories that each parent gains or loses.
    int entries_from = -1, entries_to = target ? 0 : 1;
    int directories_from = source_is_directory ? -1 : 0;
    int directories_to = (source_is_directory ? 1 : 0) - (target_is_directory ? 1 : 0);
    if (exchange) {
      transaction.PutDentry(from, *target);
      entries_from = 0;
      directories_from += target_is_directory ? 1 : 0;
      STEPFS_RETURN_IF_ERROR(changes.Patch(target->ino, [now, parent, target_is_directory](InodeRecord& changed) {
        changed.ctime = now;
        if (target_is_directory) changed.parent = parent;
      }));
      STEPFS_RETURN_IF_ERROR(
          RenameVersion(catalog, transaction, to, from, target->ino, target_record, !source_is_directory, true));
    } else {
      if (target && !target_is_directory) {
        STEPFS_RETURN_IF_ERROR(changes.Patch(target->ino, [now](InodeRecord& changed) {
          --changed.nlink;
          changed.ctime = now;
        }));
      }
      STEPFS_RETURN_IF_ERROR(Impl::MarkDeleted(transaction, from));
    }
    STEPFS_RETURN_IF_ERROR(changes.Patch(parent, [=](InodeRecord& changed) {
      changed.entries += static_cast<std::uint64_t>(entries_from);
      changed.nlink += static_cast<std::uint32_t>(directories_from);
      changed.mtime = changed.ctime = now;
    }));
    STEPFS_RETURN_IF_ERROR(changes.Patch(new_parent, [=](InodeRecord& changed) {
      changed.entries += static_cast<std::uint64_t>(entries_to);
      changed.nlink += static_cast<std::uint32_t>(directories_to);
      changed.mtime = changed.ctime = now;
    }));
    return changes.Commit();
  }
}

Result<std::string> Tree::ReadSymlink(InodeNumber ino) {
  STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, impl_->catalog.GetInode(ino));
  if (!S_ISLNK(record.mode)) return Errno(EINVAL);
  return record.target;
}

Result<std::vector<Tree::DirectoryEntry>> Tree::ReadDirectory(InodeNumber ino) {
  STEPFS_ASSIGN_OR_RETURN(auto children, impl_->catalog.Children(ino));
  std::vector<DirectoryEntry> entries;
  entries.reserve(children.size());
  for (auto& child : children) entries.push_back({std::move(child.name), child.dentry.ino, child.dentry.type});
  return entries;
}

Result<InodeNumber> Tree::ParentOf(InodeNumber directory) {
  if (directory == index::kRootInode) return index::kRootInode;
  STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, impl_->catalog.GetInode(directory));
  return record.parent;
}

Status Tree::Impl::RemoveInode(InodeNumber ino) {
  {
    auto record = catalog.GetInode(ino);
    if (!record.ok() || record->nlink > 0) return {};
  }
  StatePtr state = FindState(ino);
  std::unique_lock<std::shared_mutex> io;
  if (state) {
    io = std::unique_lock(state->io);
    if (state->opens > 0) return {};
  }
  Changes changes(*this);
  Transaction& transaction = changes.transaction;
  auto record = transaction.GetInode(ino);
  if (!record.ok() || record->nlink > 0) return {};
  if (S_ISDIR(record->mode)) {
    // A grave's directory keeps its row: its history is found through it.
    STEPFS_ASSIGN_OR_RETURN(const index::PlaceRecord place, transaction.GetPlace({record->parent, record->target}));
    for (std::uint64_t number = 1; number < place.next_grave; ++number) {
      STEPFS_ASSIGN_OR_RETURN(
          const auto row, transaction.Raw(Table::kGraves, index::VersionKey({record->parent, record->target}, number)));
      if (!row) continue;
      STEPFS_ASSIGN_OR_RETURN(const auto grave, index::GraveRecord::Decode(*row));
      if (grave.ino == ino) return {};
    }
  }
  std::vector<std::string> xattrs;
  STEPFS_RETURN_IF_ERROR(
      catalog.index().Scan(Table::kXattrs, index::InodeKey(ino), {}, [&](std::string_view key, std::string_view) {
        xattrs.emplace_back(key);
        return true;
      }));
  for (const std::string& key : xattrs) transaction.Delete(Table::kXattrs, key);
  STEPFS_RETURN_IF_ERROR(transaction.DropReference(record->content));
  transaction.DeleteInode(ino);
  return changes.Commit();
}

}  // namespace stepfs::store
