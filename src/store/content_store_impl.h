// SPDX-License-Identifier: Apache-2.0
//
// What ContentStore and Sealer share. Internal to src/store.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "store/blob_backend.h"
#include "store/chunk_cache.h"
#include "store/content_store.h"
#include "store/frame_source.h"
#include "store/snapshot_cache.h"

namespace stepfs::store {

// A range of another source, which it keeps alive.
class SliceSource final : public ByteSource {
 public:
  SliceSource(std::shared_ptr<const ByteSource> whole, std::uint64_t offset, std::uint64_t size)
      : whole_(std::move(whole)), offset_(offset), size_(size) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size_ || out.size() > size_ - offset) return Status::InvalidArgument("read beyond the end of a frame");
    if (offset_ > whole_->size() || offset_ + offset > whole_->size() ||
        out.size() > whole_->size() - offset_ - offset) {
      return Status::Corruption("blob is shorter than the index says");
    }
    return whole_->ReadAt(offset_ + offset, out);
  }

 private:
  const std::shared_ptr<const ByteSource> whole_;
  const std::uint64_t offset_;
  const std::uint64_t size_;
};

struct ContentStore::Impl {
  ContentStoreOptions options;
  FileOps* files = nullptr;
  Catalog* catalog = nullptr;
  int threads = 1;
  std::unique_ptr<BlobBackend> blobs;
  std::unique_ptr<SnapshotCache> snapshots;
  std::unique_ptr<ChunkCache> chunks;

  std::mutex mutex;                    // Leaf.
  std::set<ContentId> unsynced_names;  // Staging files whose directory entry may not be on disk.
  std::map<std::pair<ContentId, std::uint64_t>, std::weak_ptr<const ByteSource>> staged_sources;
  std::multimap<ContentId, std::weak_ptr<const ByteSource>> open_sources;  // Of staging files that were being written.
  std::map<ContentId, std::weak_ptr<const FrameSource>> frames;
  std::deque<std::shared_ptr<const FrameSource>> recent_frames;  // Keeps parsed tables warm.

  std::shared_ptr<const ByteSource> StagedSource(ContentId content, std::uint64_t size, Status& failure);
  // `use_raw` false: by the sealed form even where a snapshot exists (verification).
  Result<std::shared_ptr<const ByteSource>> OpenSealed(ContentId content, const ContentRecord& row, int depth,
                                                       bool use_raw);
  Result<std::shared_ptr<const ByteSource>> OpenAny(ContentId content, int depth);
  // Somebody holds a source that was opened on the content's staging file, under whatever size.
  bool IsReadFromStaging(ContentId content);
  Status AdoptStaging(ContentId content, std::uint64_t size, bool verified);
};

}  // namespace stepfs::store
