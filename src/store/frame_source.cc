// SPDX-License-Identifier: Apache-2.0
#include "store/frame_source.h"

namespace stepfs::store {

Result<std::shared_ptr<const FrameSource>> FrameSource::Open(std::uint64_t content, std::string name,
                                                             std::shared_ptr<const ByteSource> blob,
                                                             std::vector<std::shared_ptr<const ByteSource>> sources,
                                                             std::uint64_t size, const Digest* digest,
                                                             ChunkCache& cache, int threads) {
  std::shared_ptr<FrameSource> source(new FrameSource(content, std::move(name), cache, threads));
  source->blob_ = std::move(blob);
  auto reader = codec::FrameReader::Open(*source->blob_);
  if (!reader.ok()) return reader.status().WithContext(source->name_);
  source->reader_ = std::move(*reader);
  if (source->reader_->target_bytes() != size || (digest && source->reader_->digest() != *digest)) {
    return Status::Corruption(source->name_ + ": holds " + source->reader_->digest().ToString() + " of " +
                              std::to_string(source->reader_->target_bytes()) + " bytes, expected " +
                              (digest ? digest->ToString() : std::string("content")) + " of " + std::to_string(size));
  }
  if (source->reader_->sources().size() != sources.size()) {
    return Status::Corruption(source->name_ + ": needs " + std::to_string(source->reader_->sources().size()) +
                              " sources, the index lists " + std::to_string(sources.size()));
  }
  source->sources_ = std::move(sources);
  for (const auto& view : source->sources_) source->source_views_.push_back(view.get());
  return std::shared_ptr<const FrameSource>(std::move(source));
}

Status FrameSource::ReadChunk(std::uint32_t chunk, std::uint64_t offset, MutableBytes out) const {
  auto decoded = cache_.Get(content_, chunk, [&]() -> Result<ByteVector> {
    ByteVector bytes(reader_->ChunkBytes(chunk));
    STEPFS_RETURN_IF_ERROR(reader_->DecodeChunk(chunk, source_views_, bytes));
    return bytes;
  });
  if (!decoded.ok()) return decoded.status().WithContext(name_);
  reader_->CopyOut(chunk, **decoded, offset, out);
  return {};
}

Status FrameSource::ReadAt(std::uint64_t offset, MutableBytes out) const {
  if (offset > size() || out.size() > size() - offset) return Status::InvalidArgument(name_ + ": read beyond its end");
  const std::vector<std::uint32_t> chunks = reader_->ChunksOf(offset, out.size());
  if (chunks.size() < 4 || threads_ <= 1) {
    for (const std::uint32_t chunk : chunks) STEPFS_RETURN_IF_ERROR(ReadChunk(chunk, offset, out));
    return {};
  }
  std::vector<Status> outcomes(chunks.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads_)
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    try {
      outcomes[i] = ReadChunk(chunks[i], offset, out);
    } catch (const std::bad_alloc&) {
      outcomes[i] = Status::NoMemory(name_);
    }
  }
  for (const Status& outcome : outcomes) STEPFS_RETURN_IF_ERROR(outcome);
  return {};
}

}  // namespace stepfs::store
