// SPDX-License-Identifier: Apache-2.0
//
// Open files: reading, writing, and bringing data to where it can be written.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/tree_impl.h"

namespace stepfs::store {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

bool AllZero(Bytes bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Copies the first `bytes` of `source`; runs of zeroes become holes.
Status CopyContent(const ByteSource& source, std::uint64_t bytes, File& target) {
  ByteVector buffer(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kCopyBytes)));
  for (std::uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
    const MutableBytes piece(buffer.data(),
                             static_cast<std::size_t>(std::min<std::uint64_t>(kCopyBytes, bytes - offset)));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(offset, piece));
    if (!AllZero(piece)) STEPFS_RETURN_IF_ERROR(target.WriteAt(offset, piece));
  }
  return target.Truncate(bytes);
}

}  // namespace

Status Tree::Impl::Load(FileState& state) {
  if (state.loaded) return {};
  const ContentId content = state.record.content;
  if (content != 0) {
    auto source = contents.OpenContent(content);
    if (!source.ok()) {
      return source.status().WithContext("inode " + std::to_string(state.ino) + ", content " + std::to_string(content));
    }
    state.source = std::move(*source);
  }
  state.loaded = true;
  std::lock_guard lock(state.meta);
  state.appended_from = state.record.size;
  return {};
}

Status Tree::Impl::PrepareWrite(FileState& state, std::uint64_t offset, std::uint64_t keep) {
  STEPFS_RETURN_IF_ERROR(Load(state));
  if (state.provisional) STEPFS_RETURN_IF_ERROR(TakeBackProvisional(state));

  const ContentId old_content = state.record.content;
  if (state.staging && offset >= state.preserved) {
    // Ours already: only what recovery must know is written down.
    const bool overwrites = offset < state.synced_size && !state.overwritten_since_sync;
    if (!state.record.closed && state.record.uncommitted && !overwrites) return {};
    Changes changes(*this);
    if (overwrites) {
      STEPFS_ASSIGN_OR_RETURN(ContentRecord row, changes.transaction.GetContent(old_content));
      row.overwritten_since_sync = true;
      changes.transaction.PutContent(old_content, row);
    }
    STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [](InodeRecord& record) {
      record.closed = false;
      record.uncommitted = true;
    }));
    STEPFS_RETURN_IF_ERROR(changes.Commit());
    std::lock_guard lock(state.meta);
    state.overwritten_since_sync |= overwrites;
    return {};
  }

  STEPFS_ASSIGN_OR_RETURN(ContentRecord old_row, catalog.GetContent(old_content));
  if (!state.staging && old_row.state == ContentState::kStaged && offset >= old_row.size && keep >= old_row.size) {
    // Growing what waits for the encoder: the versions keep their prefix, no copy is needed.
    auto file = contents.OpenStaging(old_content);
    Changes changes(*this);
    STEPFS_ASSIGN_OR_RETURN(old_row, changes.transaction.GetContent(old_content));
    if (file.ok() && old_row.state == ContentState::kStaged) {
      old_row.state = ContentState::kOpen;
      ++old_row.reopened;
      changes.transaction.PutContent(old_content, old_row);
      STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [](InodeRecord& record) {
        record.closed = false;
        record.uncommitted = true;
      }));
      STEPFS_RETURN_IF_ERROR(changes.Commit());
      state.staging = std::move(*file);
      state.source.reset();
      state.preserved = old_row.size;
      std::lock_guard lock(state.meta);
      state.synced_size = old_row.synced_size;
      state.overwritten_since_sync = false;
      return {};
    }
  }

  ContentId content = 0;
  {
    Transaction transaction(catalog);
    STEPFS_ASSIGN_OR_RETURN(content, transaction.NewContent());
    STEPFS_RETURN_IF_ERROR(transaction.Commit());
  }
  std::shared_ptr<File> file;
  bool taken_over = false;
  if (!state.staging && old_row.state == ContentState::kSealed && keep > 0) {
    // The sealed form is the version; its raw copy may go on as the new data.
    state.source.reset();
    auto taken = contents.TakeOverSnapshot(old_content, content);
    taken_over = taken.ok() && *taken;
    if (taken_over) {
      STEPFS_ASSIGN_OR_RETURN(file, contents.OpenStaging(content));
      STEPFS_RETURN_IF_ERROR(file->Truncate(keep));
    } else {
      STEPFS_ASSIGN_OR_RETURN(state.source, contents.OpenContent(old_content));
    }
  }
  if (!taken_over) {
    STEPFS_ASSIGN_OR_RETURN(file, contents.CreateStaging(content));
    if (keep > 0) {
      std::shared_ptr<const ByteSource> from = state.source;
      if (!from) {
        STEPFS_ASSIGN_OR_RETURN(from, contents.OpenContent(old_content));
      }
      if (Status copied = CopyContent(*from, std::min(keep, from->size()), *file); !copied.ok()) {
        (void)contents.RemoveStaging(content);
        return copied;
      }
    }
  }

  Changes changes(*this);
  if (old_content != 0) {
    STEPFS_ASSIGN_OR_RETURN(old_row, changes.transaction.GetContent(old_content));
    if (old_row.state == ContentState::kOpen) {
      // Versions refer to a prefix of it: that prefix is complete and may be sealed.
      old_row.state = ContentState::kStaged;
      old_row.size = state.preserved;
      old_row.synced_size = std::min(old_row.synced_size, old_row.size);
      changes.transaction.PutContent(old_content, old_row);
    }
  }
  ContentRecord row;
  row.size = keep;
  row.references = 1;
  row.time = Now();
  changes.transaction.PutContent(content, row);
  STEPFS_RETURN_IF_ERROR(changes.transaction.DropReference(old_content));
  STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [content](InodeRecord& record) {
    record.content = content;
    record.closed = false;
    record.uncommitted = true;
  }));
  if (Status committed = changes.Commit(); !committed.ok()) {
    (void)contents.RemoveStaging(content);
    return committed;
  }
  const bool requeue = old_content != 0 && old_row.state == ContentState::kStaged && old_row.references > 1;
  state.staging = std::move(file);
  state.source.reset();
  state.preserved = 0;
  {
    std::lock_guard lock(state.meta);
    state.synced_size = 0;
    state.overwritten_since_sync = false;
  }
  if (requeue) sealer.Enqueue(old_content);
  return {};
}

Status Tree::Impl::Truncate(FileState& state, std::uint64_t size) {
  STEPFS_RETURN_IF_ERROR(Load(state));
  const std::uint64_t old_size = state.record.size;
  const Nanoseconds now = Now();
  if (size == 0 && old_size > 0) {
    // The former content stays as a version.
    if (state.record.uncommitted) {
      STEPFS_RETURN_IF_ERROR(Commit(state, state.record.closed ? 0u : std::uint32_t{VersionRecord::kUnclosed}));
    }
    Changes changes(*this);
    STEPFS_RETURN_IF_ERROR(changes.transaction.DropReference(state.record.content));
    STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [now](InodeRecord& record) {
      record.content = 0;
      record.size = 0;
      record.uncommitted = true;
      record.closed = false;
      record.mtime = record.ctime = now;
    }));
    STEPFS_RETURN_IF_ERROR(changes.Commit());
    state.staging.reset();
    state.source.reset();
    state.preserved = 0;
    std::lock_guard lock(state.meta);
    state.synced_size = 0;
    state.provisional = false;
    state.overwritten_since_sync = false;
    state.min_written = 0;
    state.last_change = now;
    return {};
  }
  if (size != old_size) {
    const std::uint64_t from = std::min(size, old_size);
    STEPFS_RETURN_IF_ERROR(PrepareWrite(state, from, from));
    STEPFS_RETURN_IF_ERROR(state.staging->Truncate(size));
  }
  std::lock_guard lock(state.meta);
  if (size != old_size) {
    state.record.size = size;
    state.min_written = std::min({state.min_written, size, old_size});
  }
  state.record.mtime = state.record.ctime = now;
  state.last_change = now;
  state.dirty = true;
  return {};
}

Result<OpenFilePtr> Tree::Open(InodeNumber ino, int flags) {
  STEPFS_ASSIGN_OR_RETURN(StatePtr state, impl_->GetState(ino));
  auto file = std::make_unique<OpenFile>();
  file->writable = (flags & O_ACCMODE) != O_RDONLY;
  file->append = (flags & O_APPEND) != 0;
  {
    std::unique_lock io(state->io);
    if (!S_ISREG(state->record.mode)) return Errno(S_ISDIR(state->record.mode) ? EISDIR : ENXIO);
    if ((flags & O_TRUNC) && file->writable) {
      STEPFS_RETURN_IF_ERROR(impl_->Truncate(*state, 0));
    }
    STEPFS_RETURN_IF_ERROR(impl_->Load(*state));
    std::lock_guard lock(state->meta);
    ++state->opens;
    if (file->writable) ++state->writers;
  }
  file->state = std::move(state);
  return file;
}

Result<std::size_t> Tree::Read(OpenFile& file, std::uint64_t offset, MutableBytes out) {
  FileState& state = *file.state;
  std::shared_lock io(state.io);
  std::uint64_t size = 0;
  {
    std::lock_guard lock(state.meta);
    size = state.record.size;
  }
  if (offset >= size) return std::size_t{0};
  const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size - offset));
  const MutableBytes target = out.first(wanted);
  if (state.staging) {
    STEPFS_ASSIGN_OR_RETURN(const std::size_t got, state.staging->ReadAt(offset, target));
    // A writer may have extended the record before its bytes; what the raw file lacks is a hole.
    std::fill(target.begin() + static_cast<std::ptrdiff_t>(got), target.end(), std::byte{0});
  } else if (state.source) {
    STEPFS_RETURN_IF_ERROR(state.source->ReadAt(offset, target));
  } else {
    return Status::Corruption("inode " + std::to_string(state.ino) + " has " + std::to_string(size) +
                              " bytes but no content");
  }
  return wanted;
}

Result<std::size_t> Tree::Write(OpenFile& file, std::uint64_t offset, Bytes bytes) {
  if (!file.writable) return Errno(EBADF);
  FileState& state = *file.state;
  if (bytes.empty()) return std::size_t{0};
  const auto writable_in_place = [&] {
    if (!state.staging || offset < state.preserved) return false;
    std::lock_guard lock(state.meta);
    return !state.provisional && !state.record.closed && state.record.uncommitted &&
           (offset >= state.synced_size || state.overwritten_since_sync);
  };
  std::shared_lock io(state.io);
  while (!writable_in_place()) {
    io.unlock();
    {
      std::unique_lock alone(state.io);
      STEPFS_RETURN_IF_ERROR(impl_->PrepareWrite(state, offset, state.record.size));
    }
    io.lock();
  }
  STEPFS_RETURN_IF_ERROR(state.staging->WriteAt(offset, bytes));
  const Nanoseconds now = Now();
  std::lock_guard lock(state.meta);
  state.record.size = std::max(state.record.size, offset + bytes.size());
  state.record.mtime = state.record.ctime = now;
  state.min_written = std::min(state.min_written, offset);
  state.last_change = now;
  state.dirty = true;
  state.fsynced = false;
  return bytes.size();
}

Status Tree::Impl::FlushLocked(FileState& state) {
  if (!state.dirty && (!state.record.uncommitted || state.record.closed)) return {};
  const ContentId content = state.record.content;
  Changes changes(*this);
  if (content != 0 && state.staging) {
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, changes.transaction.GetContent(content));
    row.size = state.record.size;
    changes.transaction.PutContent(content, row);
  }
  STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [](InodeRecord& record) { record.closed = record.uncommitted; }));
  STEPFS_RETURN_IF_ERROR(changes.Commit());
  std::lock_guard lock(state.meta);
  state.dirty = false;
  return {};
}

Status Tree::Flush(OpenFile& file) {
  if (!file.writable) return {};
  FileState& state = *file.state;
  std::unique_lock io(state.io);
  STEPFS_RETURN_IF_ERROR(impl_->FlushLocked(state));
  if (impl_->options.durable_close && state.record.uncommitted) return impl_->FsyncLocked(state);
#ifdef SYNC_FILE_RANGE_WRITE
  // Start the write-out without waiting, so that the disk has the data soon.
  if (state.staging && state.staging->fd() >= 0) {
    (void)sync_file_range(state.staging->fd(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }
#endif
  return {};
}

Status Tree::Impl::FsyncLocked(FileState& state) {
  const ContentId content = state.record.content;
  if (state.staging) {
    STEPFS_RETURN_IF_ERROR(contents.SyncStaging(content, *state.staging));
    Changes changes(*this);
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, changes.transaction.GetContent(content));
    row.size = row.synced_size = state.record.size;
    row.overwritten_since_sync = false;
    changes.transaction.PutContent(content, row);
    STEPFS_RETURN_IF_ERROR(changes.Patch(state.ino, [](InodeRecord&) {}));
    STEPFS_RETURN_IF_ERROR(changes.Commit());
    std::lock_guard lock(state.meta);
    state.dirty = false;
    state.fsynced = true;
    state.synced_size = state.record.size;
    state.overwritten_since_sync = false;
  } else {
    STEPFS_RETURN_IF_ERROR(FlushLocked(state));
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, catalog.GetContent(content));
    if (content != 0 && row.state == ContentState::kStaged && row.synced_size < row.size) {
      if (Status synced = contents.SyncStaging(content); synced.ok()) {
        Transaction transaction(catalog);
        STEPFS_ASSIGN_OR_RETURN(row, transaction.GetContent(content));
        if (row.state == ContentState::kStaged) {
          row.synced_size = row.size;
          transaction.PutContent(content, row);
          STEPFS_RETURN_IF_ERROR(transaction.Commit());
        }
      } else {
        // Sealed in between (then it is durable), or an error.
        STEPFS_ASSIGN_OR_RETURN(row, catalog.GetContent(content));
        if (row.state == ContentState::kStaged) return synced;
      }
    }
    if (!state.record.uncommitted) {
      // What fsync promised is never coalesced away.
      Transaction transaction(catalog);
      STEPFS_ASSIGN_OR_RETURN(const auto links, catalog.LinksOf(state.ino));
      for (const Place& place : links) {
        STEPFS_ASSIGN_OR_RETURN(auto newest, catalog.NewestVersion(place));
        if (!newest || newest->record.content != content || (newest->record.flags & VersionRecord::kFsynced)) continue;
        newest->record.flags |= VersionRecord::kFsynced;
        transaction.PutVersion(place, newest->version, newest->record);
      }
      STEPFS_RETURN_IF_ERROR(transaction.Commit());
    }
  }
  return catalog.index().SyncJournal();
}

Status Tree::Fsync(OpenFile& file) {
  std::unique_lock io(file.state->io);
  return impl_->FsyncLocked(*file.state);
}

Status Tree::Release(OpenFilePtr file) {
  FileState& state = *file->state;
  std::unique_lock io(state.io);
  bool last_writer = false;
  {
    std::lock_guard lock(state.meta);
    --state.opens;
    if (file->writable) last_writer = --state.writers == 0;
  }
  if (!last_writer) return {};
  STEPFS_RETURN_IF_ERROR(impl_->FlushLocked(state));
  if (state.record.uncommitted && state.record.nlink > 0) STEPFS_RETURN_IF_ERROR(impl_->Commit(state));
  std::lock_guard lock(state.meta);
  state.provisional = false;
  return {};
}

Status Tree::Allocate(OpenFile& file, int mode, std::uint64_t offset, std::uint64_t length) {
  if (!file.writable) return Errno(EBADF);
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const bool zeroes = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE && mode != kPunch &&
      (mode & ~FALLOC_FL_KEEP_SIZE) != FALLOC_FL_ZERO_RANGE) {
    return Errno(EOPNOTSUPP);
  }
  FileState& state = *file.state;
  std::unique_lock io(state.io);
  STEPFS_RETURN_IF_ERROR(impl_->Load(state));
  const std::uint64_t old_size = state.record.size;
  const bool keeps_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const std::uint64_t new_size = keeps_size ? old_size : std::max(old_size, offset + length);
  const bool changes_bytes = mode == kPunch || zeroes;
  const std::uint64_t from = changes_bytes ? std::min(offset, old_size) : old_size;
  STEPFS_RETURN_IF_ERROR(impl_->PrepareWrite(state, from, old_size));
  if (const int fd = state.staging->fd(); fd >= 0) {
    if (fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) {
      return Status::FromErrno(errno, "fallocate");
    }
  } else if (new_size > old_size) {
    STEPFS_RETURN_IF_ERROR(state.staging->Truncate(new_size));
  }
  const Nanoseconds now = Now();
  std::lock_guard lock(state.meta);
  state.record.size = new_size;
  state.record.mtime = state.record.ctime = now;
  state.min_written = std::min(state.min_written, from);
  state.last_change = now;
  state.dirty = true;
  return {};
}

Result<std::uint64_t> Tree::Seek(OpenFile& file, std::uint64_t offset, int whence) {
  FileState& state = *file.state;
  std::shared_lock io(state.io);
  std::uint64_t size = 0;
  {
    std::lock_guard lock(state.meta);
    size = state.record.size;
  }
  if (offset >= size) return Errno(ENXIO);
  if (state.staging && state.staging->fd() >= 0) {
    const off_t found = lseek(state.staging->fd(), static_cast<off_t>(offset), whence);
    if (found < 0) return Errno(errno);
    return std::min(static_cast<std::uint64_t>(found), size);
  }
  // Where holes are is known of raw files only; that there are none is always a right answer.
  return whence == SEEK_DATA ? offset : size;
}

}  // namespace stepfs::store
