// SPDX-License-Identifier: Apache-2.0
//
// How what was written becomes versions (docs/versions.md).
#include <algorithm>
#include <array>

#include "codec/layout/layout.h"
#include "store/tree_impl.h"

namespace stepfs::store {
namespace {

// Files up to this size are compared with the newest version when they are committed; larger ones by the sealer.
constexpr std::uint64_t kCompareBytes = std::uint64_t{4} << 20;
// What grows is likely to grow on: it is encoded when it has been quiet for a while.
constexpr Nanoseconds kAppendQuiet = 10'000'000'000;

Result<bool> SameBytes(const ByteSource& a, const ByteSource& b, std::uint64_t size) {
  constexpr std::size_t kStep = 256 * 1024;
  ByteVector left(static_cast<std::size_t>(std::min<std::uint64_t>(kStep, size)));
  ByteVector right(left.size());
  for (std::uint64_t offset = 0; offset < size; offset += left.size()) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(left.size(), size - offset));
    STEPFS_RETURN_IF_ERROR(a.ReadAt(offset, MutableBytes(left).first(length)));
    STEPFS_RETURN_IF_ERROR(b.ReadAt(offset, MutableBytes(right).first(length)));
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length), right.begin())) return false;
  }
  return true;
}

}  // namespace

bool IsTransientName(std::string_view name) {
  constexpr std::array<std::string_view, 6> kSuffixes = {".lock", "__lock", "-wal", "-shm", "-journal", ".lck"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

Status Tree::Impl::AddVersion(Transaction& transaction, const Place& place, VersionRecord version) {
  STEPFS_ASSIGN_OR_RETURN(index::PlaceRecord record, transaction.GetPlace(place));
  const VersionNumber number = record.next_version++;
  transaction.PutPlace(place, record);
  if (version.content != 0) {
    STEPFS_ASSIGN_OR_RETURN(ContentRecord content, transaction.GetContent(version.content));
    ++content.references;
    if (content.origin_version == 0 || content.state == ContentState::kStaged) {
      content.origin = place;
      content.origin_version = number;
    }
    transaction.PutContent(version.content, content);
  }
  transaction.PutVersion(place, number, version);
  return {};
}

Status Tree::Impl::MarkDeleted(Transaction& transaction, const Place& place) {
  STEPFS_ASSIGN_OR_RETURN(index::PlaceRecord record, transaction.GetPlace(place));
  if (record.next_version == 1) return {};
  record.deleted_through = record.next_version - 1;
  record.deleted_time = Now();
  transaction.PutPlace(place, record);
  return {};
}

Result<bool> Tree::Impl::EqualsVersion(FileState& state, const VersionRecord& version) {
  if (version.size != state.record.size) return false;
  if (version.size == 0 || version.content == state.record.content) return true;
  if (version.size > kCompareBytes) return false;
  STEPFS_ASSIGN_OR_RETURN(auto old_bytes, contents.OpenContent(version.content));
  STEPFS_ASSIGN_OR_RETURN(auto new_bytes, contents.OpenContent(state.record.content));
  return SameBytes(*old_bytes, *new_bytes, version.size);
}

Status Tree::Impl::Commit(FileState& state, std::uint32_t flags) {
  if (!state.record.uncommitted || state.record.nlink == 0) return {};
  STEPFS_ASSIGN_OR_RETURN(const std::vector<Place> links, catalog.LinksOf(state.ino));
  if (links.empty()) return {};
  const ContentId content = state.record.content;
  const std::uint64_t size = state.record.size;

  std::optional<VersionRecord> same;
  bool coalesces = false;
  STEPFS_ASSIGN_OR_RETURN(const auto newest, catalog.NewestVersion(links.front()));
  if (newest) {
    // An unreadable old version is not a reason to refuse the new one.
    if (auto equal = EqualsVersion(state, newest->record); equal.ok() && *equal) same = newest->record;
    const bool pure_append = state.min_written >= state.appended_from && newest->record.size == state.appended_from &&
                             size > newest->record.size;
    if (!same && pure_append && !(newest->record.flags & VersionRecord::kFsynced)) {
      STEPFS_ASSIGN_OR_RETURN(const ContentRecord row, catalog.GetContent(content));
      coalesces = true;
      if (auto source = contents.OpenContent(content); source.ok()) {
        auto layout = codec::DetectLayout(**source);
        coalesces = layout.ok() && layout->fingerprint == Digest{};
      }
    }
  }

  const Nanoseconds now = Now();
  Changes changes(*this);
  Transaction& transaction = changes.transaction;
  if (content != 0) {
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(content));
    if (row.state == ContentState::kOpen) {
      row.state = ContentState::kStaged;
      row.size = size;
      transaction.PutContent(content, row);
    }
  }
  if (same) {
    if (same->content != content) {
      STEPFS_RETURN_IF_ERROR(transaction.AddReference(same->content));
      STEPFS_RETURN_IF_ERROR(transaction.DropReference(content));
    }
  } else {
    VersionRecord version;
    version.content = content;
    version.size = size;
    version.ino = state.ino;
    version.time = now;
    version.mtime = state.record.mtime;
    version.mode = state.record.mode;
    version.uid = state.record.uid;
    version.gid = state.record.gid;
    version.flags = flags | (state.fsynced ? std::uint32_t{VersionRecord::kFsynced} : 0u);
    for (const Place& place : links) {
      if (IsTransientName(place.name)) continue;
      STEPFS_RETURN_IF_ERROR(AddVersion(transaction, place, version));
      if (!coalesces) continue;
      STEPFS_ASSIGN_OR_RETURN(const auto replaced, catalog.NewestVersion(place));
      if (replaced && replaced->record.size == newest->record.size &&
          !(replaced->record.flags & VersionRecord::kFsynced)) {
        transaction.DeleteVersion(place, replaced->version);
        STEPFS_RETURN_IF_ERROR(transaction.DropReference(replaced->record.content));
      }
    }
  }
  const ContentId committed_content = same ? same->content : content;
  STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [committed_content](InodeRecord& record) {
    record.content = committed_content;
    record.uncommitted = false;
    record.closed = false;
  }));
  STEPFS_RETURN_IF_ERROR(changes.Commit());

  state.staging.reset();
  state.source.reset();
  state.preserved = 0;
  state.loaded = false;
  {
    std::lock_guard lock(state.meta);
    state.dirty = false;
    state.fsynced = false;
    state.provisional = (flags & VersionRecord::kProvisional) != 0 && !same;
    state.min_written = ~0ull;
    state.appended_from = size;
    state.synced_size = 0;
    state.overwritten_since_sync = false;
  }
  if (!same && content != 0) {
    {
      std::lock_guard lock(queue_mutex);
      unsynced.insert(content);
    }
    sealer.Enqueue(content, coalesces ? now + kAppendQuiet : 0);
  }
  contents.SetLive(committed_content, true);
  return Load(state);
}

Status Tree::Impl::TakeBackProvisional(FileState& state) {
  const ContentId content = state.record.content;
  STEPFS_ASSIGN_OR_RETURN(const auto links, catalog.LinksOf(state.ino));
  {
    Changes changes(*this);
    Transaction& transaction = changes.transaction;
    for (const Place& place : links) {
      STEPFS_ASSIGN_OR_RETURN(const auto newest, catalog.NewestVersion(place));
      if (!newest || !(newest->record.flags & VersionRecord::kProvisional) || newest->record.content != content)
        continue;
      if (newest->record.flags & VersionRecord::kFsynced) continue;
      transaction.DeleteVersion(place, newest->version);
      STEPFS_RETURN_IF_ERROR(transaction.DropReference(content));
    }
    STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [](InodeRecord& record) { record.uncommitted = true; }));
    STEPFS_RETURN_IF_ERROR(changes.Commit());
  }

  // Nothing but this inode needs the bytes now, unless older versions share them: if so they are copied as usual.
  STEPFS_ASSIGN_OR_RETURN(ContentRecord row, catalog.GetContent(content));
  if (content != 0 && row.state == ContentState::kStaged && row.references == 1) {
    auto file = contents.OpenStaging(content);
    Transaction reopen(catalog);
    STEPFS_ASSIGN_OR_RETURN(row, reopen.GetContent(content));
    if (file.ok() && row.state == ContentState::kStaged && row.references == 1) {
      row.state = ContentState::kOpen;
      ++row.reopened;
      reopen.PutContent(content, row);
      STEPFS_RETURN_IF_ERROR(reopen.Commit());
      state.source.reset();
      state.staging = std::move(*file);
      state.preserved = 0;
    }
  }
  std::lock_guard lock(state.meta);
  state.provisional = false;
  state.min_written = 0;
  state.synced_size = state.staging ? row.synced_size : 0;
  state.overwritten_since_sync = false;
  return {};
}

}  // namespace stepfs::store
