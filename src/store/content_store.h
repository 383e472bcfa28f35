// SPDX-License-Identifier: Apache-2.0
//
// ContentStore: the bytes behind content numbers, wherever they are: a staging file, a sealed blob, a cached snapshot,
// the index. It owns STORE/staging, STORE/blobs and STORE/cache and knows nothing of names.
//
// Thread-safe. Its locks are leaves: no call of it takes the catalog's mutex.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/file_ops.h"
#include "codec/frame.h"
#include "store/catalog.h"

namespace stepfs::store {

struct ContentStoreOptions {
  std::string root;                                  // The store directory.
  std::uint64_t cache_bytes = 0;                     // Budget for snapshots; 0: a tenth of the free disk space.
  std::uint64_t decoded_chunk_bytes = 256ull << 20;  // Memory for decoded chunks.
  std::function<void(const std::string&)> on_warning;
  int threads = 0;  // For decoding; 0: as many as there are processors.
};

class ContentStore {
 public:
  // Makes the directories where they are missing, and takes stock of the cache: complete snapshots are adopted (and
  // verified against their digest when they are first used), anything else in it is removed.
  static Result<std::unique_ptr<ContentStore>> Open(const ContentStoreOptions& options, FileOps& files,
                                                    Catalog& catalog);
  ~ContentStore();

  // ---- Staging files: raw bytes of kOpen and kStaged contents, named by content number.
  std::string StagingPath(ContentId content) const;
  Result<std::shared_ptr<File>> CreateStaging(ContentId content);
  Result<std::shared_ptr<File>> OpenStaging(ContentId content);
  Status RemoveStaging(ContentId content);
  Result<std::vector<ContentId>> ListStaging() const;
  // fdatasync of the file and, once after its creation, of its directory.
  Status SyncStaging(ContentId content, File& file);
  // The same for a file that is not open; it is not opened for writing, which would disturb the sealer's lease.
  Status SyncStaging(ContentId content);

  // ---- Reading.
  // The first `size` bytes of a content in any state but kDamaged (of kOpen: what is in its staging file now). Reads
  // are verified: of a sealed content each chunk's checksum holds before a byte is shown, a snapshot or an adopted
  // staging file was compared with its digest at first use. The source may be kept as long as wished; it stays readable
  // when the content is sealed, evicted or even forgotten meanwhile (open files are kept). kCorruption names content,
  // chunk and expectation.
  Result<std::shared_ptr<const ByteSource>> OpenContent(ContentId content);

  // ---- Sealed blobs.
  std::string BlobPath(std::uint64_t blob) const;
  // Removes files of forgotten contents (staging, snapshot, blob) after their rows are durably gone.
  void RemoveFilesOf(const Transaction::Dropped& dropped);

  // ---- Snapshots: raw copies of sealed contents, evictable.
  // Makes the staging file of a sealed content its snapshot (a rename; no copy); verified when it is first used.
  Status AdoptStagingAsSnapshot(ContentId content);
  // Turns the snapshot of `content` into the staging file of `successor`, when there is a verified one and nobody else
  // reads from it: a rewrite in place then needs no copy. False when that is not so, and nothing changed.
  Result<bool> TakeOverSnapshot(ContentId content, ContentId successor);
  bool HasSnapshot(ContentId content) const;
  // Live contents are evicted last.
  void SetLive(ContentId content, bool live);
  // Drops every snapshot nobody reads (`stepfs` tests and --cache-size 0).
  void EmptyCache();

  // ---- Figures for status and st_blocks.
  struct DiskUse {
    std::uint64_t blobs = 0, staging = 0, cache = 0;
  };
  DiskUse disk_use() const;

  struct Impl;
  Impl& impl() { return *impl_; }  // For the sealer and verification.

 private:
  ContentStore();
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfs::store
