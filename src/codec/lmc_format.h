// SPDX-License-Identifier: Apache-2.0
//
// Constants of lmc chunks, for lmc.cc and lmc_section.cc. All of them are persisted: docs/codec_lmc.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "codec/delta.h"

namespace stepfs::codec::lmc {

// Chunk header: flags, log2 of the block size, mask of constant planes.
inline constexpr std::size_t kHeaderBytes = 3;
inline constexpr std::uint8_t kFlagDeltaMask = 0x03;  // A DeltaKind.
inline constexpr std::uint8_t kFlagGrouped = 0x04;
inline constexpr unsigned kMinBlockBits = 8;
inline constexpr unsigned kMaxBlockBits = 16;
inline constexpr std::size_t kMaxBlockBytes = std::size_t{1} << kMaxBlockBits;

// The first byte of a section.
enum class SectionTag : std::uint8_t {
  kRaw = 0,       // The bytes.
  kConstant = 1,  // One byte, which all are.
  kHuffman = 2,   // u16 size, Huffman body of that size.
  kRuns = 3,      // u16 size, then that many bytes: run byte, u16 tokens, u16 literals, their two sections.
};
inline constexpr std::size_t kTagBytes = 1;
inline constexpr std::size_t kSizeBytes = 2;
inline constexpr std::size_t kRunsHeaderBytes = 5;

// How a chunk's bytes lie in planes.
struct Geometry {
  std::size_t width;        // Bytes an element.
  std::size_t elements;     // Whole ones; the bytes behind them are the tail.
  std::size_t planes;       // width when grouped, else 1.
  std::size_t plane_bytes;  // elements when grouped, else width * elements.
  std::size_t tail_bytes;

  Geometry(std::size_t element_width, std::size_t target_bytes, bool grouped)
      : width(element_width),
        elements(target_bytes / width),
        planes(grouped ? width : 1),
        plane_bytes(grouped ? elements : elements * width),
        tail_bytes(target_bytes - elements * width) {}

  std::size_t log2_width() const { return static_cast<std::size_t>(std::countr_zero(width)); }
  // Elements in `bytes` of each plane.
  std::size_t ElementsIn(std::size_t bytes) const { return bytes * planes / width; }
};

}  // namespace stepfs::codec::lmc
