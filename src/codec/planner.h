// SPDX-License-Identifier: Apache-2.0
//
// Planner: cuts a target into the chunks of a frame. Pure arithmetic over layout and alignment; no byte is read.
//
// The target is cut into pieces (a part of one tensor, or of the bytes between tensors), pieces are gathered into
// chunks of one element type, chunks into windows. Windows follow each other in the target and are what the encoder
// holds in memory, so that it reads the target once and in order. Large tensors get chunks of their own; small ones of
// one kind share chunks, and so do the bytes between tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/alignment.h"
#include "codec/layout/layout.h"

namespace stepfs::codec {

inline constexpr std::uint64_t kNoOffset = UINT64_MAX;

struct PlannedPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t base_offset = kNoOffset;  // Beginning of its `bytes` bytes of the base, or kNoOffset.
};

struct PlannedRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct PlannedChunk {
  ElementType element = ElementType::kBytes;
  std::uint32_t group = 0;           // Chunks of one tensor have the same number: they are worth coding alike.
  std::uint64_t bytes = 0;           // Sum of the pieces.
  std::vector<PlannedPiece> pieces;  // In target order.
  // What of the base resembles a kBytes chunk whose pieces have no equally long counterpart. Empty for all others.
  std::vector<PlannedRange> base_ranges;

  bool aligned() const { return !pieces.empty() && pieces.front().base_offset != kNoOffset; }
};

struct PlannedWindow {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::vector<PlannedChunk> chunks;  // In order of their first piece. Their pieces tile the window.
};

struct PlanLimits {
  std::uint64_t chunk_bytes = 512 * 1024;         // Most bytes of a chunk.
  std::uint64_t window_bytes = 32 * 1024 * 1024;  // Most bytes of a window, unless one chunk is larger.
};

class Planner {
 public:
  // `layout` and `base` (null: no base) must outlive the planner.
  // REQUIRES: 1 <= limits.chunk_bytes <= kMaxChunkBytes.
  Planner(std::uint64_t target_bytes, const Layout& layout, const Alignment* base, const PlanLimits& limits);

  // The next window, or nothing after the last.
  std::optional<PlannedWindow> Next();

 private:
  // A stretch of the target with one element type and one kind of counterpart, or none.
  struct Segment {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t piece_bytes = 0;  // It is cut into pieces of this size.
    ElementType element = ElementType::kBytes;
    std::uint32_t kind = 0;           // Small segments share a chunk when element and kind are the same.
    const AlignedRun* run = nullptr;  // What it is aligned with.
  };

  void AddTensor(const KeptExtent& extent, const Tensor& tensor);
  void AddSegment(std::uint64_t offset, std::uint64_t bytes, ElementType element, std::uint32_t kind);
  std::uint32_t KindOf(std::string_view tensor_name);
  bool HasOwnChunks(const Segment& segment) const;
  PlannedPiece PieceAt(const Segment& segment, std::uint64_t offset, std::uint64_t bytes) const;

  const Alignment* base_;
  const PlanLimits limits_;
  std::vector<Segment> segments_;
  std::map<std::string_view, std::uint32_t> kinds_;
  std::size_t segment_ = 0;     // Where the next window begins: in this segment ...
  std::uint64_t position_ = 0;  // ... at this offset of the target.
  std::uint32_t next_group_ = 0;
};

}  // namespace stepfs::codec
