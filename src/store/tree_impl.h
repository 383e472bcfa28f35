// SPDX-License-Identifier: Apache-2.0
//
// What the parts of Tree share. Internal to src/store/tree_*.cc.
//
// FileState is the one in-memory object of a regular file that is open, or being changed by a call. `io` protects which
// raw file or source the data is in: reads and in-place writes share it, whatever switches the data holds it alone.
// `meta` protects attributes and counters and is a leaf. The row of an inode whose FileState is dirty lags behind it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "store/tree.h"

namespace stepfs::store {

struct FileState {
  explicit FileState(InodeNumber number) : ino(number) {}
  const InodeNumber ino;

  std::shared_mutex io;
  // ---- Guarded by io.
  bool loaded = false;
  std::shared_ptr<File> staging;             // Of a content that is ours to write (kOpen); null otherwise.
  std::shared_ptr<const ByteSource> source;  // Of any other non-empty content.
  std::uint64_t preserved = 0;               // Leading bytes of `staging` that versions refer to: never overwritten.

  std::mutex meta;
  // ---- Guarded by meta. record.content changes only with io held alone as well.
  InodeRecord record;
  bool dirty = false;             // size, mtime or ctime are newer than the row.
  bool fsynced = false;           // fsync returned for bytes that are not committed yet.
  bool provisional = false;       // The newest version was committed while writers were still open.
  std::uint64_t synced_size = 0;  // As in the content's row.
  bool overwritten_since_sync = false;
  std::uint64_t min_written = ~0ull;  // Lowest offset changed since the last commit.
  std::uint64_t appended_from = 0;    // Size at the last commit.
  Nanoseconds last_change = 0;
  std::uint32_t opens = 0;
  std::uint32_t writers = 0;
};
using StatePtr = std::shared_ptr<FileState>;

struct Tree::Impl {
  const TreeOptions options;
  FileOps& files;
  Catalog& catalog;
  ContentStore& contents;
  Sealer& sealer;

  std::mutex states_mutex;  // Leaf.
  std::unordered_map<InodeNumber, std::weak_ptr<FileState>> states;
  std::mutex queue_mutex;                     // Leaf.
  std::set<ContentId> unsynced;               // Staged contents whose bytes may not be on disk yet.
  std::vector<Transaction::Dropped> garbage;  // Files to remove once the journal is durable.

  // The state of a regular file, made from its row when there is none. kNotFound for an unknown inode.
  Result<StatePtr> GetState(InodeNumber ino);
  StatePtr FindState(InodeNumber ino);  // Null when nobody uses it.

  // An inode's record as of now: that of its state if there is one, else its row.
  Result<InodeRecord> CurrentRecord(InodeNumber ino);
  Result<Attributes> AttributesOf(InodeNumber ino, const InodeRecord& record);

  // Collects changes to inode records in a transaction, so that rows and states change together: `change` is applied to
  // the row now and to the state once the commit succeeded.
  class Changes {
   public:
    explicit Changes(Impl& impl) : impl_(impl), transaction(impl.catalog) {}
    Status Patch(InodeNumber ino, const std::function<void(InodeRecord&)>& change);
    void Make(InodeNumber ino, const InodeRecord& record) { transaction.PutInode(ino, record); }
    // Commits, patches states and queues what was dropped for removal.
    Status Commit();

   private:
    Impl& impl_;
    std::vector<std::pair<StatePtr, std::function<void(InodeRecord&)>>> patches_;

   public:
    Transaction transaction;
  };

  // ---- Data (tree_data.cc). All REQUIRE state.io held alone.
  Status Load(FileState& state);
  // Makes [offset, ...) writable in place, keeping the first `keep` bytes of what is there now: brings sealed content
  // back into staging, or copies where versions still need the old bytes.
  Status PrepareWrite(FileState& state, std::uint64_t offset, std::uint64_t keep);
  Status Truncate(FileState& state, std::uint64_t size);
  Status FsyncLocked(FileState& state);
  Status FlushLocked(FileState& state);

  // ---- Versions (tree_commit.cc). REQUIRE state.io held alone.
  // Gives uncommitted data its version numbers. Nothing to do for unlinked or unchanged files.
  Status Commit(FileState& state, std::uint32_t flags = 0);
  Status TakeBackProvisional(FileState& state);
  // True when the state's bytes equal those of `version` (compared; false for large files that look alike, which the
  // sealer compares later).
  Result<bool> EqualsVersion(FileState& state, const VersionRecord& version);
  // Adds the next version at a place. `transaction` must hold the content's row already.
  static Status AddVersion(Transaction& transaction, const Place& place, VersionRecord version);
  // The name of a place was removed.
  static Status MarkDeleted(Transaction& transaction, const Place& place);

  // ---- Names (tree_names.cc).
  Result<Attributes> MakeEntry(const Place& place, InodeRecord record, const Caller& caller,
                               std::uint32_t open_flags = 0);
  Status CheckNewName(std::string_view name) const;
  Result<InodeRecord> GetDirectory(Transaction& transaction, InodeNumber ino) const;
  Status RemoveInode(InodeNumber ino);  // An unlinked inode that nobody uses.
  Status BuryDirectory(Changes& changes, const Place& place, InodeNumber ino, InodeRecord record);
  Result<std::vector<StatePtr>> StatesOf(const std::vector<InodeNumber>& inodes);
};

// Files that protocols make beside the data: they have no history of their own.
bool IsTransientName(std::string_view name);

inline Status Errno(int error) { return Status::Posix(error); }

}  // namespace stepfs::store
