// SPDX-License-Identifier: Apache-2.0
//
// The frame: one encoded content, self-describing and checksummed (docs/format.md). It is what a blob of the store
// holds and what `stepfs encode` writes. A frame lists the contents it refers to (by xxh3-128 digest), and cuts the
// target into chunks that decode independently of each other; a chunk gathers one or more pieces of the target of one
// element type, each aligned with its own range of a source.
//
// FrameEncoder runs OpenMP over the chunks of one window at a time: memory is bounded by EncodeOptions, files may be
// larger than memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/hash.h"
#include "base/result.h"
#include "codec/codec.h"
#include "codec/layout/layout.h"

namespace stepfs::codec {

// What a source is to the frame. Persisted.
enum class SourceRole : std::uint8_t {
  kContent = 1,  // Chunks are deltas against it (or equal to it): the base.
  kContext = 2,  // Coders look at it for statistics (the base's own predecessor).
};

// A content that the frame needs for decoding. `path` and `version` are for people; the digest decides.
struct FrameSource {
  SourceRole role = SourceRole::kContent;
  Digest digest;
  std::uint64_t size = 0;
  std::string path;
  std::uint64_t version = 0;
};

// A setting by the name users give it: --codec NAME.
enum class CodecChoice { kDefault, kLmc, kZstd, kRaw, kMax, kLstm, kExcp };
std::optional<CodecChoice> CodecChoiceFromName(std::string_view name);  // Only names that this build can encode.
std::string_view Name(CodecChoice choice);

struct EncodeOptions {
  CodecChoice codec = CodecChoice::kDefault;
  std::size_t chunk_bytes = 512 * 1024;          // Target bytes a chunk at most.
  std::size_t window_bytes = 32 * 1024 * 1024;   // Target bytes in memory at a time; about four times that is used.
  int threads = 0;                               // OpenMP threads; 0: as many as there are processors.
  bool lmc_subtract = false;                     // lmc: arithmetic difference instead of XOR.
  // Opaque sections that the caller wants to find again (type >= 64), for example names and times for index recovery.
  std::map<std::uint32_t, std::string> sections;
};

// One reference at encoding time. `bytes` must stay valid during EncodeFrame and must hold what `source` names.
struct EncodeSource {
  FrameSource source;
  const ByteSource* bytes = nullptr;
  const Layout* layout = nullptr;
};

struct EncodeStats {
  std::uint64_t target_bytes = 0;
  std::uint64_t encoded_bytes = 0;      // The whole frame.
  Digest digest;                        // Of the target.
  bool uses_sources = false;            // False when no chunk refers to a source: the frame is an anchor, and lists none.
  std::map<CodecId, std::uint64_t> target_bytes_by_codec;
};

// Encodes `target` and appends the frame to `sink`. Chooses per tensor, by sampled size, between a delta and coding
// without base. The same input and options give the same bytes at any thread count. Failures of target, sources and
// sink come back with their context.
Result<EncodeStats> EncodeFrame(const ByteSource& target, const Layout& layout, const std::vector<EncodeSource>& sources,
                                const EncodeOptions& options, ByteSink& sink);

// A frame opened for reading. Thread-safe: several threads may read at once. Keeps the parsed tables in memory (about
// 40 bytes a piece), not the chunks.
class FrameReader {
 public:
  // Reads and checks header, tables and trailer. `blob` must outlive the reader. kCorruption for damage, kUnsupported
  // for a newer major version or an unknown required feature.
  static Result<std::unique_ptr<FrameReader>> Open(const ByteSource& blob);
  ~FrameReader();

  std::uint64_t target_bytes() const;
  const Digest& digest() const;
  const std::vector<FrameSource>& sources() const;
  bool lossless() const;
  const std::map<std::uint32_t, std::string>& sections() const;
  // Name of the codec that covers most target bytes.
  std::string_view dominant_codec() const;
  const std::map<CodecId, std::uint64_t>& target_bytes_by_codec() const;

  std::size_t chunk_count() const;
  // Indices of the chunks that hold any byte of [offset, offset + length), ascending, each once.
  std::vector<std::uint32_t> ChunksOf(std::uint64_t offset, std::uint64_t length) const;
  // Decoded size of a chunk (the sum of its pieces).
  std::size_t ChunkBytes(std::uint32_t index) const;

  // Decodes one chunk into chunk[0, ChunkBytes-1] (pieces one after another) and checks its checksum: nothing is handed
  // out before it holds. `sources` are the contents in the order of sources(); an entry may be null when no chunk in
  // question needs it. kCorruption names the chunk, what was expected and what was found.
  Status DecodeChunk(std::uint32_t index, const std::vector<const ByteSource*>& sources, MutableBytes chunk) const;
  // Copies from a decoded chunk what lies in [offset, offset + out.size()) to its place in `out`.
  void CopyOut(std::uint32_t index, Bytes chunk, std::uint64_t offset, MutableBytes out) const;

  // Fills `out` from the target at `offset`: DecodeChunk and CopyOut over ChunksOf, on `threads` OpenMP threads.
  Status Read(std::uint64_t offset, const std::vector<const ByteSource*>& sources, MutableBytes out,
              int threads = 1) const;

  // Checks the checksum over all stored bytes of the frame without decoding (one sequential read).
  Status VerifyStoredBytes() const;

 private:
  FrameReader();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfs::codec
