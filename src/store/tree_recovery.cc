// SPDX-License-Identifier: Apache-2.0
//
// Recovery by evidence (docs/versions.md, "After a crash"). A content's bytes are believed when they are known to have
// been synced, when they match a digest recorded before, or when the page cache cannot have been lost since they were
// written. Everything else goes back to the version before it, and is kept aside as partial-K.
#include <sys/stat.h>

#include <map>

#include "base/hash.h"
#include "store/tree_impl.h"

namespace stepfs::store {
namespace {

using index::Table;

struct Verdict {
  std::uint64_t on_disk = 0;  // Size of the staging file.
  std::uint64_t proven = 0;   // Leading bytes that are believed.
  bool whole = false;         // All that the row promises is proven.
};

Result<bool> MatchesDigest(const File& file, std::uint64_t size, const Digest& digest) {
  DigestBuilder builder;
  ByteVector buffer(std::size_t{1} << 20);
  for (std::uint64_t offset = 0; offset < size;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - offset));
    STEPFS_ASSIGN_OR_RETURN(const std::size_t got, file.ReadAt(offset, MutableBytes(buffer).first(wanted)));
    if (got != wanted) return false;
    builder.Update(Bytes(buffer).first(got));
    offset += got;
  }
  return builder.Finish() == digest;
}

Result<Verdict> Judge(ContentStore& contents, ContentId id, const ContentRecord& row, bool same_session) {
  Verdict verdict;
  auto file = contents.OpenStaging(id);
  if (!file.ok()) {
    if (file.status().ToErrno() != ENOENT) return file.status();
    verdict.whole = row.size == 0 && row.state == ContentState::kStaged;
    return verdict;
  }
  STEPFS_ASSIGN_OR_RETURN(verdict.on_disk, (*file)->Size());
  const bool open = row.state == ContentState::kOpen;
  if (same_session) {
    verdict.proven = open ? verdict.on_disk : std::min(verdict.on_disk, row.size);
    verdict.whole = open || verdict.on_disk >= row.size;
    return verdict;
  }
  if (!open && row.synced_size >= row.size && verdict.on_disk >= row.size) {
    verdict.proven = row.size;
    verdict.whole = true;
  } else if (!open && row.digest && verdict.on_disk >= row.size) {
    STEPFS_ASSIGN_OR_RETURN(verdict.whole, MatchesDigest(**file, row.size, *row.digest));
    if (verdict.whole) verdict.proven = row.size;
  }
  if (!verdict.whole && row.synced_size > 0) {
    // What fsync promised is there; where it was written over since, the file is what the disk has, as POSIX allows.
    verdict.proven = row.overwritten_since_sync ? verdict.on_disk : std::min(verdict.on_disk, row.synced_size);
    verdict.whole = open && verdict.proven >= row.size;
  }
  return verdict;
}

}  // namespace

Status Tree::Recover(bool same_session, RecoveryReport& report) {
  Catalog& catalog = impl_->catalog;
  std::map<ContentId, Verdict> verdicts;
  {
    std::vector<std::pair<ContentId, ContentRecord>> unsealed;
    Status damage;
    STEPFS_RETURN_IF_ERROR(
        catalog.index().Scan(Table::kContents, {}, {}, [&](std::string_view key, std::string_view value) {
          auto row = ContentRecord::Decode(value);
          if (!row.ok()) damage = row.status();
          const auto id = index::NumberFromKey(key);
          if (row.ok() && id && (row->state == ContentState::kOpen || row->state == ContentState::kStaged)) {
            unsealed.emplace_back(*id, std::move(*row));
          }
          return damage.ok();
        }));
    STEPFS_RETURN_IF_ERROR(damage);
    for (const auto& [id, row] : unsealed) {
      STEPFS_ASSIGN_OR_RETURN(verdicts[id], Judge(impl_->contents, id, row, same_session));
    }
  }

  // Versions whose bytes are not proven become leftovers, or shorter where a synced prefix is (a log that grew).
  struct Found {
    index::VersionAt at;
    VersionRecord record;
  };
  std::vector<Found> doubtful;
  STEPFS_RETURN_IF_ERROR(
      catalog.index().Scan(Table::kVersions, {}, {}, [&](std::string_view key, std::string_view value) {
        const auto at = index::VersionFromKey(key);
        auto record = VersionRecord::Decode(value);
        if (!at || !record.ok() || (record->flags & VersionRecord::kPartial)) return true;
        const auto verdict = verdicts.find(record->content);
        if (verdict != verdicts.end() && verdict->second.proven < record->size) doubtful.push_back({*at, *record});
        return true;
      }));
  for (const auto& [at, record] : doubtful) {
    const Verdict& verdict = verdicts[record.content];
    Impl::Changes changes(*impl_);
    Transaction& transaction = changes.transaction;
    VersionRecord changed = record;
    if (verdict.proven > 0) {
      changed.size = verdict.proven;
      changed.flags |= VersionRecord::kUnclosed;
      transaction.PutVersion(at.place, at.version, changed);
      STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(record.content));
      row.size = verdict.proven;
      row.state = ContentState::kStaged;
      transaction.PutContent(record.content, row);
    } else {
      transaction.DeleteVersion(at.place, at.version);
      if (verdict.on_disk == 0) {
        STEPFS_RETURN_IF_ERROR(transaction.DropReference(record.content));
      } else {
        STEPFS_ASSIGN_OR_RETURN(index::PlaceRecord place, transaction.GetPlace(at.place));
        const std::uint64_t number = place.next_partial++;
        transaction.PutPlace(at.place, place);
        changed.size = verdict.on_disk;
        changed.flags |= VersionRecord::kPartial;
        transaction.PutVersion(at.place, index::kPartialNumbers + number, changed);
        STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(record.content));
        row.size = verdict.on_disk;
        row.state = ContentState::kStaged;
        transaction.PutContent(record.content, row);
      }
    }
    STEPFS_RETURN_IF_ERROR(changes.Commit());
  }

  // Inodes: data that was being written, or that was committed and is not proven.
  std::vector<std::pair<InodeNumber, InodeRecord>> affected;
  std::vector<InodeNumber> unlinked;
  Status damage;
  STEPFS_RETURN_IF_ERROR(
      catalog.index().Scan(Table::kInodes, {}, {}, [&](std::string_view key, std::string_view value) {
        auto record = InodeRecord::Decode(value);
        if (!record.ok()) {
          damage = record.status();
          return false;
        }
        const auto ino = index::NumberFromKey(key);
        if (record->nlink == 0) {
          unlinked.push_back(*ino);
        } else if (S_ISREG(record->mode)) {
          const auto verdict = verdicts.find(record->content);
          const bool doubt = verdict != verdicts.end() && verdict->second.proven < record->size;
          if (record->uncommitted || doubt) affected.emplace_back(*ino, std::move(*record));
        }
        return true;
      }));
  STEPFS_RETURN_IF_ERROR(damage);

  for (auto& [ino, record] : affected) {
    STEPFS_ASSIGN_OR_RETURN(const auto links, catalog.LinksOf(ino));
    if (links.empty()) continue;
    auto path = catalog.PathOf(links.front());
    const std::string name = path.ok() ? *path : links.front().name;
    const ContentId content = record.content;
    const Verdict verdict = content == 0 ? Verdict{0, 0, same_session} : verdicts[content];

    if (record.uncommitted && (same_session || verdict.proven > 0)) {
      // The bytes are there: they become a version, marked when their writer never closed them.
      STEPFS_ASSIGN_OR_RETURN(StatePtr state, impl_->GetState(ino));
      std::unique_lock io(state->io);
      const std::uint64_t size = content == 0 ? 0 : verdict.proven;
      const bool complete = record.closed && size == record.size && verdict.whole;
      {
        std::lock_guard lock(state->meta);
        state->record.size = size;
        state->dirty = true;
      }
      if (content != 0 && size < verdict.on_disk) {
        STEPFS_ASSIGN_OR_RETURN(auto file, impl_->contents.OpenStaging(content));
        STEPFS_RETURN_IF_ERROR(file->Truncate(size));
      }
      STEPFS_RETURN_IF_ERROR(impl_->Commit(*state, complete ? 0u : std::uint32_t{VersionRecord::kUnclosed}));
      ++report.adopted;
      if (!complete && size > 0)
        report.messages.push_back(name + ": was being written; kept as it was, marked unclosed");
      continue;
    }

    Impl::Changes changes(*impl_);
    Transaction& transaction = changes.transaction;
    STEPFS_ASSIGN_OR_RETURN(const auto previous, catalog.NewestVersion(links.front()));
    ++report.rolled_back;
    if (previous) {
      STEPFS_RETURN_IF_ERROR(transaction.AddReference(previous->record.content));
      InodeRecord changed = record;
      changed.content = previous->record.content;
      changed.size = previous->record.size;
      changed.mtime = previous->record.mtime;
      changed.uncommitted = changed.closed = false;
      transaction.PutInode(ino, changed);
      report.messages.push_back(name + ": its last data did not reach the disk; version " +
                                std::to_string(previous->version) + " is live again");
    } else {
      for (const Place& place : links) {
        transaction.DeleteDentry(place, ino);
        STEPFS_RETURN_IF_ERROR(changes.Patch(place.parent, [](InodeRecord& parent) { --parent.entries; }));
        STEPFS_RETURN_IF_ERROR(Impl::MarkDeleted(transaction, place));
      }
      InodeRecord changed = record;
      changed.nlink = 0;
      changed.content = 0;
      transaction.PutInode(ino, changed);
      unlinked.push_back(ino);
      report.messages.push_back(name + ": its data did not reach the disk, and it had no earlier version");
    }
    if (record.uncommitted && content != 0 && verdict.on_disk > 0) {
      STEPFS_ASSIGN_OR_RETURN(index::PlaceRecord place, transaction.GetPlace(links.front()));
      VersionRecord partial;
      partial.content = content;
      partial.size = verdict.on_disk;
      partial.ino = ino;
      partial.time = Now();
      partial.mtime = record.mtime;
      partial.mode = record.mode;
      partial.uid = record.uid;
      partial.gid = record.gid;
      partial.flags = VersionRecord::kPartial;
      transaction.PutVersion(links.front(), index::kPartialNumbers + place.next_partial++, partial);
      transaction.PutPlace(links.front(), place);
      STEPFS_RETURN_IF_ERROR(transaction.AddReference(content));
      STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(content));
      row.size = verdict.on_disk;
      row.state = ContentState::kStaged;
      transaction.PutContent(content, row);
    }
    STEPFS_RETURN_IF_ERROR(transaction.DropReference(content));
    STEPFS_RETURN_IF_ERROR(changes.Commit());
  }

  for (const InodeNumber ino : unlinked) STEPFS_RETURN_IF_ERROR(impl_->RemoveInode(ino));
  return {};
}

Status Tree::QueueStaged() {
  std::vector<ContentId> staged;
  std::vector<ContentId> abandoned;
  STEPFS_RETURN_IF_ERROR(
      impl_->catalog.index().Scan(Table::kContents, {}, {}, [&](std::string_view key, std::string_view value) {
        auto row = ContentRecord::Decode(value);
        const auto id = index::NumberFromKey(key);
        if (!row.ok() || !id) return true;
        if (row->state == ContentState::kStaged) staged.push_back(*id);
        if (row->state == ContentState::kOpen) abandoned.push_back(*id);
        return true;
      }));
  // A content that is open now has no writer left: an older version's prefix of it is complete.
  for (const ContentId content : abandoned) {
    Transaction transaction(impl_->catalog);
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(content));
    row.state = ContentState::kStaged;
    transaction.PutContent(content, row);
    STEPFS_RETURN_IF_ERROR(transaction.Commit());
    staged.push_back(content);
  }
  for (const ContentId content : staged) {
    {
      std::lock_guard lock(impl_->queue_mutex);
      impl_->unsynced.insert(content);
    }
    impl_->sealer.Enqueue(content);
  }
  STEPFS_ASSIGN_OR_RETURN(const auto files, impl_->contents.ListStaging());
  for (const ContentId content : files) {
    auto row = impl_->catalog.Raw(Table::kContents, index::ContentKey(content));
    if (!row.ok()) return row.status();
    if (!*row) {
      STEPFS_RETURN_IF_ERROR(impl_->contents.RemoveStaging(content));
      continue;
    }
    STEPFS_ASSIGN_OR_RETURN(const ContentRecord record, ContentRecord::Decode(**row));
    if (record.state == ContentState::kSealed) {
      (void)impl_->contents.AdoptStagingAsSnapshot(content);
    } else if (record.state != ContentState::kStaged && record.state != ContentState::kOpen) {
      STEPFS_RETURN_IF_ERROR(impl_->contents.RemoveStaging(content));
    }
  }
  return {};
}

}  // namespace stepfs::store
