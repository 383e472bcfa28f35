// SPDX-License-Identifier: Apache-2.0
//
// CodecSet: the codecs that one setting (--codec NAME) lets the frame encoder try, by kind of chunk.
#pragma once

#include <memory>
#include <vector>

#include "codec/codec.h"
#include "codec/frame.h"

namespace stepfs::codec {

class CodecSet {
 public:
  static CodecSet Of(const EncodeOptions& options);
  // One codec for every chunk.
  static CodecSet Single(std::unique_ptr<ChunkCodec> codec, bool wants_context);

  // Codecs worth trying on chunks of `element` with that many bytes, the preferred one first. Empty: store raw.
  const std::vector<const ChunkCodec*>& CandidatesFor(ElementType element, std::size_t chunk_bytes) const;
  // Chunks are stored as they are, without a look at sources.
  bool raw_only() const { return floats_.empty(); }
  // References::context is worth reading.
  bool wants_context() const { return wants_context_; }

 private:
  const ChunkCodec* Own(std::unique_ptr<ChunkCodec> codec);

  std::vector<std::unique_ptr<ChunkCodec>> owned_;
  std::vector<const ChunkCodec*> floats_;       // Floating-point tensors.
  std::vector<const ChunkCodec*> integers_;     // All other tensors.
  std::vector<const ChunkCodec*> plain_;        // Bytes that belong to no tensor.
  std::vector<const ChunkCodec*> small_plain_;  // The same in small chunks: headers, where effort costs little time.
  bool wants_context_ = false;
};

}  // namespace stepfs::codec
