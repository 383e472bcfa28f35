// SPDX-License-Identifier: Apache-2.0
//
// Made-up files with tensors, their successors, and frames of them, for tests of the frame and of what stands on it.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "codec/frame.h"

namespace stepfs::codec::testing {

using Random = std::mt19937_64;

inline std::size_t Below(Random& random, std::size_t limit) { return limit == 0 ? 0 : random() % limit; }

inline void AppendRandom(Random& random, std::size_t count, ByteVector& out) {
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(random()));
}

// Text that compresses, as headers and pickles do.
inline void AppendText(Random& random, std::size_t count, ByteVector& out) {
  static constexpr std::string_view kWords[] = {"layers.",    "weight", "bias", "\x80\x02",
                                                "attention/", "0123",   " ",    "\n"};
  std::string text;
  while (text.size() < count) text += kWords[Below(random, std::size(kWords))];
  const Bytes bytes = AsBytes(text).first(count);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// A file and what a parser would say about it.
struct File {
  ByteVector bytes;
  Layout layout;

  void AddTensor(std::string name, ElementType element, Bytes content, std::vector<std::uint64_t> shape = {}) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.element = element;
    tensor.shape = shape.empty() ? std::vector<std::uint64_t>{content.size() / Width(element)} : std::move(shape);
    tensor.extents.push_back({bytes.size(), content.size(), {}});
    layout.tensors.push_back(std::move(tensor));
    bytes.insert(bytes.end(), content.begin(), content.end());
  }
  Bytes Of(std::size_t tensor) const {
    const TensorExtent& extent = layout.tensors[tensor].extents[0];
    return Bytes(bytes).subspan(extent.offset, extent.nbytes);
  }
};

// float32 weights around zero: random mantissas, a few exponents.
inline ByteVector RandomWeights(Random& random, std::size_t count) {
  std::normal_distribution<float> normal(0.0f, 0.02f);
  ByteVector bytes(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

// The same weights with the given share of them changed in their lowest byte.
inline ByteVector Nudged(Random& random, Bytes weights, double share) {
  ByteVector bytes(weights.begin(), weights.end());
  std::bernoulli_distribution changes(share);
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    if (changes(random)) bytes[i] = static_cast<std::byte>(random());
  }
  return bytes;
}

struct Frame {
  ByteVector bytes;
  EncodeStats stats;
};

inline FrameSource SourceOf(const ByteSource& source, Bytes bytes, SourceRole role = SourceRole::kContent) {
  return {.role = role, .digest = Hash128(bytes), .size = source.size(), .path = "base", .version = 7};
}

// Encodes `target` against `sources`, the first being the base.
inline Result<Frame> EncodeFile(const File& target, const std::vector<const File*>& sources,
                                const EncodeOptions& options) {
  std::vector<std::unique_ptr<MemorySource>> bytes;
  std::vector<EncodeSource> encode_sources;
  for (const File* source : sources) {
    bytes.push_back(std::make_unique<MemorySource>(source->bytes));
    encode_sources.push_back({SourceOf(*bytes.back(), source->bytes), bytes.back().get(), &source->layout});
  }
  MemorySink sink;
  STEPFS_ASSIGN_OR_RETURN(EncodeStats stats,
                          EncodeFrame(MemorySource(target.bytes), target.layout, encode_sources, options, sink));
  return Frame{sink.Take(), std::move(stats)};
}

// Decodes the whole target; `sources` may hold more contents than the frame lists.
inline Result<ByteVector> DecodeFile(Bytes frame, const std::vector<const File*>& sources, int threads = 1) {
  const MemorySource blob(frame);
  STEPFS_ASSIGN_OR_RETURN(const auto reader, FrameReader::Open(blob));
  std::vector<std::unique_ptr<MemorySource>> bytes;
  std::vector<const ByteSource*> given;
  for (const FrameSource& listed : reader->sources()) {
    given.push_back(nullptr);
    for (const File* source : sources) {
      if (Hash128(source->bytes) != listed.digest) continue;
      bytes.push_back(std::make_unique<MemorySource>(source->bytes));
      given.back() = bytes.back().get();
    }
  }
  if (reader->target_bytes() > (1u << 30)) return Status::Corruption("larger than any test's target");
  ByteVector target(static_cast<std::size_t>(reader->target_bytes()));
  STEPFS_RETURN_IF_ERROR(reader->Read(0, given, target, threads));
  return target;
}

}  // namespace stepfs::codec::testing
