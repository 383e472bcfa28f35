// SPDX-License-Identifier: Apache-2.0
//
// The journal: a directory of append-only segment files that hold every batch LMDB does not have yet. The bytes are
// described in docs/index_schema.md, "Journal and rows".
//
// Every record says through which sequence number the journal was known durable when the record was written, and each
// successful Sync leaves such a record behind. That is what tells a power cut from damage at the next start: a batch
// that cannot be read and was never known durable ends the journal there (a power cut may lose unsynced pages in any
// order); one that was known durable is kCorruption.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "index/index.h"

namespace stepfs::index {

inline constexpr std::size_t kSegmentHeaderBytes = 48;
inline constexpr std::size_t kRecordHeaderBytes = 32;
// Bound for one batch, so that its length fits its field with room to spare.
inline constexpr std::size_t kMaxBatchBytes = std::size_t{1} << 30;

// The bytes of a segment's header and of one record. A record without a batch is a durability mark.
std::string EncodeSegmentHeader(std::uint64_t number, std::uint64_t first_sequence, std::uint64_t salt);
std::string EncodeRecord(std::uint64_t salt, std::uint64_t sequence, std::uint64_t durable_sequence,
                         const WriteBatch* batch);

// Thread-safe; appends are serialised by the caller's sequence numbers, which must be consecutive.
class Journal {
 public:
  using Apply = std::function<Status(std::uint64_t sequence, const WriteBatch& batch)>;

  // Makes the directory if absent, and calls `apply` for each intact batch beyond `applied_sequence`, in order.
  // kCorruption as described above, kUnsupported for a segment of a newer version.
  static Result<std::unique_ptr<Journal>> Open(FileOps& files, const std::string& directory,
                                               std::uint64_t applied_sequence, const Apply& apply, Recovery* recovery);

  // After a failure nothing of the batch will be replayed: the bytes are cut off again, and if that fails as well, the
  // segment is given up, and every further Append fails until a new one could be started.
  // REQUIRES: sequence == last_sequence() + 1, the batch is not empty.
  Status Append(std::uint64_t sequence, const WriteBatch& batch);

  // Everything appended before the call is durable when it returns Ok. Callers share one fdatasync. Once a sync of a
  // segment failed, its entries cannot be made durable here any more (the kernel may have dropped their pages):
  // the failure repeats until DropThrough() has covered them.
  Status Sync();

  // Makes the next segment ready (slow: syncs). Rotate() then starts using it (fast); without a prepared segment, the
  // next Append makes one.
  Status PrepareSegment();
  void Rotate();
  // The caller has made all entries <= `sequence` durable elsewhere: removes the closed segments that hold no others.
  void DropThrough(std::uint64_t sequence);

  std::uint64_t last_sequence() const;
  // Size of all segments.
  std::uint64_t bytes() const;

 private:
  struct Segment {
    std::uint64_t number = 0;
    std::string path;
    std::unique_ptr<File> file;
    std::uint64_t salt = 0;
    std::uint64_t size = 0;
    std::uint64_t last_sequence = 0;  // Of all entries here and before.
    bool sync_failed = false;
  };
  class Replayer;

  Journal(FileOps& files, std::string directory) : files_(files), directory_(std::move(directory)) {}
  std::string PathOf(std::uint64_t number) const;
  Result<std::shared_ptr<Segment>> CreateSegment(std::uint64_t number);
  Status StartSegmentLocked();
  void CloseCurrentLocked();
  Status WriteLocked(std::uint64_t sequence, const WriteBatch* batch);

  FileOps& files_;
  const std::string directory_;
  std::mutex prepare_mutex_;  // Before mutex_.

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable synced_;
  std::vector<std::shared_ptr<Segment>> closed_;  // Ascending.
  std::shared_ptr<Segment> current_;
  std::shared_ptr<Segment> prepared_;
  std::uint64_t next_number_ = 1;
  std::uint64_t appended_ = 0;
  std::uint64_t durable_ = 0;
  bool syncing_ = false;
};

}  // namespace stepfs::index
