// SPDX-License-Identifier: Apache-2.0
#include "codec/frame_format.h"

#include <algorithm>
#include <limits>

namespace stepfs::codec {
namespace {

// The least bytes that a record can have: what bounds memory by the bytes that are really there.
constexpr std::size_t kLeastChunkRecord = 15;
constexpr std::size_t kLeastPiece = 2;
constexpr std::size_t kLeastRange = 2;
constexpr std::size_t kLeastSource = 20;

void AppendDigest(const Digest& digest, ByteWriter& out) {
  out.Fixed(digest.low);
  out.Fixed(digest.high);
}

Digest ReadDigest(ByteReader& in) {
  Digest digest;
  digest.low = in.Fixed<std::uint64_t>();
  digest.high = in.Fixed<std::uint64_t>();
  return digest;
}

std::int64_t Difference(std::uint64_t to, std::uint64_t from) { return static_cast<std::int64_t>(to - from); }

// Both modulo 2^64: a hostile difference gives a wrong number, which the range check then refuses.
std::uint64_t Advance(std::uint64_t from, std::int64_t by) { return from + static_cast<std::uint64_t>(by); }

// The numbers that each record is coded relative to.
struct Running {
  std::uint64_t target_end = 0;  // End of the last piece.
  std::uint64_t base_delta = 0;  // Base offset minus target offset of the last piece that had a base.
  std::uint64_t context_delta = 0;
  std::uint64_t range_end = 0;  // End of the last base range.
};

class TableReader {
 public:
  TableReader(std::string_view section, const std::vector<FrameSource>& sources, std::uint64_t target_bytes,
              std::uint64_t sections_offset)
      : in_(section), sources_(sources), target_bytes_(target_bytes), sections_offset_(sections_offset) {}

  Result<ChunkTable> Read() {
    const std::uint64_t count = in_.Varint();
    if (!in_.ok() || count > in_.remaining() / kLeastChunkRecord) return Status::Corruption("chunk count");
    table_.chunks.reserve(static_cast<std::size_t>(count));
    std::uint64_t encoded_end = kFrameHeaderBytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      ChunkRecord chunk;
      if (Status status = ReadChunk(chunk); !status.ok()) return status.WithContext("chunk " + std::to_string(i));
      chunk.encoded_offset = encoded_end;
      encoded_end += chunk.encoded_bytes;  // Cannot overflow: fewer than 2^30 chunks of at most kMaxChunkBytes.
      table_.chunks.push_back(chunk);
    }
    if (!in_.AtEnd()) return Status::Corruption("bytes after the last chunk");
    if (encoded_end != sections_offset_) {
      return Status::Corruption("chunks end at " + std::to_string(encoded_end) + ", sections begin at " +
                                std::to_string(sections_offset_));
    }
    STEPFS_RETURN_IF_ERROR(OrderPieces());
    return std::move(table_);
  }

 private:
  Status ReadChunk(ChunkRecord& chunk) {
    chunk.codec = static_cast<CodecId>(in_.Fixed<std::uint8_t>());
    const auto element = ElementTypeFromNumber(in_.Fixed<std::uint8_t>());
    if (!element) return Status::Unsupported("unknown element type");
    chunk.element = *element;
    chunk.flags = in_.Fixed<std::uint8_t>();
    if ((chunk.flags & ~kKnownChunkFlags) != 0) return Status::Unsupported("unknown chunk flags");
    if ((chunk.flags & (kChunkAlignedBase | kChunkBaseRanges)) != 0) {
      STEPFS_ASSIGN_OR_RETURN(chunk.base_source, ReadSourceIndex(SourceRole::kContent));
    }
    if ((chunk.flags & kChunkContext) != 0) {
      STEPFS_ASSIGN_OR_RETURN(chunk.context_source, ReadSourceIndex(SourceRole::kContext));
    }
    const std::uint64_t encoded_bytes = in_.Varint();
    chunk.checksum = in_.Fixed<std::uint64_t>();
    STEPFS_RETURN_IF_ERROR(ReadPieces(chunk));
    if ((chunk.flags & kChunkAlignedBase) != 0) chunk.base_bytes = chunk.target_bytes;
    if ((chunk.flags & kChunkBaseRanges) != 0) STEPFS_RETURN_IF_ERROR(ReadRanges(chunk));
    if (!in_.ok()) return Status::Corruption("truncated record");
    return CheckStorage(chunk, encoded_bytes);
  }

  Result<std::uint32_t> ReadSourceIndex(SourceRole role) {
    const std::uint64_t index = in_.Varint();
    if (index >= sources_.size()) return Status::Corruption("source index out of range");
    if (sources_[static_cast<std::size_t>(index)].role != role) return Status::Corruption("source of the wrong role");
    return static_cast<std::uint32_t>(index);
  }

  Status ReadPieces(ChunkRecord& chunk) {
    const std::uint64_t count = in_.Varint();
    if (count == 0 || count > in_.remaining() / kLeastPiece) return Status::Corruption("piece count");
    chunk.first_piece = static_cast<std::uint32_t>(table_.pieces.size());
    chunk.piece_count = static_cast<std::uint32_t>(count);
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      ChunkPiece piece;
      if (i == 0) {
        piece.offset = Advance(running_.target_end, in_.SignedVarint());
      } else {
        const std::uint64_t gap = in_.Varint();
        if (gap > target_bytes_ - running_.target_end) return Status::Corruption("piece outside the target");
        piece.offset = running_.target_end + gap;
      }
      const std::uint64_t length = in_.Varint();
      if (length == 0 || length > kMaxChunkBytes - total) return Status::Corruption("piece length");
      if (piece.offset > target_bytes_ || length > target_bytes_ - piece.offset) {
        return Status::Corruption("piece outside the target");
      }
      piece.length = static_cast<std::uint32_t>(length);
      piece.position = static_cast<std::uint32_t>(total);
      total += length;
      running_.target_end = piece.offset + length;
      if ((chunk.flags & kChunkAlignedBase) != 0) {
        running_.base_delta = Advance(running_.base_delta, in_.SignedVarint());
        piece.base = piece.offset + running_.base_delta;
        STEPFS_RETURN_IF_ERROR(CheckRange(chunk.base_source, piece.base, length));
      }
      if ((chunk.flags & kChunkContext) != 0) {
        running_.context_delta = Advance(running_.context_delta, in_.SignedVarint());
        piece.context = piece.offset + running_.context_delta;
        STEPFS_RETURN_IF_ERROR(CheckRange(chunk.context_source, piece.context, length));
      }
      table_.pieces.push_back(piece);
    }
    chunk.target_bytes = static_cast<std::uint32_t>(total);
    return {};
  }

  Status ReadRanges(ChunkRecord& chunk) {
    if (chunk.codec != CodecId::kZstd || (chunk.flags & kChunkAlignedBase) != 0) {
      return Status::Corruption("base ranges where none may be");
    }
    const std::uint64_t count = in_.Varint();
    if (count == 0 || count > in_.remaining() / kLeastRange) return Status::Corruption("base range count");
    chunk.first_range = static_cast<std::uint32_t>(table_.base_ranges.size());
    chunk.range_count = static_cast<std::uint32_t>(count);
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      SourceRange range;
      range.offset = Advance(running_.range_end, in_.SignedVarint());
      const std::uint64_t length = in_.Varint();
      if (length == 0 || length > kMaxBaseRangeBytes - total) return Status::Corruption("base range length");
      STEPFS_RETURN_IF_ERROR(CheckRange(chunk.base_source, range.offset, length));
      range.length = static_cast<std::uint32_t>(length);
      total += length;
      running_.range_end = range.offset + length;
      table_.base_ranges.push_back(range);
    }
    chunk.base_bytes = static_cast<std::uint32_t>(total);
    return {};
  }

  Status CheckRange(std::uint32_t source, std::uint64_t offset, std::uint64_t length) const {
    const std::uint64_t size = sources_[source].size;
    if (offset > size || length > size - offset)
      return Status::Corruption("range outside source " + std::to_string(source));
    return {};
  }

  // Flags and stored size that each codec may have.
  static Status CheckStorage(ChunkRecord& chunk, std::uint64_t encoded_bytes) {
    bool fits = false;
    switch (chunk.codec) {
      case CodecId::kRaw:
        fits = encoded_bytes == chunk.target_bytes && chunk.flags == 0;
        break;
      case CodecId::kEqual:
        fits = encoded_bytes == 0 && chunk.flags == kChunkAlignedBase;
        break;
      case CodecId::kFill:
        fits = encoded_bytes == 1 && chunk.flags == 0;
        break;
      default:
        fits = encoded_bytes != 0 && encoded_bytes < chunk.target_bytes;
    }
    if (!fits) return Status::Corruption("stored size or flags do not fit codec " + std::string(Name(chunk.codec)));
    chunk.encoded_bytes = static_cast<std::uint32_t>(encoded_bytes);
    return {};
  }

  // Sorts the pieces by target offset and checks that they cover the target exactly.
  Status OrderPieces() {
    table_.by_offset.reserve(table_.pieces.size());
    for (std::uint32_t i = 0; i < table_.chunks.size(); ++i) {
      const ChunkRecord& chunk = table_.chunks[i];
      for (std::uint32_t k = 0; k < chunk.piece_count; ++k) table_.by_offset.push_back({chunk.first_piece + k, i});
    }
    const auto& pieces = table_.pieces;
    std::sort(table_.by_offset.begin(), table_.by_offset.end(),
              [&pieces](PieceInOrder a, PieceInOrder b) { return pieces[a.piece].offset < pieces[b.piece].offset; });
    std::uint64_t end = 0;
    for (const PieceInOrder& place : table_.by_offset) {
      const ChunkPiece& piece = pieces[place.piece];
      if (piece.offset != end) {
        return Status::Corruption((piece.offset < end ? "pieces overlap at " : "no piece covers ") +
                                  std::to_string(std::min(piece.offset, end)));
      }
      end += piece.length;
    }
    if (end != target_bytes_) {
      return Status::Corruption("pieces end at " + std::to_string(end) + ", the target at " +
                                std::to_string(target_bytes_));
    }
    return {};
  }

  ByteReader in_;
  const std::vector<FrameSource>& sources_;
  const std::uint64_t target_bytes_;
  const std::uint64_t sections_offset_;
  Running running_;
  ChunkTable table_;
};

void AppendChunk(const ChunkTable& table, const ChunkRecord& chunk, Running& running, ByteWriter& out) {
  out.Fixed(static_cast<std::uint8_t>(chunk.codec));
  out.Fixed(static_cast<std::uint8_t>(chunk.element));
  out.Fixed(chunk.flags);
  if ((chunk.flags & (kChunkAlignedBase | kChunkBaseRanges)) != 0) out.Varint(chunk.base_source);
  if ((chunk.flags & kChunkContext) != 0) out.Varint(chunk.context_source);
  out.Varint(chunk.encoded_bytes);
  out.Fixed(chunk.checksum);
  out.Varint(chunk.piece_count);
  bool first = true;
  for (const ChunkPiece& piece : table.PiecesOf(chunk)) {
    if (first) {
      out.SignedVarint(Difference(piece.offset, running.target_end));
    } else {
      out.Varint(piece.offset - running.target_end);
    }
    first = false;
    out.Varint(piece.length);
    running.target_end = piece.offset + piece.length;
    if ((chunk.flags & kChunkAlignedBase) != 0) {
      const std::uint64_t delta = piece.base - piece.offset;
      out.SignedVarint(Difference(delta, running.base_delta));
      running.base_delta = delta;
    }
    if ((chunk.flags & kChunkContext) != 0) {
      const std::uint64_t delta = piece.context - piece.offset;
      out.SignedVarint(Difference(delta, running.context_delta));
      running.context_delta = delta;
    }
  }
  if ((chunk.flags & kChunkBaseRanges) == 0) return;
  out.Varint(chunk.range_count);
  for (const SourceRange& range : table.BaseRangesOf(chunk)) {
    out.SignedVarint(Difference(range.offset, running.range_end));
    out.Varint(range.length);
    running.range_end = range.offset + range.length;
  }
}

}  // namespace

std::string EncodeHeader(const FrameHeader& header) {
  ByteWriter out;
  out.Raw(kFrameMagic);
  out.Fixed(header.major);
  out.Fixed(header.minor);
  out.Fixed(header.required_features);
  out.Fixed(header.optional_features);
  return out.Take();
}

Result<FrameHeader> ParseHeader(Bytes bytes) {
  ByteReader in(bytes);
  if (AsText(in.Raw(kFrameMagic.size())) != kFrameMagic) return Status::Corruption("not a stepfs frame: no magic");
  FrameHeader header;
  header.major = in.Fixed<std::uint16_t>();
  header.minor = in.Fixed<std::uint16_t>();
  header.required_features = in.Fixed<std::uint32_t>();
  header.optional_features = in.Fixed<std::uint32_t>();
  if (header.major != kFrameMajor) {
    return Status::Unsupported("frame of format version " + std::to_string(header.major) + "." +
                               std::to_string(header.minor) + ", this build reads " + std::to_string(kFrameMajor) +
                               ".x");
  }
  return header;
}

std::string EncodeTrailer(const FrameTrailer& trailer) {
  ByteWriter out;
  out.Fixed(trailer.sections_offset);
  out.Fixed(trailer.sections_bytes);
  out.Fixed(trailer.target_bytes);
  AppendDigest(trailer.target_digest, out);
  AppendDigest(trailer.stored_digest, out);
  out.Fixed(trailer.metadata_hash);
  out.Raw(kFrameEndMagic);
  return out.Take();
}

Result<FrameTrailer> ParseTrailer(Bytes bytes, std::uint64_t frame_bytes) {
  ByteReader in(bytes);
  FrameTrailer trailer;
  trailer.sections_offset = in.Fixed<std::uint64_t>();
  trailer.sections_bytes = in.Fixed<std::uint64_t>();
  trailer.target_bytes = in.Fixed<std::uint64_t>();
  trailer.target_digest = ReadDigest(in);
  trailer.stored_digest = ReadDigest(in);
  trailer.metadata_hash = in.Fixed<std::uint64_t>();
  if (AsText(in.Raw(kFrameEndMagic.size())) != kFrameEndMagic) {
    return Status::Corruption("no end magic: the frame is truncated or damaged");
  }
  const std::uint64_t sections_end = frame_bytes - kFrameTrailerBytes;
  if (trailer.sections_offset < kFrameHeaderBytes || trailer.sections_offset > sections_end ||
      trailer.sections_bytes != sections_end - trailer.sections_offset ||
      trailer.sections_bytes > kMaxSectionAreaBytes) {
    return Status::Corruption("trailer: section area of " + std::to_string(trailer.sections_bytes) + " bytes at " +
                              std::to_string(trailer.sections_offset) + " in a frame of " +
                              std::to_string(frame_bytes));
  }
  return trailer;
}

std::uint64_t MetadataHash(Bytes header, Bytes sections, Bytes trailer) {
  ByteVector all;
  const Bytes trailer_fields = trailer.first(kFrameTrailerBytes - sizeof(std::uint64_t) - kFrameEndMagic.size());
  all.reserve(header.size() + sections.size() + trailer_fields.size());
  for (const Bytes part : {header, sections, trailer_fields}) all.insert(all.end(), part.begin(), part.end());
  return Hash64(all);
}

void AppendSection(std::uint32_t type, std::string_view content, ByteWriter& out) {
  out.Varint(type);
  out.String(content);
}

Result<std::map<std::uint32_t, std::string_view>> ParseSections(Bytes area) {
  std::map<std::uint32_t, std::string_view> sections;
  ByteReader in(area);
  std::uint64_t last = 0;
  while (in.remaining() != 0) {
    const std::uint64_t type = in.Varint();
    const std::string_view content = in.String();
    if (!in.ok()) return Status::Corruption("section that ends beyond the section area");
    if (type <= last || type > std::numeric_limits<std::uint32_t>::max()) {
      return Status::Corruption("section type " + std::to_string(type) + " after " + std::to_string(last));
    }
    if (type < kFirstSkippableSection && type != kSectionChunkTable && type != kSectionSources) {
      return Status::Unsupported("unknown section type " + std::to_string(type));
    }
    sections.emplace_hint(sections.end(), static_cast<std::uint32_t>(type), content);
    last = type;
  }
  return sections;
}

std::string EncodeSources(const std::vector<FrameSource>& sources) {
  ByteWriter out;
  out.Varint(sources.size());
  for (const FrameSource& source : sources) {
    out.Fixed(static_cast<std::uint8_t>(source.role));
    AppendDigest(source.digest, out);
    out.Varint(source.size);
    out.Varint(source.version);
    out.String(source.path);
  }
  return out.Take();
}

Result<std::vector<FrameSource>> ParseSources(std::string_view section) {
  ByteReader in(section);
  const std::uint64_t count = in.Varint();
  if (!in.ok() || count > in.remaining() / kLeastSource) return Status::Corruption("source list: count");
  std::vector<FrameSource> sources(static_cast<std::size_t>(count));
  for (FrameSource& source : sources) {
    const auto role = in.Fixed<std::uint8_t>();
    source.role = static_cast<SourceRole>(role);
    source.digest = ReadDigest(in);
    source.size = in.Varint();
    source.version = in.Varint();
    source.path = in.String();
    if (!in.ok()) return Status::Corruption("source list: truncated");
    if (source.role != SourceRole::kContent && source.role != SourceRole::kContext) {
      return Status::Unsupported("source list: unknown role " + std::to_string(role));
    }
  }
  if (!in.AtEnd()) return Status::Corruption("source list: bytes after the last source");
  return sources;
}

std::string EncodeChunkTable(const ChunkTable& table) {
  ByteWriter out;
  out.Varint(table.chunks.size());
  Running running;
  for (const ChunkRecord& chunk : table.chunks) AppendChunk(table, chunk, running, out);
  return out.Take();
}

Result<ChunkTable> ParseChunkTable(std::string_view section, const std::vector<FrameSource>& sources,
                                   std::uint64_t target_bytes, std::uint64_t sections_offset) {
  Result<ChunkTable> table = TableReader(section, sources, target_bytes, sections_offset).Read();
  if (!table.ok()) return table.status().WithContext("chunk table");
  return table;
}

}  // namespace stepfs::codec
