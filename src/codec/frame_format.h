// SPDX-License-Identifier: Apache-2.0
//
// The parts of a frame as they lie on disk (docs/format.md): constants, and for header, sections, source list, chunk
// table and trailer one function that writes and one that reads. Readers check every field against the limits that the
// document gives, so what they return can be used without further checks; their memory is proportional to the bytes
// they were given, whatever those say.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/serial.h"
#include "codec/codec.h"
#include "codec/frame.h"

namespace stepfs::codec {

inline constexpr std::string_view kFrameMagic = "\x89STEPFS\n";
inline constexpr std::string_view kFrameEndMagic = "\nSFPETS\x89";
inline constexpr std::uint16_t kFrameMajor = 1;
inline constexpr std::uint16_t kFrameMinor = 0;
inline constexpr std::size_t kFrameHeaderBytes = 20;
inline constexpr std::size_t kFrameTrailerBytes = 72;

// Optional feature flags ("Feature flags"); no required ones exist in version 1.0.
inline constexpr std::uint32_t kOptionalNearLossless = 1u << 0;
inline constexpr std::uint32_t kKnownRequiredFeatures = 0;

// Section types ("Sections"): below kFirstSkippableSection a reader must know the type; from kFirstCallerSection on
// they belong to whoever made the frame.
inline constexpr std::uint32_t kSectionChunkTable = 1;
inline constexpr std::uint32_t kSectionSources = 2;
inline constexpr std::uint32_t kFirstSkippableSection = 32;
inline constexpr std::uint32_t kFirstCallerSection = 64;

// Limits ("Limits"). A chunk is what one read costs at least and what a reader holds in memory.
inline constexpr std::uint64_t kMaxChunkBytes = 16u << 20;
inline constexpr std::uint64_t kMaxBaseRangeBytes = 4u << 20;
inline constexpr std::uint64_t kMaxSectionAreaBytes = 1u << 30;

// Flags of a chunk record ("Chunk table").
inline constexpr std::uint8_t kChunkAlignedBase = 1u << 0;  // Each piece has its own range of the base, equally long.
inline constexpr std::uint8_t kChunkContext = 1u << 1;      // Each piece has its own range of a context source.
inline constexpr std::uint8_t kChunkBaseRanges = 1u << 2;   // The base is a list of ranges of any length (kZstd only).
inline constexpr std::uint8_t kKnownChunkFlags = kChunkAlignedBase | kChunkContext | kChunkBaseRanges;

struct FrameHeader {
  std::uint16_t major = kFrameMajor;
  std::uint16_t minor = kFrameMinor;
  std::uint32_t required_features = 0;
  std::uint32_t optional_features = 0;
};

struct FrameTrailer {
  std::uint64_t sections_offset = 0;
  std::uint64_t sections_bytes = 0;
  std::uint64_t target_bytes = 0;
  Digest target_digest;
  Digest stored_digest;             // Of every byte of the frame before the trailer.
  std::uint64_t metadata_hash = 0;  // MetadataHash of header, section area and the fields above.
};

struct ChunkPiece {
  std::uint64_t offset = 0;    // In the target.
  std::uint32_t length = 0;    // Never 0.
  std::uint32_t position = 0;  // In the chunk.
  std::uint64_t base = 0;      // Where its range of the base begins; with kChunkAlignedBase.
  std::uint64_t context = 0;   // The same in the context source; with kChunkContext.
};

struct SourceRange {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

struct ChunkRecord {
  CodecId codec = CodecId::kRaw;  // May be a number that this build does not know.
  ElementType element = ElementType::kBytes;
  std::uint8_t flags = 0;
  std::uint32_t base_source = 0;     // Index into the source list, counted from 0; with either base flag.
  std::uint32_t context_source = 0;  // The same; with kChunkContext.
  std::uint32_t first_piece = 0;     // ChunkTable::pieces[first_piece, first_piece + piece_count - 1].
  std::uint32_t piece_count = 0;
  std::uint32_t first_range = 0;  // ChunkTable::base_ranges, likewise; with kChunkBaseRanges.
  std::uint32_t range_count = 0;
  std::uint32_t target_bytes = 0;    // Sum of the pieces.
  std::uint32_t base_bytes = 0;      // Sum of the base: 0, target_bytes, or the sum of its ranges.
  std::uint32_t encoded_bytes = 0;   // Stored bytes.
  std::uint64_t encoded_offset = 0;  // Of the stored bytes in the frame.
  std::uint64_t checksum = 0;        // Hash64 of the decoded chunk.
};

// Where a piece lies in ChunkTable::pieces and to which chunk it belongs.
struct PieceInOrder {
  std::uint32_t piece = 0;
  std::uint32_t chunk = 0;
};

struct ChunkTable {
  std::vector<ChunkRecord> chunks;
  std::vector<ChunkPiece> pieces;
  std::vector<SourceRange> base_ranges;
  std::vector<PieceInOrder> by_offset;  // All pieces in ascending target order. Filled by ParseChunkTable only.

  std::span<const ChunkPiece> PiecesOf(const ChunkRecord& chunk) const {
    return std::span(pieces).subspan(chunk.first_piece, chunk.piece_count);
  }
  std::span<const SourceRange> BaseRangesOf(const ChunkRecord& chunk) const {
    return std::span(base_ranges).subspan(chunk.first_range, chunk.range_count);
  }
};

std::string EncodeHeader(const FrameHeader& header);
// kCorruption when the magic is missing, kUnsupported for another major version. Features are not judged here, because
// the header's checksum is only known with the trailer.
// REQUIRES: bytes.size() == kFrameHeaderBytes.
Result<FrameHeader> ParseHeader(Bytes bytes);

// Writes all fields; `metadata_hash` is not computed here.
std::string EncodeTrailer(const FrameTrailer& trailer);
// kCorruption when the end magic is missing or the section area does not lie exactly between header and trailer.
// REQUIRES: bytes.size() == kFrameTrailerBytes, frame_bytes >= kFrameHeaderBytes + kFrameTrailerBytes.
Result<FrameTrailer> ParseTrailer(Bytes bytes, std::uint64_t frame_bytes);

// What FrameTrailer::metadata_hash must be: the checksum over header, section area and the trailer's first 56 bytes.
// REQUIRES: `trailer` has kFrameTrailerBytes, of which the last 16 are not looked at.
std::uint64_t MetadataHash(Bytes header, Bytes sections, Bytes trailer);

// REQUIRES: types are appended in ascending order, each once.
void AppendSection(std::uint32_t type, std::string_view content, ByteWriter& out);
// Views into `area`, by type. kUnsupported for an unknown type below kFirstSkippableSection.
Result<std::map<std::uint32_t, std::string_view>> ParseSections(Bytes area);

std::string EncodeSources(const std::vector<FrameSource>& sources);
Result<std::vector<FrameSource>> ParseSources(std::string_view section);

// Writes codec, element, flags, sources, encoded_bytes, checksum, pieces and ranges of every chunk; the other fields
// follow from these.
// REQUIRES: a valid table: what ParseChunkTable would accept.
std::string EncodeChunkTable(const ChunkTable& table);
// kCorruption unless the pieces tile [0, target_bytes) exactly, the stored bytes fill [kFrameHeaderBytes,
// sections_offset) exactly, and every range lies inside its source; kUnsupported for unknown chunk flags and elements.
Result<ChunkTable> ParseChunkTable(std::string_view section, const std::vector<FrameSource>& sources,
                                   std::uint64_t target_bytes, std::uint64_t sections_offset);

}  // namespace stepfs::codec
