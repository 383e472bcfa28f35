// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codec/buffer.h"
#include "codec/frame.h"
#include "codec/frame_format.h"
#include "codec/parallel.h"

namespace stepfs::codec {
namespace {

std::string Hex(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4) *digit = kDigits[value & 15];
  return text;
}

std::size_t Size(std::uint64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

struct FrameReader::Impl {
  const ByteSource* blob = nullptr;
  FrameHeader header;
  FrameTrailer trailer;
  std::vector<FrameSource> sources;
  std::map<std::uint32_t, std::string> caller_sections;
  ChunkTable table;
  std::map<CodecId, std::uint64_t> target_bytes_by_codec;

  Status Load();
  Status ReadSource(std::uint32_t index, const std::vector<const ByteSource*>& given, std::uint64_t offset,
                    MutableBytes out) const;
  Status GatherBase(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given, MutableBytes out) const;
  Status GatherContext(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given, MutableBytes out) const;
  Status DecodeWithCodec(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given, MutableBytes out) const;
  Status DecodeUnchecked(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given, MutableBytes out) const;
  std::string Describe(std::uint32_t index) const;
};

Status FrameReader::Impl::Load() {
  const std::uint64_t frame_bytes = blob->size();
  if (frame_bytes < kFrameHeaderBytes + kFrameTrailerBytes) {
    return Status::Corruption("frame of " + std::to_string(frame_bytes) + " bytes is shorter than header and trailer");
  }
  std::array<std::byte, kFrameHeaderBytes> header_bytes;
  std::array<std::byte, kFrameTrailerBytes> trailer_bytes;
  STEPFS_RETURN_IF_ERROR(blob->ReadAt(0, header_bytes));
  STEPFS_ASSIGN_OR_RETURN(header, ParseHeader(header_bytes));
  STEPFS_RETURN_IF_ERROR(blob->ReadAt(frame_bytes - kFrameTrailerBytes, trailer_bytes));
  STEPFS_ASSIGN_OR_RETURN(trailer, ParseTrailer(trailer_bytes, frame_bytes));
  Buffer area(Size(trailer.sections_bytes));
  STEPFS_RETURN_IF_ERROR(blob->ReadAt(trailer.sections_offset, area.span()));
  const std::uint64_t hash = MetadataHash(header_bytes, area.bytes(), trailer_bytes);
  if (hash != trailer.metadata_hash) {
    return Status::Corruption("metadata checksum: expected " + Hex(trailer.metadata_hash) + ", found " + Hex(hash));
  }
  if ((header.required_features & ~kKnownRequiredFeatures) != 0) {
    return Status::Unsupported("frame needs unknown features " +
                               Hex(header.required_features & ~kKnownRequiredFeatures));
  }
  STEPFS_ASSIGN_OR_RETURN(const auto sections, ParseSections(area.bytes()));
  for (const auto& [type, content] : sections) {
    if (type >= kFirstCallerSection) caller_sections.emplace(type, content);
  }
  if (const auto found = sections.find(kSectionSources); found != sections.end()) {
    STEPFS_ASSIGN_OR_RETURN(sources, ParseSources(found->second));
  }
  const auto found = sections.find(kSectionChunkTable);
  if (found == sections.end()) return Status::Corruption("frame without a chunk table");
  STEPFS_ASSIGN_OR_RETURN(table,
                          ParseChunkTable(found->second, sources, trailer.target_bytes, trailer.sections_offset));
  for (const ChunkRecord& chunk : table.chunks) target_bytes_by_codec[chunk.codec] += chunk.target_bytes;
  return {};
}

Status FrameReader::Impl::ReadSource(std::uint32_t index, const std::vector<const ByteSource*>& given,
                                     std::uint64_t offset, MutableBytes out) const {
  const FrameSource& source = sources[index];
  const auto name = [&] {
    return "source " + std::to_string(index) + " (" + source.digest.ToString() +
           (source.path.empty() ? "" : ", " + source.path) + ")";
  };
  if (index >= given.size() || given[index] == nullptr) {
    return Status::InvalidArgument(name() + " is needed and was not given");
  }
  if (given[index]->size() != source.size) {
    return Status::Corruption(name() + " has " + std::to_string(given[index]->size()) + " bytes, expected " +
                              std::to_string(source.size));
  }
  const Status status = given[index]->ReadAt(offset, out);
  return status.ok() ? status : status.WithContext(name());
}

Status FrameReader::Impl::GatherBase(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given,
                                     MutableBytes out) const {
  if ((chunk.flags & kChunkAlignedBase) != 0) {
    for (const ChunkPiece& piece : table.PiecesOf(chunk)) {
      STEPFS_RETURN_IF_ERROR(
          ReadSource(chunk.base_source, given, piece.base, out.subspan(piece.position, piece.length)));
    }
  }
  std::size_t position = 0;
  for (const SourceRange& range : table.BaseRangesOf(chunk)) {
    STEPFS_RETURN_IF_ERROR(ReadSource(chunk.base_source, given, range.offset, out.subspan(position, range.length)));
    position += range.length;
  }
  return {};
}

Status FrameReader::Impl::GatherContext(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given,
                                        MutableBytes out) const {
  for (const ChunkPiece& piece : table.PiecesOf(chunk)) {
    STEPFS_RETURN_IF_ERROR(
        ReadSource(chunk.context_source, given, piece.context, out.subspan(piece.position, piece.length)));
  }
  return {};
}

Status FrameReader::Impl::DecodeWithCodec(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given,
                                          MutableBytes out) const {
  const ChunkCodec* decoder = DecoderOf(chunk.codec);
  if (decoder == nullptr) {
    return Status::Unsupported("codec " + std::to_string(static_cast<int>(chunk.codec)) + " is unknown to this build");
  }
  Buffer encoded(chunk.encoded_bytes);
  STEPFS_RETURN_IF_ERROR(blob->ReadAt(chunk.encoded_offset, encoded.span()));
  Buffer base(chunk.base_bytes);
  STEPFS_RETURN_IF_ERROR(GatherBase(chunk, given, base.span()));
  Buffer context;
  if ((chunk.flags & kChunkContext) != 0) {
    context.Resize(chunk.target_bytes);
    STEPFS_RETURN_IF_ERROR(GatherContext(chunk, given, context.span()));
  }
  return decoder->Decode(chunk.element, encoded.bytes(), {.base = base.bytes(), .context = context.bytes()}, out);
}

Status FrameReader::Impl::DecodeUnchecked(const ChunkRecord& chunk, const std::vector<const ByteSource*>& given,
                                          MutableBytes out) const {
  switch (chunk.codec) {
    case CodecId::kRaw:
      return blob->ReadAt(chunk.encoded_offset, out);
    case CodecId::kEqual:
      return GatherBase(chunk, given, out);
    case CodecId::kFill: {
      std::byte value;
      STEPFS_RETURN_IF_ERROR(blob->ReadAt(chunk.encoded_offset, {&value, 1}));
      std::fill(out.begin(), out.end(), value);
      return {};
    }
    default:
      return DecodeWithCodec(chunk, given, out);
  }
}

std::string FrameReader::Impl::Describe(std::uint32_t index) const {
  const ChunkRecord& chunk = table.chunks[index];
  const auto pieces = table.PiecesOf(chunk);
  return "chunk " + std::to_string(index) + " (" + std::string(Name(chunk.codec)) + ", " +
         std::to_string(chunk.target_bytes) + " bytes from " + std::to_string(pieces.front().offset) + ")";
}

FrameReader::FrameReader() : impl_(std::make_unique<Impl>()) {}
FrameReader::~FrameReader() = default;

Result<std::unique_ptr<FrameReader>> FrameReader::Open(const ByteSource& blob) {
  std::unique_ptr<FrameReader> reader(new FrameReader());
  reader->impl_->blob = &blob;
  STEPFS_RETURN_IF_ERROR(reader->impl_->Load());
  return reader;
}

std::uint64_t FrameReader::target_bytes() const { return impl_->trailer.target_bytes; }
const Digest& FrameReader::digest() const { return impl_->trailer.target_digest; }
const std::vector<FrameSource>& FrameReader::sources() const { return impl_->sources; }
bool FrameReader::lossless() const { return (impl_->header.optional_features & kOptionalNearLossless) == 0; }
const std::map<std::uint32_t, std::string>& FrameReader::sections() const { return impl_->caller_sections; }
const std::map<CodecId, std::uint64_t>& FrameReader::target_bytes_by_codec() const {
  return impl_->target_bytes_by_codec;
}
std::size_t FrameReader::chunk_count() const { return impl_->table.chunks.size(); }
std::size_t FrameReader::ChunkBytes(std::uint32_t index) const { return impl_->table.chunks[index].target_bytes; }

std::string_view FrameReader::dominant_codec() const {
  CodecId best = CodecId::kRaw;
  std::uint64_t most = 0;
  for (const auto& [codec, bytes] : impl_->target_bytes_by_codec) {
    if (bytes > most) {
      most = bytes;
      best = codec;
    }
  }
  return Name(best);
}

std::vector<std::uint32_t> FrameReader::ChunksOf(std::uint64_t offset, std::uint64_t length) const {
  std::vector<std::uint32_t> chunks;
  if (offset >= target_bytes() || length == 0) return chunks;
  const std::uint64_t end = offset + std::min(length, target_bytes() - offset);
  const auto& pieces = impl_->table.pieces;
  const auto& order = impl_->table.by_offset;
  // The first piece that ends behind `offset`.
  auto place = std::partition_point(order.begin(), order.end(), [&](PieceInOrder at) {
    return pieces[at.piece].offset + pieces[at.piece].length <= offset;
  });
  for (; place != order.end() && pieces[place->piece].offset < end; ++place) chunks.push_back(place->chunk);
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

Status FrameReader::DecodeChunk(std::uint32_t index, const std::vector<const ByteSource*>& sources,
                                MutableBytes chunk) const {
  if (index >= chunk_count() || chunk.size() != ChunkBytes(index)) {
    return Status::InvalidArgument("no chunk " + std::to_string(index) + " of " + std::to_string(chunk.size()) +
                                   " bytes");
  }
  const ChunkRecord& record = impl_->table.chunks[index];
  if (const Status status = impl_->DecodeUnchecked(record, sources, chunk); !status.ok()) {
    return status.WithContext(impl_->Describe(index));
  }
  if (const std::uint64_t checksum = Hash64(chunk); checksum != record.checksum) {
    return Status::Corruption(impl_->Describe(index) + ": checksum of the decoded bytes: expected " +
                              Hex(record.checksum) + ", found " + Hex(checksum));
  }
  return {};
}

void FrameReader::CopyOut(std::uint32_t index, Bytes chunk, std::uint64_t offset, MutableBytes out) const {
  const auto pieces = impl_->table.PiecesOf(impl_->table.chunks[index]);
  auto piece = std::partition_point(pieces.begin(), pieces.end(), [offset](const ChunkPiece& candidate) {
    return candidate.offset + candidate.length <= offset;
  });
  for (; piece != pieces.end(); ++piece) {
    const std::uint64_t begin = std::max(piece->offset, offset);
    if (begin - offset >= out.size()) return;
    const std::size_t skipped = Size(begin - piece->offset);
    const std::size_t count = std::min(piece->length - skipped, out.size() - Size(begin - offset));
    const Bytes from = chunk.subspan(piece->position + skipped, count);
    std::copy(from.begin(), from.end(), out.subspan(Size(begin - offset)).begin());
  }
}

Status FrameReader::Read(std::uint64_t offset, const std::vector<const ByteSource*>& sources, MutableBytes out,
                         int threads) const {
  if (offset > target_bytes() || out.size() > target_bytes() - offset) {
    return Status::InvalidArgument("read of " + std::to_string(out.size()) + " bytes at " + std::to_string(offset) +
                                   " beyond the target's end at " + std::to_string(target_bytes()));
  }
  const std::vector<std::uint32_t> chunks = ChunksOf(offset, out.size());
  const int workers = ThreadCount(threads);
  std::vector<Buffer> scratch(static_cast<std::size_t>(workers));
  return ParallelFor(chunks.size(), workers, [&](std::size_t item, int worker) -> Status {
    const std::uint32_t index = chunks[item];
    const auto pieces = impl_->table.PiecesOf(impl_->table.chunks[index]);
    // One piece that is wanted whole needs no detour.
    if (pieces.size() == 1 && pieces[0].offset >= offset && pieces[0].length <= out.size() &&
        pieces[0].offset - offset <= out.size() - pieces[0].length) {
      return DecodeChunk(index, sources, out.subspan(Size(pieces[0].offset - offset), pieces[0].length));
    }
    Buffer& chunk = scratch[static_cast<std::size_t>(worker)];
    chunk.Resize(ChunkBytes(index));
    STEPFS_RETURN_IF_ERROR(DecodeChunk(index, sources, chunk.span()));
    CopyOut(index, chunk.bytes(), offset, out);
    return {};
  });
}

Status FrameReader::VerifyStoredBytes() const {
  constexpr std::size_t kStep = 1u << 20;
  const std::uint64_t end = impl_->trailer.sections_offset + impl_->trailer.sections_bytes;
  Buffer buffer(Size(std::min<std::uint64_t>(kStep, end)));
  DigestBuilder digest;
  for (std::uint64_t offset = 0; offset < end;) {
    const MutableBytes part = buffer.span().first(Size(std::min<std::uint64_t>(buffer.size(), end - offset)));
    STEPFS_RETURN_IF_ERROR(impl_->blob->ReadAt(offset, part));
    digest.Update(part);
    offset += part.size();
  }
  if (const Digest found = digest.Finish(); found != impl_->trailer.stored_digest) {
    return Status::Corruption("stored bytes: expected " + impl_->trailer.stored_digest.ToString() + ", found " +
                              found.ToString());
  }
  return {};
}

}  // namespace stepfs::codec
