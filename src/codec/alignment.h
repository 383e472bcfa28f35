// SPDX-License-Identifier: Apache-2.0
//
// Alignment: which range of a source belongs to which range of the target. Tensors are paired by name and element
// type; what has no partner by name is paired in order among tensors of the same element type and shape. The bytes
// between tensors (headers, pickles, directories) are paired with the bytes between the partners.
//
// Layouts are advice: ranges that overlap or lie outside the files are ignored, and a wrong pairing costs compression
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codec/layout/layout.h"

namespace stepfs::codec {

// Extents below this are treated as the bytes between tensors: an own piece in the chunk table would cost as much as
// they hold (Adam's step counters).
inline constexpr std::uint64_t kLeastTensorBytes = 256;

// One extent of one tensor that is worth a piece of its own.
struct KeptExtent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tensor = 0;  // Index into Layout::tensors.
  std::uint32_t extent = 0;  // Index into Tensor::extents.
};

// The extents of `layout` of at least kLeastTensorBytes that lie inside the file and overlap no earlier one, in file
// order.
std::vector<KeptExtent> KeptExtents(std::uint64_t file_bytes, const Layout& layout);

// A range of the target and the range of the source it belongs to. Both begin at corresponding bytes. Tensor runs are
// equally long; runs of the bytes between tensors need not be.
struct AlignedRun {
  std::uint64_t target_offset = 0;
  std::uint64_t target_bytes = 0;
  std::uint64_t source_offset = 0;
  std::uint64_t source_bytes = 0;
};

class Alignment {
 public:
  // `source_layout` may be null. A target or source without tensors: one run from the beginning of both.
  static Alignment Between(std::uint64_t target_bytes, const Layout& target_layout, std::uint64_t source_bytes,
                           const Layout* source_layout);

  // Disjoint, in target order. Target bytes that no run covers have no counterpart.
  const std::vector<AlignedRun>& runs() const { return runs_; }

  // The run that covers the byte at `target_offset`, or null.
  const AlignedRun* Find(std::uint64_t target_offset) const;
  // Where target[offset, offset + length) begins in the source when one run maps all of it, counted from the run's
  // beginning.
  std::optional<std::uint64_t> SourceOffset(std::uint64_t target_offset, std::uint64_t length) const;

 private:
  std::vector<AlignedRun> runs_;
};

}  // namespace stepfs::codec
