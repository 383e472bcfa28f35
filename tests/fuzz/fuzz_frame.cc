// SPDX-License-Identifier: Apache-2.0
//
// Input: a byte, then a frame. Unless the byte is 0, the frame's metadata checksum is put right first, so that the
// parsers behind it are reached. The frame may be refused, but must not misbehave; what decodes chunk by chunk must
// read the same as a whole.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/serial.h"
#include "codec/frame.h"
#include "codec/frame_format.h"
#include "fuzz_target.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMostTargetBytes = 8u << 20;  // Decoded for one input.

void Require(bool holds) {
  if (!holds) std::abort();
}

// A content of any length.
class PatternSource final : public ByteSource {
 public:
  explicit PatternSource(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    Require(offset <= size_ && out.size() <= size_ - offset);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((offset + i) * 7);
    return {};
  }

 private:
  const std::uint64_t size_;
};

void RepairChecksum(ByteVector& frame) {
  if (frame.size() < kFrameHeaderBytes + kFrameTrailerBytes) return;
  const std::size_t trailer_begin = frame.size() - kFrameTrailerBytes;
  const Bytes all(frame);
  const Result<FrameTrailer> trailer = ParseTrailer(all.subspan(trailer_begin), frame.size());
  if (!trailer.ok()) return;
  const std::uint64_t hash = MetadataHash(all.first(kFrameHeaderBytes),
                                          all.subspan(static_cast<std::size_t>(trailer->sections_offset),
                                                      static_cast<std::size_t>(trailer->sections_bytes)),
                                          all.subspan(trailer_begin));
  StoreLittle(hash, frame.data() + trailer_begin + kFrameTrailerBytes - sizeof hash - kFrameEndMagic.size());
}

void DecodeAll(const FrameReader& reader) {
  std::vector<std::unique_ptr<PatternSource>> contents;
  std::vector<const ByteSource*> sources;
  for (const FrameSource& source : reader.sources()) {
    contents.push_back(std::make_unique<PatternSource>(source.size));
    sources.push_back(contents.back().get());
  }
  const bool small = reader.target_bytes() <= kMostTargetBytes;
  ByteVector target(small ? static_cast<std::size_t>(reader.target_bytes()) : 0);
  std::size_t decoded = 0;
  bool all_ok = true;
  for (std::uint32_t i = 0; i < reader.chunk_count() && decoded < kMostTargetBytes; ++i) {
    ByteVector chunk(reader.ChunkBytes(i));
    decoded += chunk.size();
    const bool ok = reader.DecodeChunk(i, sources, chunk).ok();
    all_ok = all_ok && ok;
    if (ok) reader.CopyOut(i, chunk, 0, target);
  }
  if (!small) return;
  ByteVector whole(target.size());
  Require(reader.Read(0, sources, whole).ok() == all_ok);
  Require(!all_ok || whole == target);
  const std::vector<std::uint32_t> chunks = reader.ChunksOf(0, UINT64_MAX);
  Require(chunks.size() == reader.chunk_count());
}

}  // namespace
}  // namespace stepfs::codec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepfs::codec;
  if (size == 0) return 0;
  const stepfs::Bytes input = std::as_bytes(std::span(data + 1, size - 1));
  stepfs::ByteVector frame(input.begin(), input.end());
  if (data[0] != 0) RepairChecksum(frame);
  const stepfs::MemorySource blob(frame);
  const auto reader = FrameReader::Open(blob);
  if (!reader.ok()) return 0;
  DecodeAll(**reader);
  const stepfs::Status verified = (*reader)->VerifyStoredBytes();
  Require(verified.ok() || verified.kind() == stepfs::StatusKind::kCorruption);
  return 0;
}
