// SPDX-License-Identifier: Apache-2.0
//
// Index: ordered tables of checksummed key-value rows, with batches that are atomic, fast and crash-safe.
//
// Commit() appends the batch, checksummed, to a journal file and makes it visible to every reader at once: a few
// microseconds, no fsync. That survives the death of the process (the page cache holds the journal); what a power cut
// may take is a suffix of the journal, never something in the middle. SyncJournal() makes everything committed so far
// durable against a power cut as well. Checkpoint() applies the journal to LMDB in one fully synced transaction and
// drops the part that was applied. Open() replays what LMDB has not seen, up to the first entry that is torn or lost.
//
// Reads consult the rows not yet in LMDB first, then LMDB. Every row in LMDB carries a checksum over its key and value
// (LMDB has none): a mismatch is kCorruption, never a wrong value.
//
// Thread-safe: any number of readers beside one Commit at a time (Commit serialises itself); Checkpoint blocks neither.
// No reader transaction outlives a call. Must be opened after daemonizing (LMDB does not survive fork).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"

namespace stepfs::index {

// Tables, persisted by number in the journal and by name in LMDB; docs/index_schema.md says what is in each.
enum class Table : std::uint8_t {
  kState = 0,
  kInodes = 1,
  kDentries = 2,
  kLinks = 3,
  kXattrs = 4,
  kVersions = 5,
  kContents = 6,
  kDigests = 7,
  kDependents = 8,
  kPending = 9,
  kGraves = 10,
  kPacks = 11,
  kPlaces = 12,
  kSketches = 13,
  kExtra = 14,  // Spare, so that a new use need not change the environment.
};
inline constexpr std::size_t kTableCount = 15;

// Longest key, LMDB's own limit.
inline constexpr std::size_t kMaxKeyBytes = 511;

// Changes that take effect together. Later changes of one key win over earlier ones.
class WriteBatch {
 public:
  // REQUIRES: 0 < key.size() <= kMaxKeyBytes.
  void Put(Table table, std::string_view key, std::string_view value);
  void Delete(Table table, std::string_view key);

  struct Change {
    Table table;
    std::string key;
    std::optional<std::string> value;  // Nothing: delete. Deleting what is not there is allowed.
  };
  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return changes_.empty(); }

 private:
  std::vector<Change> changes_;
};

struct IndexOptions {
  std::string lmdb_directory;                         // Made if absent; must be on a local file system.
  std::string journal_directory;                      // Made if absent.
  FileOps* files = nullptr;                           // For the journal; must outlive the index. LMDB does its own I/O.
  std::uint64_t map_bytes = std::uint64_t{64} << 30;  // Address space, not memory; grown when full.
};

// What Open() found in the journal.
struct Recovery {
  std::uint64_t replayed_batches = 0;
  // Bytes behind the end of what could be replayed: what a power cut or a kill in the middle of an append left.
  std::uint64_t dropped_bytes = 0;
  // Intact batches among them, which cannot be used since one before them is lost. Only a power cut that lost unsynced
  // pages out of order, or damage to entries nobody had synced, leaves such.
  std::uint64_t dropped_batches = 0;
};

class Index {
 public:
  // Opens or creates, and replays the journal. kCorruption when LMDB's files do not hold together, or when a journal
  // entry is damaged or missing that is known to have been durable (later entries say so).
  static Result<std::unique_ptr<Index>> Open(const IndexOptions& options);
  // Does not checkpoint: what was committed stays in the journal.
  ~Index();

  // The value, or nothing when there is no such row.
  Result<std::optional<std::string>> Get(Table table, std::string_view key) const;

  // Calls `visit(key, value)` for each row whose key starts with `prefix` and is >= `from` (an empty `from` is the
  // first), ascending, until it returns false. The visitor must not call the index; the views die when it returns.
  // The rows are those of one moment.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;
  Status Scan(Table table, std::string_view prefix, std::string_view from, const Visitor& visit) const;
  // The same, descending from the last row with the prefix that is <= `from` (an empty `from`: the last).
  Status ScanBackward(Table table, std::string_view prefix, std::string_view from, const Visitor& visit) const;

  // Journals the batch and makes it visible. After a failure (kNoSpace, kIo; kInvalidArgument for a key of impossible
  // length or a batch beyond 1 GiB) nothing of it is visible and it will not be replayed. Returns its sequence number
  // (1, 2, ...); for an empty batch, which is not journaled, that of the last one.
  Result<std::uint64_t> Commit(const WriteBatch& batch);

  // Everything committed before the call is durable when it returns. Concurrent callers share one fdatasync.
  Status SyncJournal();

  // Moves everything committed before the call into LMDB, durably, and drops that part of the journal. Concurrent
  // callers wait for each other. Bounded memory: rows are applied in one transaction.
  Status Checkpoint();

  const Recovery& recovery() const;

  // Bytes of journal not yet in LMDB, and of LMDB's file: for deciding when to checkpoint, and for `status`.
  std::uint64_t journal_bytes() const;
  std::uint64_t lmdb_bytes() const;

  // Reads every row of every table and checks its checksum; calls `report` for each damaged row. Returns their number.
  Result<std::uint64_t> Verify(const std::function<void(Table, std::string_view key)>& report) const;

 private:
  Index();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfs::index
