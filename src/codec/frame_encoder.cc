// SPDX-License-Identifier: Apache-2.0
#include "codec/frame_encoder.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "codec/buffer.h"
#include "codec/frame_format.h"
#include "codec/parallel.h"
#include "codec/planner.h"

namespace stepfs::codec {
namespace {

constexpr std::uint64_t kLeastChunkBytes = 512;  // Below this the chunk table would outgrow the target.

// Chunks without stored bytes are merged up to this size: fewer records, and still quick to read a part of.
constexpr std::uint64_t kMergedChunkBytes = 4u << 20;

constexpr std::uint64_t kReadBytes = 4u << 20;  // Of the target, by one thread at a time.

constexpr std::uint64_t kSerialBytes = 128 * 1024;  // A window below this is done before a second thread has woken up.

// A tensor's coding is chosen by encoding a sample of it every way: a sixteenth, in a few slices.
constexpr std::size_t kSampleShare = 16;
constexpr std::size_t kLeastSampleBytes = 32 * 1024;
constexpr std::size_t kMostSampleBytes = 128 * 1024;
constexpr std::size_t kSampleSlices = 4;
constexpr std::size_t kSampleGrain = 16;  // Slices begin at multiples of it, so that no element is cut.

// What a way of coding must save over simpler ones to be worth it: a base makes reading dearer and lengthens the chain.
constexpr double kBaseHandicap = 1.01;
constexpr double kSecondCodecHandicap = 1.03;

std::size_t Size(std::uint64_t value) { return static_cast<std::size_t>(value); }

// Counts and digests what goes to the caller's sink.
class FrameSink {
 public:
  explicit FrameSink(ByteSink& sink) : sink_(sink) {}

  Status Append(Bytes bytes) {
    digest_.Update(bytes);
    offset_ += bytes.size();
    return sink_.Append(bytes);
  }
  std::uint64_t offset() const { return offset_; }
  Digest digest() const { return digest_.Finish(); }

 private:
  ByteSink& sink_;
  std::uint64_t offset_ = 0;
  DigestBuilder digest_;
};

// A source with the index it has among the caller's, and where the target's bytes lie in it.
struct AlignedSource {
  std::uint32_t index = 0;
  const ByteSource* bytes = nullptr;
  Alignment alignment;
};

// One way to code a chunk.
struct Coding {
  const ChunkCodec* codec = nullptr;  // Null: raw.
  bool with_base = false;
};

// A planned chunk on its way through the encoder.
struct WorkChunk {
  PlannedChunk plan;
  Bytes target;     // Its bytes, in the window or in `gathered`.
  Buffer gathered;  // When it has several pieces.
  Bytes base;       // What it may be coded against, in the base arena or in `ranges`; empty: nothing.
  Buffer ranges;    // The bytes of plan.base_ranges.
  Buffer context;   // Bytes of the context source, or empty.
  std::vector<std::uint64_t> context_offsets;  // Of each piece, with `context`.
  std::uint32_t source = 0;  // Index among the caller's sources of what `base` or an equal chunk refers to.
  Coding coding;
  CodecId codec = CodecId::kRaw;  // kFill or kEqual as soon as that is known; else the outcome of Encode.
  bool done = false;              // Nothing is left to encode.
  ByteVector encoded;
  std::uint64_t checksum = 0;
};

bool IsFill(Bytes bytes) {
  return bytes.size() > 1 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

bool SameBytes(Bytes a, Bytes b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0; }

// A part of a chunk that stands for its tensor.
struct Sample {
  Bytes target;
  Bytes base;
};

class FrameEncoder {
 public:
  FrameEncoder(const CodecSet& codecs, const ByteSource& target, const Layout& layout,
               const std::vector<EncodeSource>& sources, const EncodeOptions& options, ByteSink& sink)
      : target_(target),
        layout_(layout),
        sources_(sources),
        options_(options),
        most_threads_(ThreadCount(options.threads)),
        codecs_(codecs),
        sink_(sink),
        scratch_(static_cast<std::size_t>(most_threads_)) {}

  Result<EncodeStats> Run() {
    STEPFS_RETURN_IF_ERROR(CheckArguments());
    AlignSources();
    const std::string header = EncodeHeader({});
    STEPFS_RETURN_IF_ERROR(sink_.Append(AsBytes(header)));
    Planner planner(target_.size(), layout_, base_ ? &base_->alignment : nullptr,
                    {options_.chunk_bytes, options_.window_bytes});
    while (std::optional<PlannedWindow> window = planner.Next()) {
      STEPFS_RETURN_IF_ERROR(Load(std::move(*window)));
      STEPFS_RETURN_IF_ERROR(Classify());
      MergeNeighbours();
      STEPFS_RETURN_IF_ERROR(ChooseCodings());
      STEPFS_RETURN_IF_ERROR(Encode());
      STEPFS_RETURN_IF_ERROR(Write());
    }
    return Finish(header);
  }

 private:
  Status CheckArguments() const {
    if (options_.chunk_bytes < kLeastChunkBytes || options_.chunk_bytes > kMaxChunkBytes) {
      return Status::InvalidArgument("chunk size " + std::to_string(options_.chunk_bytes) + " is not in [" +
                                     std::to_string(kLeastChunkBytes) + ", " + std::to_string(kMaxChunkBytes) + "]");
    }
    if (!options_.sections.empty() && options_.sections.begin()->first < kFirstCallerSection) {
      return Status::InvalidArgument("section type " + std::to_string(options_.sections.begin()->first) +
                                     " belongs to the format");
    }
    for (const EncodeSource& source : sources_) {
      if (source.bytes == nullptr || source.bytes->size() != source.source.size) {
        return Status::InvalidArgument("source " + source.source.digest.ToString() + ": bytes do not fit its size");
      }
    }
    return {};
  }

  void AlignSources() {
    if (codecs_.raw_only()) return;
    for (std::uint32_t i = 0; i < sources_.size(); ++i) {
      const EncodeSource& source = sources_[i];
      if (source.source.role == SourceRole::kContext && (!codecs_.wants_context() || context_)) continue;
      AlignedSource aligned{i, source.bytes,
                            Alignment::Between(target_.size(), layout_, source.source.size, source.layout)};
      if (source.source.role == SourceRole::kContext) {
        context_ = std::move(aligned);
      } else if (!base_) {
        base_ = std::move(aligned);
      } else {
        others_.push_back(std::move(aligned));
      }
    }
  }

  // Reads the window's bytes.
  Status Load(PlannedWindow window) {
    threads_ = window.bytes < kSerialBytes ? 1 : most_threads_;
    window_.Resize(Size(window.bytes));
    const std::size_t slices = Size((window.bytes + kReadBytes - 1) / kReadBytes);
    const Status status = ParallelFor(slices, threads_, [&](std::size_t slice, int /*worker*/) {
      const std::size_t begin = slice * kReadBytes;
      const std::size_t count = std::min<std::size_t>(kReadBytes, window_.size() - begin);
      return target_.ReadAt(window.offset + begin, window_.span().subspan(begin, count));
    });
    if (!status.ok()) return status.WithContext("target");
    chunks_.clear();
    chunks_.resize(window.chunks.size());
    window_offset_ = window.offset;
    for (std::size_t i = 0; i < chunks_.size(); ++i) chunks_[i].plan = std::move(window.chunks[i]);
    return {};
  }

  // Digests the window, and finds for each chunk its bytes, its base, and whether it must be encoded at all.
  Status Classify() {
    base_arena_.Resize(base_ ? window_.size() : 0);
    std::vector<std::size_t> arena_offsets(chunks_.size());
    std::size_t arena_end = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      arena_offsets[i] = arena_end;
      arena_end += Size(chunks_[i].plan.bytes);
    }
    return ParallelFor(chunks_.size() + 1, threads_, [&](std::size_t item, int worker) -> Status {
      if (item == 0) {
        target_digest_.Update(window_.bytes());
        return {};
      }
      WorkChunk& chunk = chunks_[item - 1];
      const MutableBytes arena =
          base_ ? base_arena_.span().subspan(arena_offsets[item - 1], Size(chunk.plan.bytes)) : MutableBytes();
      return ClassifyChunk(chunk, arena, worker);
    });
  }

  Status ClassifyChunk(WorkChunk& chunk, MutableBytes arena, int worker) {
    GatherTarget(chunk);
    if (codecs_.raw_only()) {
      chunk.done = true;
      return {};
    }
    if (IsFill(chunk.target)) {
      chunk.codec = CodecId::kFill;
      chunk.encoded.assign(1, chunk.target.front());
      chunk.done = true;
      return {};
    }
    if (chunk.plan.aligned()) {
      chunk.source = base_->index;
      for (std::size_t position = 0; const PlannedPiece& piece : chunk.plan.pieces) {
        STEPFS_RETURN_IF_ERROR(ReadSource(*base_, piece.base_offset, arena.subspan(position, Size(piece.bytes))));
        position += Size(piece.bytes);
      }
      chunk.base = arena;
      if (SameBytes(chunk.target, chunk.base)) {
        chunk.codec = CodecId::kEqual;
        chunk.done = true;
        return {};
      }
    }
    STEPFS_RETURN_IF_ERROR(FindElsewhere(chunk, worker));
    if (!chunk.done && !chunk.plan.base_ranges.empty()) STEPFS_RETURN_IF_ERROR(GatherRanges(chunk));
    if (!chunk.done && context_) STEPFS_RETURN_IF_ERROR(GatherContext(chunk));
    return {};
  }

  void GatherTarget(WorkChunk& chunk) {
    const auto in_window = [&](const PlannedPiece& piece) {
      return window_.bytes().subspan(Size(piece.offset - window_offset_), Size(piece.bytes));
    };
    if (chunk.plan.pieces.size() == 1) {
      chunk.target = in_window(chunk.plan.pieces[0]);
      return;
    }
    chunk.gathered.Resize(Size(chunk.plan.bytes));
    auto to = chunk.gathered.span().begin();
    for (const PlannedPiece& piece : chunk.plan.pieces) {
      const Bytes from = in_window(piece);
      to = std::copy(from.begin(), from.end(), to);
    }
    chunk.target = chunk.gathered.bytes();
  }

  Status ReadSource(const AlignedSource& source, std::uint64_t offset, MutableBytes out) const {
    const Status status = source.bytes->ReadAt(offset, out);
    return status.ok() ? status : status.WithContext("source " + sources_[source.index].source.digest.ToString());
  }

  // Looks whether another content holds the chunk's bytes where they would be by name.
  Status FindElsewhere(WorkChunk& chunk, int worker) {
    for (const AlignedSource& other : others_) {
      std::vector<PlannedPiece> pieces = chunk.plan.pieces;
      STEPFS_ASSIGN_OR_RETURN(const bool equal, EqualsIn(other, chunk.target, pieces, worker));
      if (!equal) continue;
      chunk.plan.pieces = std::move(pieces);
      chunk.source = other.index;
      chunk.codec = CodecId::kEqual;
      chunk.done = true;
      return {};
    }
    return {};
  }

  // Whether all of `target` lies in `other`, with the places filled in. Mostly a few bytes show that it does not.
  Result<bool> EqualsIn(const AlignedSource& other, Bytes target, std::vector<PlannedPiece>& pieces, int worker) {
    constexpr std::size_t kFirstLook = 4096;
    for (PlannedPiece& piece : pieces) {
      const auto offset = other.alignment.SourceOffset(piece.offset, piece.bytes);
      if (!offset) return false;
      piece.base_offset = *offset;
    }
    Buffer& buffer = scratch_[static_cast<std::size_t>(worker)];
    for (const PlannedPiece& piece : pieces) {
      std::size_t step = kFirstLook;
      for (std::size_t at = 0; at < piece.bytes; step = kReadBytes) {
        buffer.Resize(std::min(step, Size(piece.bytes) - at));
        STEPFS_RETURN_IF_ERROR(ReadSource(other, piece.base_offset + at, buffer.span()));
        if (!SameBytes(buffer.bytes(), target.first(buffer.size()))) return false;
        target = target.subspan(buffer.size());
        at += buffer.size();
      }
    }
    return true;
  }

  Status GatherRanges(WorkChunk& chunk) {
    const auto add = [](std::uint64_t sum, const PlannedRange& range) { return sum + range.bytes; };
    const auto& ranges = chunk.plan.base_ranges;
    chunk.ranges.Resize(Size(std::accumulate(ranges.begin(), ranges.end(), std::uint64_t{0}, add)));
    for (std::size_t position = 0; const PlannedRange& range : ranges) {
      STEPFS_RETURN_IF_ERROR(
          ReadSource(*base_, range.offset, chunk.ranges.span().subspan(position, Size(range.bytes))));
      position += Size(range.bytes);
    }
    chunk.base = chunk.ranges.bytes();
    chunk.source = base_->index;
    return {};
  }

  Status GatherContext(WorkChunk& chunk) {
    for (const PlannedPiece& piece : chunk.plan.pieces) {
      const auto offset = context_->alignment.SourceOffset(piece.offset, piece.bytes);
      if (!offset) {
        chunk.context_offsets.clear();
        return {};
      }
      chunk.context_offsets.push_back(*offset);
    }
    chunk.context.Resize(Size(chunk.plan.bytes));
    for (std::size_t i = 0, position = 0; i < chunk.context_offsets.size(); ++i) {
      const std::size_t bytes = Size(chunk.plan.pieces[i].bytes);
      STEPFS_RETURN_IF_ERROR(
          ReadSource(*context_, chunk.context_offsets[i], chunk.context.span().subspan(position, bytes)));
      position += bytes;
    }
    return {};
  }

  // Joins chunks without stored bytes to the one before when target and base go on without a gap.
  void MergeNeighbours() {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < chunks_.size(); ++i) {
      if (!Joins(chunks_[kept], chunks_[i])) {
        ++kept;
        if (kept != i) chunks_[kept] = std::move(chunks_[i]);
        continue;
      }
      WorkChunk& chunk = chunks_[kept];
      chunk.plan.bytes += chunks_[i].plan.bytes;
      chunk.plan.pieces[0].bytes = chunk.plan.bytes;
      GatherTarget(chunk);
    }
    if (!chunks_.empty()) chunks_.resize(kept + 1);
  }

  static bool Joins(const WorkChunk& chunk, const WorkChunk& next) {
    if (chunk.codec != next.codec || (chunk.codec != CodecId::kEqual && chunk.codec != CodecId::kFill)) return false;
    if (chunk.plan.pieces.size() != 1 || next.plan.pieces.size() != 1) return false;
    if (chunk.plan.bytes + next.plan.bytes > kMergedChunkBytes) return false;
    const PlannedPiece& piece = chunk.plan.pieces[0];
    const PlannedPiece& follower = next.plan.pieces[0];
    if (piece.offset + piece.bytes != follower.offset) return false;
    if (chunk.codec == CodecId::kFill) return chunk.encoded == next.encoded;
    return chunk.source == next.source && piece.base_offset + piece.bytes == follower.base_offset;
  }

  // Chooses, for each run of unfinished chunks of one group, the coding that is smallest on a sample.
  Status ChooseCodings() {
    std::vector<std::vector<WorkChunk*>> groups;
    for (WorkChunk& chunk : chunks_) {
      if (chunk.done) continue;
      const bool continues = !groups.empty() && groups.back().front()->plan.group == chunk.plan.group &&
                             groups.back().front()->base.empty() == chunk.base.empty();
      if (!continues) groups.emplace_back();
      groups.back().push_back(&chunk);
    }
    return ParallelFor(groups.size(), threads_, [&](std::size_t item, int worker) -> Status {
      STEPFS_ASSIGN_OR_RETURN(const Coding coding, BestCoding(groups[item], worker));
      for (WorkChunk* chunk : groups[item]) chunk->coding = coding;
      return {};
    });
  }

  Result<Coding> BestCoding(const std::vector<WorkChunk*>& group, int worker) {
    const WorkChunk& first = *group.front();
    std::vector<Coding> codings;
    for (const ChunkCodec* codec : codecs_.CandidatesFor(first.plan.element, first.target.size())) {
      if (!first.base.empty()) codings.push_back({codec, true});
      codings.push_back({codec, false});
    }
    if (codings.size() < 2) return codings.empty() ? Coding() : codings.front();
    const std::vector<Sample> samples = SamplesOf(group);
    Coding best;
    double least = 0;
    for (const Coding& coding : codings) {
      double cost = coding.with_base ? kBaseHandicap : 1.0;
      if (coding.codec != codings.front().codec) cost *= kSecondCodecHandicap;
      std::size_t bytes = 0;
      for (const Sample& sample : samples) {
        STEPFS_ASSIGN_OR_RETURN(const std::size_t encoded,
                                EncodeWith(coding, first.plan.element, sample.target, sample.base, {}, worker));
        bytes += std::min(encoded, sample.target.size());
      }
      cost *= static_cast<double>(bytes);
      if (best.codec == nullptr || cost < least) {
        best = coding;
        least = cost;
      }
    }
    return best;
  }

  // Plain bytes are judged by one whole chunk, because their base is not aligned with them; tensors by slices.
  static std::vector<Sample> SamplesOf(const std::vector<WorkChunk*>& group) {
    const WorkChunk& middle = *group[group.size() / 2];
    if (middle.plan.element == ElementType::kBytes) return {{middle.target, middle.base}};
    std::size_t total = 0;
    for (const WorkChunk* chunk : group) total += chunk->target.size();
    const std::size_t wanted = std::clamp(total / kSampleShare, kLeastSampleBytes, kMostSampleBytes);
    if (total <= 2 * kLeastSampleBytes) return WholeChunks(group);
    std::vector<Sample> samples;
    const std::size_t slice_bytes = wanted / kSampleSlices / kSampleGrain * kSampleGrain;
    for (std::size_t k = 0; k < kSampleSlices; ++k) {
      // Slice k lies in the middle of the k-th of kSampleSlices equal parts of the group.
      std::size_t at = total / (2 * kSampleSlices) * (2 * k + 1);
      auto chunk = group.begin();
      while (at >= (*chunk)->target.size()) at -= (*chunk++)->target.size();
      const WorkChunk& from = **chunk;
      const std::size_t bytes = std::min(slice_bytes, from.target.size());
      const std::size_t begin = std::min(at, from.target.size() - bytes) / kSampleGrain * kSampleGrain;
      samples.push_back(
          {from.target.subspan(begin, bytes), from.base.empty() ? Bytes() : from.base.subspan(begin, bytes)});
    }
    return samples;
  }

  static std::vector<Sample> WholeChunks(const std::vector<WorkChunk*>& group) {
    std::vector<Sample> samples;
    for (const WorkChunk* chunk : group) samples.push_back({chunk->target, chunk->base});
    return samples;
  }

  // Encodes into the worker's scratch buffer and returns the length.
  Result<std::size_t> EncodeWith(const Coding& coding, ElementType element, Bytes target, Bytes base, Bytes context,
                                 int worker) {
    Buffer& out = scratch_[static_cast<std::size_t>(worker)];
    out.Resize(coding.codec->MaxEncodedBytes(element, target.size()));
    return coding.codec->Encode(element, target, {.base = coding.with_base ? base : Bytes(), .context = context},
                                out.span());
  }

  Status Encode() {
    return ParallelFor(chunks_.size(), threads_, [&](std::size_t item, int worker) {
      WorkChunk& chunk = chunks_[item];
      chunk.checksum = Hash64(chunk.target);
      if (chunk.done || chunk.coding.codec == nullptr) return Status();
      const Status status = EncodeChunk(chunk, worker);
      return status.ok() ? status : status.WithContext("chunk at " + std::to_string(chunk.plan.pieces[0].offset));
    });
  }

  Status EncodeChunk(WorkChunk& chunk, int worker) {
    STEPFS_ASSIGN_OR_RETURN(const std::size_t bytes, EncodeWith(chunk.coding, chunk.plan.element, chunk.target,
                                                                chunk.base, chunk.context.bytes(), worker));
    if (bytes >= chunk.target.size()) return {};  // It stays raw.
    const Bytes encoded = scratch_[static_cast<std::size_t>(worker)].bytes().first(bytes);
    chunk.encoded.assign(encoded.begin(), encoded.end());
    chunk.codec = chunk.coding.codec->id();
    return {};
  }

  Status Write() {
    for (const WorkChunk& chunk : chunks_) {
      AddRecord(chunk);
      STEPFS_RETURN_IF_ERROR(sink_.Append(chunk.codec == CodecId::kRaw ? chunk.target : Bytes(chunk.encoded)));
    }
    return {};
  }

  void AddRecord(const WorkChunk& chunk) {
    ChunkRecord record;
    record.codec = chunk.codec;
    record.element = chunk.plan.element;
    record.flags = FlagsOf(chunk);
    record.base_source = chunk.source;
    record.context_source = context_ ? context_->index : 0;
    record.first_piece = static_cast<std::uint32_t>(table_.pieces.size());
    record.piece_count = static_cast<std::uint32_t>(chunk.plan.pieces.size());
    record.target_bytes = static_cast<std::uint32_t>(chunk.target.size());
    record.encoded_bytes =
        static_cast<std::uint32_t>(chunk.codec == CodecId::kRaw ? chunk.target.size() : chunk.encoded.size());
    record.checksum = chunk.checksum;
    for (std::size_t i = 0; i < chunk.plan.pieces.size(); ++i) {
      const PlannedPiece& piece = chunk.plan.pieces[i];
      table_.pieces.push_back({.offset = piece.offset,
                               .length = static_cast<std::uint32_t>(piece.bytes),
                               .position = 0,
                               .base = piece.base_offset,
                               .context = (record.flags & kChunkContext) != 0 ? chunk.context_offsets[i] : 0});
    }
    if ((record.flags & kChunkBaseRanges) != 0) {
      record.first_range = static_cast<std::uint32_t>(table_.base_ranges.size());
      record.range_count = static_cast<std::uint32_t>(chunk.plan.base_ranges.size());
      for (const PlannedRange& range : chunk.plan.base_ranges) {
        table_.base_ranges.push_back({range.offset, static_cast<std::uint32_t>(range.bytes)});
      }
    }
    table_.chunks.push_back(record);
    stats_.target_bytes_by_codec[record.codec] += record.target_bytes;
  }

  static std::uint8_t FlagsOf(const WorkChunk& chunk) {
    switch (chunk.codec) {
      case CodecId::kRaw:
      case CodecId::kFill:
        return 0;
      case CodecId::kEqual:
        return kChunkAlignedBase;
      default:
        break;
    }
    std::uint8_t flags = 0;
    if (chunk.coding.with_base) flags |= chunk.plan.base_ranges.empty() ? kChunkAlignedBase : kChunkBaseRanges;
    if (!chunk.context_offsets.empty()) flags |= kChunkContext;
    return flags;
  }

  // Lists the sources that some chunk refers to, in the caller's order, and numbers the references by that list.
  std::vector<FrameSource> NumberSources() {
    std::vector<bool> used(sources_.size(), false);
    for (const ChunkRecord& chunk : table_.chunks) {
      if ((chunk.flags & (kChunkAlignedBase | kChunkBaseRanges)) != 0) used[chunk.base_source] = true;
      if ((chunk.flags & kChunkContext) != 0) used[chunk.context_source] = true;
    }
    std::vector<FrameSource> listed;
    std::vector<std::uint32_t> number(sources_.size(), 0);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (!used[i]) continue;
      number[i] = static_cast<std::uint32_t>(listed.size());
      listed.push_back(sources_[i].source);
    }
    if (listed.empty()) return listed;
    for (ChunkRecord& chunk : table_.chunks) {
      chunk.base_source = number[chunk.base_source];
      chunk.context_source = number[chunk.context_source];
    }
    return listed;
  }

  Result<EncodeStats> Finish(const std::string& header) {
    const std::vector<FrameSource> listed = NumberSources();
    ByteWriter sections;
    AppendSection(kSectionChunkTable, EncodeChunkTable(table_), sections);
    if (!listed.empty()) AppendSection(kSectionSources, EncodeSources(listed), sections);
    for (const auto& [type, content] : options_.sections) AppendSection(type, content, sections);
    if (sections.size() > kMaxSectionAreaBytes) {
      return Status::InvalidArgument("sections of " + std::to_string(sections.size()) + " bytes are too large");
    }

    FrameTrailer trailer;
    trailer.sections_offset = sink_.offset();
    trailer.sections_bytes = sections.size();
    trailer.target_bytes = target_.size();
    trailer.target_digest = target_digest_.Finish();
    STEPFS_RETURN_IF_ERROR(sink_.Append(AsBytes(sections.bytes())));
    trailer.stored_digest = sink_.digest();
    trailer.metadata_hash = MetadataHash(AsBytes(header), AsBytes(sections.bytes()), AsBytes(EncodeTrailer(trailer)));
    STEPFS_RETURN_IF_ERROR(sink_.Append(AsBytes(EncodeTrailer(trailer))));

    stats_.target_bytes = target_.size();
    stats_.encoded_bytes = sink_.offset();
    stats_.digest = trailer.target_digest;
    stats_.uses_sources = !listed.empty();
    return stats_;
  }

  const ByteSource& target_;
  const Layout& layout_;
  const std::vector<EncodeSource>& sources_;
  const EncodeOptions& options_;
  const int most_threads_;
  const CodecSet& codecs_;
  FrameSink sink_;
  std::optional<AlignedSource> base_;     // The first content source.
  std::optional<AlignedSource> context_;  // The first context source.
  std::vector<AlignedSource> others_;     // Further content sources.

  // The window at hand.
  int threads_ = 1;
  std::uint64_t window_offset_ = 0;
  Buffer window_;
  Buffer base_arena_;  // Aligned base bytes of its chunks, in chunk order.
  std::vector<WorkChunk> chunks_;
  std::vector<Buffer> scratch_;  // One a worker.

  DigestBuilder target_digest_;
  ChunkTable table_;
  EncodeStats stats_;
};

}  // namespace

Result<EncodeStats> EncodeFrameWith(const CodecSet& codecs, const ByteSource& target, const Layout& layout,
                                    const std::vector<EncodeSource>& sources, const EncodeOptions& options,
                                    ByteSink& sink) {
  return FrameEncoder(codecs, target, layout, sources, options, sink).Run();
}

Result<EncodeStats> EncodeFrame(const ByteSource& target, const Layout& layout,
                                const std::vector<EncodeSource>& sources, const EncodeOptions& options,
                                ByteSink& sink) {
  return EncodeFrameWith(CodecSet::Of(options), target, layout, sources, options, sink);
}

}  // namespace stepfs::codec
