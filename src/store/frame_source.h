// SPDX-License-Identifier: Apache-2.0
//
// FrameSource: a sealed content as a ByteSource. Decodes the chunks a range needs, and of each base the chunks those
// need, down the chain to the nearest raw file or anchor. Nothing is shown before its checksum holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec/frame.h"
#include "store/chunk_cache.h"

namespace stepfs::store {

class FrameSource final : public ByteSource {
 public:
  // `sources` in the order of the frame's own list. kCorruption when the frame is not what `digest` and `size` say, or
  // a source is missing. `cache` must outlive it.
  static Result<std::shared_ptr<const FrameSource>> Open(std::uint64_t content, std::string name,
                                                         std::shared_ptr<const ByteSource> blob,
                                                         std::vector<std::shared_ptr<const ByteSource>> sources,
                                                         std::uint64_t size, const Digest* digest, ChunkCache& cache,
                                                         int threads);

  std::uint64_t size() const override { return reader_->target_bytes(); }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override;
  const codec::FrameReader& reader() const { return *reader_; }

 private:
  FrameSource(std::uint64_t content, std::string name, ChunkCache& cache, int threads)
      : content_(content), name_(std::move(name)), cache_(cache), threads_(threads) {}
  Status ReadChunk(std::uint32_t chunk, std::uint64_t offset, MutableBytes out) const;

  const std::uint64_t content_;
  const std::string name_;
  ChunkCache& cache_;
  const int threads_;
  std::shared_ptr<const ByteSource> blob_;
  std::vector<std::shared_ptr<const ByteSource>> sources_;
  std::vector<const ByteSource*> source_views_;
  std::unique_ptr<codec::FrameReader> reader_;
};

}  // namespace stepfs::store
