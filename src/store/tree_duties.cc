// SPDX-License-Identifier: Apache-2.0
//
// Tree: states, and what is done in the background.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "store/tree_impl.h"

namespace stepfs::store {

Tree::Tree(const TreeOptions& options, FileOps& files, Catalog& catalog, ContentStore& contents, Sealer& sealer)
    : impl_(new Impl{options, files, catalog, contents, sealer, {}, {}, {}, {}, {}}) {}
Tree::~Tree() = default;

StatePtr Tree::Impl::FindState(InodeNumber ino) {
  std::lock_guard lock(states_mutex);
  auto found = states.find(ino);
  return found == states.end() ? nullptr : found->second.lock();
}

Result<StatePtr> Tree::Impl::GetState(InodeNumber ino) {
  std::lock_guard lock(states_mutex);
  auto& slot = states[ino];
  if (StatePtr state = slot.lock()) return state;
  auto record = catalog.GetInode(ino);
  if (!record.ok()) {
    states.erase(ino);
    return record.status();
  }
  auto state = std::make_shared<FileState>(ino);
  state->record = std::move(*record);
  slot = state;
  if (states.size() > 4096) {
    std::erase_if(states, [](const auto& entry) { return entry.second.expired(); });
  }
  return state;
}

Result<std::vector<StatePtr>> Tree::Impl::StatesOf(const std::vector<InodeNumber>& inodes) {
  std::vector<InodeNumber> sorted = inodes;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<StatePtr> found;
  for (const InodeNumber ino : sorted) {
    STEPFS_ASSIGN_OR_RETURN(StatePtr state, GetState(ino));
    found.push_back(std::move(state));
  }
  return found;
}

Result<InodeRecord> Tree::Impl::CurrentRecord(InodeNumber ino) {
  if (StatePtr state = FindState(ino)) {
    std::lock_guard lock(state->meta);
    return state->record;
  }
  return catalog.GetInode(ino);
}

Status Tree::Impl::Changes::Patch(InodeNumber ino, const std::function<void(InodeRecord&)>& change) {
  STEPFS_ASSIGN_OR_RETURN(InodeRecord record, transaction.GetInode(ino));
  if (StatePtr state = impl_.FindState(ino)) {
    {
      std::lock_guard lock(state->meta);
      if (state->dirty) {
        record.size = state->record.size;
        record.mtime = state->record.mtime;
        record.ctime = state->record.ctime;
      }
    }
    patches_.emplace_back(std::move(state), change);
  }
  change(record);
  transaction.PutInode(ino, record);
  return {};
}

Status Tree::Impl::Changes::Commit() {
  STEPFS_RETURN_IF_ERROR(transaction.Commit());
  for (auto& [state, change] : patches_) {
    std::lock_guard lock(state->meta);
    change(state->record);
  }
  patches_.clear();
  if (!transaction.dropped().empty()) {
    std::lock_guard lock(impl_.queue_mutex);
    impl_.garbage.insert(impl_.garbage.end(), transaction.dropped().begin(), transaction.dropped().end());
  }
  return {};
}

void Tree::RunDuties() {
  std::vector<StatePtr> live;
  {
    std::lock_guard lock(impl_->states_mutex);
    for (const auto& [ino, weak] : impl_->states) {
      if (StatePtr state = weak.lock()) live.push_back(std::move(state));
    }
  }
  const Nanoseconds now = Now();
  for (const StatePtr& state : live) {
    std::unique_lock io(state->io, std::try_to_lock);
    if (!io.owns_lock()) continue;
    if (!state->dirty && !state->record.uncommitted) continue;
    const bool quiet = now - state->last_change >= impl_->options.provisional_after;
    if (state->record.uncommitted && state->record.closed && !state->dirty && quiet && state->writers > 0 &&
        state->record.size > 0) {
      (void)impl_->Commit(*state, VersionRecord::kProvisional);
    } else if (state->dirty && quiet) {
      // Long open files: size and times for those who look at the index. Not "closed".
      Impl::Changes changes(*impl_);
      if (changes.Patch(state->ino, [](InodeRecord&) {}).ok() && changes.Commit().ok()) {
        std::lock_guard lock(state->meta);
        state->dirty = false;
      }
    }
  }

  std::set<ContentId> unsynced;
  std::vector<Transaction::Dropped> garbage;
  {
    std::lock_guard lock(impl_->queue_mutex);
    unsynced.swap(impl_->unsynced);
    garbage.swap(impl_->garbage);
  }
  std::vector<std::pair<ContentId, ContentRecord>> synced;
  for (const ContentId content : unsynced) {
    auto row = impl_->catalog.GetContent(content);
    if (!row.ok() || row->state != ContentState::kStaged || row->synced_size == row->size) continue;
    const Status status = impl_->contents.SyncStaging(content);
    if (status.ok()) {
      synced.emplace_back(content, std::move(*row));
    } else if (status.ToErrno() != ENOENT) {
      std::lock_guard lock(impl_->queue_mutex);
      impl_->unsynced.insert(content);
    }
  }
  if (!synced.empty()) {
    Transaction transaction(impl_->catalog);
    for (const auto& [content, before] : synced) {
      auto row = transaction.GetContent(content);
      if (!row.ok() || row->size != before.size || row->reopened != before.reopened ||
          (row->state != ContentState::kStaged && row->state != ContentState::kOpen)) {
        continue;
      }
      row->synced_size = before.size;
      transaction.PutContent(content, *row);
    }
    (void)transaction.Commit();
  }
  if (!garbage.empty()) {
    if (impl_->catalog.index().SyncJournal().ok()) {
      for (const auto& dropped : garbage) impl_->contents.RemoveFilesOf(dropped);
    } else {
      std::lock_guard lock(impl_->queue_mutex);
      impl_->garbage.insert(impl_->garbage.end(), garbage.begin(), garbage.end());
    }
  }
}

Status Tree::CommitAll(bool at_end) {
  std::vector<StatePtr> live;
  {
    std::lock_guard lock(impl_->states_mutex);
    for (const auto& [ino, weak] : impl_->states) {
      if (StatePtr state = weak.lock()) live.push_back(std::move(state));
    }
  }
  Status first;
  for (const StatePtr& state : live) {
    std::unique_lock io(state->io);
    const bool written_to = state->writers > 0;
    const bool abandoned = written_to && !state->record.closed;  // Flushing marks it closed.
    Status status = impl_->FlushLocked(*state);
    if (status.ok() && state->record.uncommitted && (at_end || !written_to)) {
      status = impl_->Commit(*state, abandoned ? std::uint32_t{VersionRecord::kUnclosed} : 0u);
    }
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

Status Tree::SyncAll() {
  {
    // Whatever is staged and not known to be on disk, also from before this start.
    std::lock_guard lock(impl_->queue_mutex);
    STEPFS_RETURN_IF_ERROR(
        impl_->catalog.index().Scan(index::Table::kContents, {}, {}, [&](std::string_view key, std::string_view value) {
          auto row = ContentRecord::Decode(value);
          const auto id = index::NumberFromKey(key);
          if (row.ok() && id && row->state == ContentState::kStaged && row->synced_size < row->size) {
            impl_->unsynced.insert(*id);
          }
          return true;
        }));
  }
  RunDuties();
  {
    std::lock_guard lock(impl_->queue_mutex);
    if (!impl_->unsynced.empty()) {
      for (const ContentId content : impl_->unsynced) {
        auto row = impl_->catalog.GetContent(content);
        if (row.ok() && row->state == ContentState::kStaged && row->synced_size < row->size) {
          return Status::FromErrno(EIO, "syncing staged content " + std::to_string(content));
        }
      }
    }
  }
  return impl_->catalog.index().SyncJournal();
}

void Tree::Forget(InodeNumber ino) { (void)impl_->RemoveInode(ino); }

}  // namespace stepfs::store
