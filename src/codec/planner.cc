// SPDX-License-Identifier: Apache-2.0
#include "codec/planner.h"

#include <algorithm>
#include <tuple>

#include "codec/frame_format.h"

namespace stepfs::codec {
namespace {

// From this size on a tensor has chunks of its own: its statistics are its own, and a chunk record's 17 bytes vanish.
constexpr std::uint64_t kOwnChunkBytes = 64 * 1024;

// Pieces of a long segment begin at multiples of this, so that no element is cut.
constexpr std::uint64_t kPieceGrain = 16;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t grain) { return (value + grain - 1) / grain * grain; }

// A size for the pieces of a segment of `bytes`: as few pieces as possible, all about equal.
std::uint64_t PieceBytes(std::uint64_t bytes, std::uint64_t chunk_bytes) {
  if (bytes <= chunk_bytes) return bytes;
  const std::uint64_t count = (bytes - 1) / chunk_bytes + 1;
  return std::min(chunk_bytes, RoundUp((bytes - 1) / count + 1, kPieceGrain));
}

// What of `run` may hold the counterpart of its target bytes [at, at + bytes). When the run's sides are not equally
// long, something was inserted or removed at an unknown place: the counterpart lies between "not moved" and "moved by
// the whole difference".
PlannedRange Counterpart(const AlignedRun& run, std::uint64_t at, std::uint64_t bytes) {
  constexpr std::uint64_t kLeastSlack = 4096;
  const std::uint64_t slack_limit = std::max(bytes, kLeastSlack);
  const std::uint64_t removed = run.source_bytes > run.target_bytes ? run.source_bytes - run.target_bytes : 0;
  const std::uint64_t inserted = run.target_bytes > run.source_bytes ? run.target_bytes - run.source_bytes : 0;
  const std::uint64_t begin = at - std::min({at, inserted, slack_limit});
  const std::uint64_t end = std::min(at + bytes + std::min(removed, slack_limit), run.source_bytes);
  if (begin < end) return {run.source_offset + begin, end - begin};
  // Behind the end of the source's side: its last bytes are the nearest there is.
  const std::uint64_t tail = std::min(run.source_bytes, slack_limit);
  return {run.source_offset + run.source_bytes - tail, tail};
}

void AppendPiece(const PlannedPiece& piece, PlannedChunk& chunk) {
  chunk.bytes += piece.bytes;
  if (!chunk.pieces.empty()) {
    PlannedPiece& last = chunk.pieces.back();
    const bool base_continues = last.base_offset == kNoOffset ? piece.base_offset == kNoOffset
                                                              : piece.base_offset == last.base_offset + last.bytes;
    if (last.offset + last.bytes == piece.offset && base_continues) {
      last.bytes += piece.bytes;
      return;
    }
  }
  chunk.pieces.push_back(piece);
}

// A chunk in the making.
struct Draft {
  PlannedChunk chunk;
  std::vector<PlannedRange> counterparts;  // Of pieces of plain bytes.
  bool needs_ranges = false;               // Some plain piece has no equally long counterpart.
};

// Decides how a chunk of plain bytes refers to its base: piece by piece where every piece has an equally long
// counterpart, else by the list of counterparts, up to the format's limit.
PlannedChunk Finish(Draft draft) {
  PlannedChunk& chunk = draft.chunk;
  if (draft.needs_ranges) {
    std::uint64_t room = kMaxBaseRangeBytes;
    for (PlannedRange range : draft.counterparts) {
      range.bytes = std::min(range.bytes, room);
      room -= range.bytes;
      if (range.bytes != 0) chunk.base_ranges.push_back(range);
    }
  }
  const auto lacks_base = [](const PlannedPiece& piece) { return piece.base_offset == kNoOffset; };
  if (std::any_of(chunk.pieces.begin(), chunk.pieces.end(), lacks_base)) {
    for (PlannedPiece& piece : chunk.pieces) piece.base_offset = kNoOffset;
  }
  return std::move(chunk);
}

}  // namespace

Planner::Planner(std::uint64_t target_bytes, const Layout& layout, const Alignment* base, const PlanLimits& limits)
    : base_(base), limits_(limits) {
  std::uint64_t end = 0;
  for (const KeptExtent& extent : KeptExtents(target_bytes, layout)) {
    if (extent.offset > end) AddSegment(end, extent.offset - end, ElementType::kBytes, 0);
    AddTensor(extent, layout.tensors[extent.tensor]);
    end = extent.offset + extent.bytes;
  }
  if (end < target_bytes) AddSegment(end, target_bytes - end, ElementType::kBytes, 0);
}

// Tensors that have the same role in different layers are alike; frameworks say the role last: "layers.3.ln.bias",
// "state/12/exp_avg_sq".
std::uint32_t Planner::KindOf(std::string_view tensor_name) {
  const std::size_t separator = tensor_name.find_last_of("./");
  const std::string_view role = separator == std::string_view::npos ? tensor_name : tensor_name.substr(separator + 1);
  return kinds_.try_emplace(role, static_cast<std::uint32_t>(kinds_.size())).first->second;
}

// A tensor whose counterpart is shorter (it has grown) becomes an aligned and an unaligned segment.
void Planner::AddTensor(const KeptExtent& extent, const Tensor& tensor) {
  const std::uint32_t kind = KindOf(tensor.name);
  std::uint64_t aligned = extent.bytes;
  if (const AlignedRun* run = base_ == nullptr ? nullptr : base_->Find(extent.offset); run != nullptr) {
    const std::uint64_t at = extent.offset - run->target_offset;
    const std::uint64_t mapped = std::min(run->target_bytes, run->source_bytes);
    aligned = std::min(extent.bytes, mapped > at ? mapped - at : extent.bytes);
  }
  AddSegment(extent.offset, aligned, tensor.element, kind);
  if (aligned < extent.bytes) AddSegment(extent.offset + aligned, extent.bytes - aligned, tensor.element, kind);
}

void Planner::AddSegment(std::uint64_t offset, std::uint64_t bytes, ElementType element, std::uint32_t kind) {
  const AlignedRun* run = base_ == nullptr ? nullptr : base_->Find(offset);
  segments_.push_back({offset, bytes, PieceBytes(bytes, limits_.chunk_bytes), element, kind, run});
}

bool Planner::HasOwnChunks(const Segment& segment) const {
  return segment.bytes >= std::min(kOwnChunkBytes, limits_.chunk_bytes);
}

PlannedPiece Planner::PieceAt(const Segment& segment, std::uint64_t offset, std::uint64_t bytes) const {
  PlannedPiece piece{offset, bytes, kNoOffset};
  if (segment.run == nullptr) return piece;
  const AlignedRun& run = *segment.run;
  const std::uint64_t at = offset - run.target_offset;
  if (at <= run.source_bytes && bytes <= run.source_bytes - at) piece.base_offset = run.source_offset + at;
  return piece;
}

std::optional<PlannedWindow> Planner::Next() {
  if (segment_ == segments_.size()) return std::nullopt;
  PlannedWindow window;
  window.offset = position_;
  std::vector<Draft> drafts;
  // The draft that small segments of one element type, kind and (for tensors) alignment share.
  std::map<std::tuple<ElementType, std::uint32_t, bool>, std::size_t> shared;

  while (segment_ < segments_.size()) {
    const Segment& segment = segments_[segment_];
    const std::uint64_t end = segment.offset + segment.bytes;
    const std::uint64_t bytes = std::min(segment.piece_bytes, end - position_);
    if (window.bytes != 0 && window.bytes + bytes > limits_.window_bytes) break;

    const PlannedPiece piece = PieceAt(segment, position_, bytes);
    const bool plain = segment.element == ElementType::kBytes;
    std::size_t index = drafts.size();
    if (!HasOwnChunks(segment)) {
      const bool aligned = !plain && piece.base_offset != kNoOffset;
      std::size_t& open = shared.try_emplace({segment.element, segment.kind, aligned}, index).first->second;
      if (open < index && drafts[open].chunk.bytes + bytes > limits_.chunk_bytes) open = index;
      index = open;
    }
    if (index == drafts.size()) {
      const bool continues_tensor = position_ != segment.offset;
      if (!continues_tensor) ++next_group_;
      drafts.emplace_back();
      drafts.back().chunk.element = segment.element;
      drafts.back().chunk.group = next_group_;
    }
    Draft& draft = drafts[index];
    AppendPiece(piece, draft.chunk);
    if (plain && (segment.run == nullptr || segment.run->source_bytes != segment.run->target_bytes)) {
      draft.needs_ranges = true;
    }
    if (plain && segment.run != nullptr) {
      draft.counterparts.push_back(Counterpart(*segment.run, position_ - segment.run->target_offset, bytes));
    }
    window.bytes += bytes;
    position_ += bytes;
    if (position_ == end) ++segment_;
  }
  for (Draft& draft : drafts) window.chunks.push_back(Finish(std::move(draft)));
  return window;
}

}  // namespace stepfs::codec
