// SPDX-License-Identifier: Apache-2.0
//
// ChunkCodec: turns the bytes of one chunk (up to a few MiB of one tensor, or of plain bytes) into fewer bytes and back.
// Stateless and const: one instance serves all threads. A chunk is decodable from its own encoded bytes plus the
// reference bytes it was encoded against, and from nothing else.
//
// Encoding is deterministic: the same input gives the same bytes on every build, instruction set and thread count.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "codec/element.h"

namespace stepfs::codec {

// How a chunk is stored. Persisted in frames (docs/format.md, "Codecs"): never renumbered.
enum class CodecId : std::uint8_t {
  kRaw = 0,       // The bytes themselves.
  kEqual = 1,     // No bytes: the chunk is its base.
  kZstd = 2,      // One zstd frame; with a base, the base bytes are its prefix ("patch from").
  kLmc = 3,       // docs/codec_lmc.md
  kExponent = 4,  // docs/codec_exponent.md: ordered-integer difference in the context of the base's exponent.
  kMix = 5,       // docs/codec_mix.md (the `max` setting)
  kLstm = 6,      // docs/codec_lstm.md
  kExcp = 7,      // docs/codec_excp.md, near-lossless
  kFill = 8,      // One byte, which the whole chunk repeats (zeros of sparse files and fresh optimizer state).
};

// "raw", "equal", "zstd", "lmc", "exponent", ...; "unknown" for a number that no codec of this build has.
std::string_view Name(CodecId id);

// What a chunk is coded against. Each span is empty or exactly as long as the target chunk, element for element; only
// kZstd takes a base of another length.
struct References {
  Bytes base;     // The predecessor's bytes at the same place.
  Bytes context;  // The predecessor's predecessor there, for coders that look at the previous change.
};

class ChunkCodec {
 public:
  virtual ~ChunkCodec() = default;

  virtual CodecId id() const = 0;

  // An upper bound of what Encode writes for a chunk of `target_bytes`.
  virtual std::size_t MaxEncodedBytes(ElementType element, std::size_t target_bytes) const = 0;

  // Writes the encoded chunk to out[0, n-1] and returns n. Any target is accepted, also one whose length is not a
  // multiple of Width(element), is 0, or does not look like its element type. n may exceed target.size(): the frame
  // then stores the chunk raw. Fails only with kNoMemory, or kUnsupported where a codec needs a base and has none.
  // REQUIRES: out.size() >= MaxEncodedBytes(element, target.size()); no span overlaps another.
  virtual Result<std::size_t> Encode(ElementType element, Bytes target, const References& references,
                                     MutableBytes out) const = 0;

  // Fills `target` exactly. kCorruption when `encoded` is malformed, kUnsupported for a parameter of a later version.
  // Never reads or writes outside its spans, whatever `encoded` holds; bounded work per target byte.
  // REQUIRES: element, target.size() and references as they were given to Encode (the caller verified the base).
  virtual Status Decode(ElementType element, Bytes encoded, const References& references,
                        MutableBytes target) const = 0;
};

// The decoder of `id`, valid for the life of the program; nullptr for kRaw, kEqual and kFill, which the frame handles
// itself, and for ids that this build does not know.
const ChunkCodec* DecoderOf(CodecId id);

}  // namespace stepfs::codec
