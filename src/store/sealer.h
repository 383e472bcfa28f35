// SPDX-License-Identifier: Apache-2.0
//
// Sealer: turns staged contents into sealed ones in the background: finds the predecessor, encodes, writes the blob,
// syncs it, reads it back from the disk, decodes, compares with the staged bytes, switches the index, makes the raw
// file the snapshot. A content that is byte-identical to an older one becomes an alias of it; one of up to 1 KiB goes
// into the index; small ones are packed several to a blob file.
//
// A content may be reopened (kOpen again), grow or be forgotten while it is being sealed: the sealer notices when it
// switches the index and drops its work. It never fails a request: what goes wrong is logged by the callback, kept
// staged and tried again later.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "codec/frame.h"
#include "store/catalog.h"
#include "store/content_store.h"

namespace stepfs::store {

// What is told about each finished content, for the log line of a save.
struct SealReport {
  ContentId content = 0;
  std::string path;  // Of its first version, from the root of the mount.
  VersionNumber version = 0;
  std::uint64_t logical_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::string codec;      // Also "alias" and "inline".
  std::string base_path;  // Empty for an anchor.
  VersionNumber base_version = 0;
  std::uint32_t depth = 0;
  double seconds = 0;
  Status status;  // Not ok: it stays staged, and why.
};

struct SealerOptions {
  codec::CodecChoice codec = codec::CodecChoice::kDefault;
  int threads = 0;  // OpenMP threads for encoding; 0: as many as there are processors.
  std::uint32_t max_depth = 16;
  std::function<void(const SealReport&)> report;  // Called from the sealer's thread.
};

class Sealer {
 public:
  Sealer(const SealerOptions& options, Catalog& catalog, ContentStore& contents, FileOps& files);
  ~Sealer();  // Stops after the content in work; what is queued stays staged and is queued again at the next start.

  void Start();
  void Stop();
  // Queues a staged content. Cheap; never blocks. Contents are sealed in the order of their numbers where one may be
  // the base of the other. `not_before` delays it (logs that grow).
  void Enqueue(ContentId content, Nanoseconds not_before = 0);
  // Waits until everything enqueued before the call (delays ignored) is sealed or has failed; kIo-like failure of the
  // first that failed. `progress(done, total bytes)` is called now and then; returning false gives up waiting.
  Status Drain(const std::function<bool(std::uint64_t done_bytes, std::uint64_t total_bytes)>& progress = nullptr);

  std::uint64_t backlog_bytes() const;
  std::uint64_t backlog_count() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfs::store
