// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/serial.h"
#include "codec/exponent_coder.h"
#include "codec/fixed_log2.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kBlock = 4096;
constexpr std::size_t kMaxClasses = 8;
constexpr std::uint64_t kClassBits = 32;  // What one more class costs: its bound, its count and its parameter.

constexpr std::size_t RoundUp64(std::size_t count) { return (count + 63) / 64 * 64; }

// A run of neighbouring contexts, whose elements change with about the same probability.
struct ChangeClass {
  std::uint32_t elements = 0;
  std::uint32_t changes = 0;
  std::uint8_t first_context = 0;
};

struct ChangeClasses {
  std::array<ChangeClass, kContexts> classes;
  std::size_t count = 0;

  ContextMap Map() const {
    std::array<std::uint8_t, kMaxClasses> first;
    for (std::size_t c = 0; c < count; ++c) first[c] = classes[c].first_context;
    return ContextMap::From({first.data(), count});
  }
};

std::uint64_t Cost(std::uint32_t elements, std::uint32_t changes) {
  return NLog2N(elements) - NLog2N(changes) - NLog2N(elements - changes) + (kClassBits << kLogFractionBits);
}

ChangeClass Merged(const ChangeClass& a, const ChangeClass& b) {
  return {a.elements + b.elements, a.changes + b.changes, a.first_context};
}

// Merges neighbours while that saves, and until few enough are left.
void MergeClasses(ChangeClasses& c) {
  const auto gain = [&](std::size_t i) {
    const ChangeClass& a = c.classes[i];
    const ChangeClass& b = c.classes[i + 1];
    const ChangeClass both = Merged(a, b);
    return static_cast<std::int64_t>(Cost(a.elements, a.changes) + Cost(b.elements, b.changes)) -
           static_cast<std::int64_t>(Cost(both.elements, both.changes));
  };
  while (c.count > 1) {
    std::size_t best = 0;
    std::int64_t best_gain = gain(0);
    for (std::size_t i = 1; i + 1 < c.count; ++i) {
      const std::int64_t g = gain(i);
      if (g > best_gain) {
        best = i;
        best_gain = g;
      }
    }
    if (best_gain < 0 && c.count <= kMaxClasses) return;
    c.classes[best] = Merged(c.classes[best], c.classes[best + 1]);
    std::copy(c.classes.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              c.classes.begin() + static_cast<std::ptrdiff_t>(c.count),
              c.classes.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --c.count;
  }
}

ChangeClasses FindClasses(const std::uint8_t* contexts, std::size_t count, std::span<const std::uint32_t> changed) {
  std::array<std::array<std::uint32_t, kContexts>, 4> elements{};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) ++elements[j][contexts[i + j]];
  }
  for (; i < count; ++i) ++elements[0][contexts[i]];
  std::array<std::uint32_t, kContexts> changes{};
  for (std::uint32_t place : changed) ++changes[contexts[place]];
  ChangeClasses found;
  for (std::size_t context = 0; context < kContexts; ++context) {
    const std::uint32_t n = elements[0][context] + elements[1][context] + elements[2][context] + elements[3][context];
    if (n != 0) found.classes[found.count++] = {n, changes[context], static_cast<std::uint8_t>(context)};
  }
  found.classes[0].first_context = 0;
  MergeClasses(found);
  return found;
}

// Golomb's code with divisor m: the quotient in unary, the remainder in truncated binary, upper bits first.
class GolombCode {
 public:
  explicit GolombCode(std::uint32_t divisor)
      : divisor_(divisor),
        bits_(static_cast<unsigned>(std::bit_width(divisor - 1))),
        cutoff_((1u << bits_) - divisor) {}

  // The best divisor for places that occur with probability changes / elements: about ln 2 / probability.
  static std::uint32_t DivisorFor(std::uint32_t elements, std::uint32_t changes) {
    return static_cast<std::uint32_t>(
        std::max<std::uint64_t>((std::uint64_t{elements} * 45426 / changes + 0x8000) >> 16, 1));
  }

  void Write(std::uint32_t gap, BitWriter& out) const {
    out.WriteUnary(gap / divisor_);
    const std::uint32_t rest = gap % divisor_;
    if (bits_ == 0) return;
    if (rest < cutoff_) {
      out.Write(rest, bits_ - 1);
    } else {
      out.Write((rest + cutoff_) >> 1, bits_ - 1);
      out.Write((rest + cutoff_) & 1, 1);
    }
  }
  std::uint64_t Read(BitReader& in, std::uint32_t limit) const {
    const std::uint64_t quotient = in.ReadUnary(limit / divisor_);
    std::uint64_t rest = 0;
    if (bits_ != 0) {
      rest = in.Read(bits_ - 1);
      if (rest >= cutoff_) rest = (rest << 1 | in.Read(1)) - cutoff_;
    }
    return quotient * divisor_ + rest;
  }

 private:
  std::uint32_t divisor_;
  unsigned bits_;
  std::uint32_t cutoff_;
};

constexpr std::uint8_t kNoClass = 0xff;  // Pads the last 64 elements of a chunk.

// For each class in turn, the number of its unchanged elements before each change. `contexts` holds classes, padded
// with kNoClass to a multiple of 64.
void FindGaps(const std::uint8_t* contexts, std::span<const std::uint32_t> changed, const ChangeClasses& classes,
              std::uint32_t* gaps) {
  const RunMasksFn run_masks = ActiveRunMasks();
  std::array<std::uint32_t, kMaxClasses> seen{};  // Since the class's last change; modulo 2^32 inside a block.
  std::array<std::uint32_t, kMaxClasses> next{};
  for (std::size_t c = 1; c < classes.count; ++c) next[c] = next[c - 1] + classes.classes[c - 1].changes;
  std::size_t change = 0;
  for (std::size_t first = 0; change < changed.size(); first += 64) {
    std::uint64_t changes = 0;
    for (; change < changed.size() && changed[change] < first + 64; ++change) {
      changes |= std::uint64_t{1} << (changed[change] - first);
    }
    std::uint64_t masks[kMaxClasses];
    run_masks(contexts + first, classes.count, masks);
    for (std::size_t c = 0; c < classes.count; ++c) {
      for (std::uint64_t rest = masks[c] & changes; rest != 0; rest &= rest - 1) {
        const std::uint64_t before = masks[c] & ((rest & (0 - rest)) - 1);
        const auto rank = static_cast<std::uint32_t>(std::popcount(before));
        gaps[next[c]++] = seen[c] + rank;
        seen[c] = 0u - rank - 1;
      }
      seen[c] += static_cast<std::uint32_t>(std::popcount(masks[c]));
    }
  }
}

void GatherElements(const std::byte* from, std::size_t width, std::span<const std::uint32_t> places, std::byte* to) {
  for (std::uint32_t place : places) {
    std::memcpy(to, from + std::size_t{place} * width, width);
    to += width;
  }
}

// The head of the body: classes and places.
std::size_t WritePlaces(const ElementChunk& chunk, std::span<const std::uint32_t> changed, ExponentScratch& scratch,
                        std::byte* out) {
  std::uint8_t* contexts = Reserve(scratch.contexts, RoundUp64(chunk.count));
  ActiveTransformKernels(chunk.form.width).contexts(chunk.form, chunk.base, chunk.count, nullptr, contexts);
  const ChangeClasses classes = FindClasses(contexts, chunk.count, changed);
  const ContextMap map = classes.Map();
  ActiveTransformKernels(chunk.form.width).contexts(chunk.form, chunk.base, chunk.count, &map, contexts);
  std::fill(contexts + chunk.count, contexts + RoundUp64(chunk.count), kNoClass);
  std::uint32_t* gaps = Reserve(scratch.gaps, changed.size());
  FindGaps(contexts, changed, classes, gaps);

  ByteWriter head;
  head.Fixed(static_cast<std::uint8_t>(classes.count - 1));
  for (std::size_t c = 1; c < classes.count; ++c) head.Fixed(classes.classes[c].first_context);
  for (std::size_t c = 0; c < classes.count; ++c) {
    const ChangeClass& change_class = classes.classes[c];
    head.Varint(change_class.changes);
    if (change_class.changes != 0) {
      head.Varint(GolombCode::DivisorFor(change_class.elements, change_class.changes));
    }
  }
  std::memcpy(out, head.bytes().data(), head.size());
  BitWriter bits(out + head.size());
  for (std::size_t c = 0; c < classes.count; ++c) {
    const ChangeClass& change_class = classes.classes[c];
    if (change_class.changes == 0) continue;
    const GolombCode code(GolombCode::DivisorFor(change_class.elements, change_class.changes));
    for (std::uint32_t i = 0; i < change_class.changes; ++i) code.Write(*gaps++, bits);
  }
  return head.size() + bits.Finish();
}

struct PlaceLists {
  std::array<std::uint32_t, kMaxClasses> begin{};  // Into gaps.
  std::array<std::uint32_t, kMaxClasses> end{};
  ContextMap map;
  std::size_t total = 0;
};

// Reads what WritePlaces wrote, the gaps to scratch.gaps. Returns the bytes used, or nothing.
MaybeSize ReadGaps(Bytes encoded, std::size_t count, ExponentScratch& scratch, PlaceLists& lists) {
  ByteReader head(encoded);
  ChangeClasses classes;
  classes.count = std::size_t{head.Fixed<std::uint8_t>()} + 1;
  if (classes.count > kMaxClasses) return std::nullopt;
  for (std::size_t c = 1; c < classes.count; ++c) {
    classes.classes[c].first_context = head.Fixed<std::uint8_t>();
    if (classes.classes[c].first_context <= classes.classes[c - 1].first_context) return std::nullopt;
  }
  std::array<std::uint32_t, kMaxClasses> divisors{};
  for (std::size_t c = 0; c < classes.count; ++c) {
    const std::uint64_t changes = head.Varint();
    if (changes > count - lists.total) return std::nullopt;
    lists.begin[c] = static_cast<std::uint32_t>(lists.total);
    lists.total += static_cast<std::size_t>(changes);
    lists.end[c] = static_cast<std::uint32_t>(lists.total);
    if (changes == 0) continue;
    const std::uint64_t divisor = head.Varint();
    if (divisor == 0 || divisor > count) return std::nullopt;
    divisors[c] = static_cast<std::uint32_t>(divisor);
  }
  if (!head.ok() || lists.total == 0) return std::nullopt;
  lists.map = classes.Map();
  const std::size_t head_bytes = encoded.size() - head.remaining();
  BitReader bits(encoded.subspan(head_bytes));
  std::uint32_t* gaps = Reserve(scratch.gaps, lists.total);
  for (std::size_t c = 0; c < classes.count; ++c) {
    if (lists.begin[c] == lists.end[c]) continue;
    const GolombCode code(divisors[c]);
    for (std::uint32_t i = lists.begin[c]; i < lists.end[c]; ++i) {
      const std::uint64_t gap = code.Read(bits, static_cast<std::uint32_t>(count));
      if (!bits.ok() || gap >= count) return std::nullopt;
      gaps[i] = static_cast<std::uint32_t>(gap);
    }
  }
  return head_bytes + bits.BytesUsed();
}

// The bit of `mask` that has `rank` set bits below it. REQUIRES: rank < popcount(mask).
std::uint64_t SelectBit(std::uint64_t mask, std::uint32_t rank) {
  for (; rank > 0; --rank) mask &= mask - 1;
  return mask & (0 - mask);
}

// Turns the gaps of each class into places in the chunk. False when a class has fewer elements than its gaps need.
bool FindPlaces(const ElementChunk& chunk, const std::uint32_t* gaps, PlaceLists& lists, std::uint32_t* places) {
  constexpr std::uint32_t kNever = ~0u;  // More than a chunk has elements.
  const std::size_t classes = lists.map.runs;
  std::array<std::uint32_t, kMaxClasses> left;  // Elements of the class before its next change.
  const auto next_gap = [&](std::size_t c) { return lists.begin[c] < lists.end[c] ? gaps[lists.begin[c]] : kNever; };
  for (std::size_t c = 0; c < classes; ++c) left[c] = next_gap(c);
  const TransformKernels& kernels = ActiveTransformKernels(chunk.form.width);
  const RunMasksFn run_masks = ActiveRunMasks();
  std::uint8_t contexts[kBlock];
  std::size_t found = 0;
  for (std::size_t first = 0; first < chunk.count && found < lists.total; first += kBlock) {
    const std::size_t n = std::min(kBlock, chunk.count - first);
    kernels.contexts(chunk.form, chunk.base + first * chunk.form.width, n, &lists.map, contexts);
    std::fill(contexts + n, contexts + RoundUp64(n), kNoClass);
    for (std::size_t at = 0; at < n; at += 64) {
      std::uint64_t masks[kMaxClasses];
      run_masks(contexts + at, classes, masks);
      std::uint64_t changes = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        auto elements = static_cast<std::uint32_t>(std::popcount(masks[c]));
        while (left[c] < elements) {
          const std::uint64_t bit = SelectBit(masks[c], left[c]);
          changes |= bit;
          masks[c] &= ~(bit | (bit - 1));
          elements -= left[c] + 1;
          ++lists.begin[c];
          left[c] = next_gap(c);
        }
        left[c] -= elements;
      }
      for (; changes != 0; changes &= changes - 1) {
        places[found++] =
            static_cast<std::uint32_t>(first + at) + static_cast<std::uint32_t>(std::countr_zero(changes));
      }
    }
  }
  return found == lists.total;
}

struct Changes {
  std::size_t found;
  bool complete;  // False: there are more than the limit.
};

// Looks at eight bytes at a time; writes up to limit + 8 places.
template <typename U>
Changes ListChanges(const ElementChunk& chunk, std::size_t limit, std::uint32_t* places) {
  constexpr std::size_t kStep = 8 / sizeof(U);
  std::size_t found = 0;
  std::size_t i = 0;
  const auto look_at = [&](std::size_t at) {
    places[found] = static_cast<std::uint32_t>(at);
    found += LoadLittle<U>(chunk.target + at * sizeof(U)) != LoadLittle<U>(chunk.base + at * sizeof(U)) ? 1 : 0;
  };
  for (; i + kStep <= chunk.count && found <= limit; i += kStep) {
    if (LoadLittle<std::uint64_t>(chunk.target + i * sizeof(U)) ==
        LoadLittle<std::uint64_t>(chunk.base + i * sizeof(U))) {
      continue;
    }
    for (std::size_t j = 0; j < kStep; ++j) look_at(i + j);
  }
  for (; i < chunk.count && found <= limit; ++i) look_at(i);
  return {found, found <= limit};
}

}  // namespace

std::optional<std::span<const std::uint32_t>> FindChanges(const ElementChunk& chunk, std::size_t limit,
                                                          ExponentScratch& scratch) {
  std::uint32_t* places = Reserve(scratch.places, limit + 8);
  const auto [found, complete] = chunk.form.width == 1   ? ListChanges<std::uint8_t>(chunk, limit, places)
                                 : chunk.form.width == 2 ? ListChanges<std::uint16_t>(chunk, limit, places)
                                 : chunk.form.width == 4 ? ListChanges<std::uint32_t>(chunk, limit, places)
                                                         : ListChanges<std::uint64_t>(chunk, limit, places);
  if (!complete) return std::nullopt;
  return std::span<const std::uint32_t>(places, found);
}

MaybeSize EncodeSparse(const ElementChunk& chunk, std::span<const std::uint32_t> changed, ExponentScratch& scratch,
                       MutableBytes out) {
  // A place takes at most the bits of its gap's quotient, which sum to no more than twice the places, and a remainder.
  const std::size_t place_bytes = 256 + changed.size() * 5;
  std::byte* head = Reserve(scratch.head, place_bytes);
  const std::size_t head_bytes = WritePlaces(chunk, changed, scratch, head);
  if (head_bytes >= out.size()) return std::nullopt;
  std::memcpy(out.data(), head, head_bytes);

  const std::size_t width = chunk.form.width;
  std::byte* target = Reserve(scratch.gathered, 2 * width * changed.size());
  std::byte* base = target + width * changed.size();
  GatherElements(chunk.target, width, changed, target);
  GatherElements(chunk.base, width, changed, base);
  const ElementChunk gathered = {chunk.form, target, base, changed.size()};
  const ModelPlan plan = PlanDense(gathered, scratch);
  const MaybeSize dense = EncodeDense(gathered, plan, scratch, out.subspan(head_bytes));
  if (!dense) return std::nullopt;
  return head_bytes + *dense;
}

Status DecodeSparse(const ElementChunk& chunk, Bytes encoded, std::byte* target) {
  if (chunk.base == nullptr) return Status::Corruption("exponent: sparse chunk without a base");
  ExponentScratch& scratch = LocalScratch();
  PlaceLists lists;
  const MaybeSize used = ReadGaps(encoded, chunk.count, scratch, lists);
  if (!used) return Status::Corruption("exponent: malformed places");
  std::uint32_t* places = Reserve(scratch.places, lists.total);
  if (!FindPlaces(chunk, scratch.gaps.data(), lists, places)) {
    return Status::Corruption("exponent: places beyond the chunk");
  }
  const std::size_t width = chunk.form.width;
  const std::span<const std::uint32_t> changed(places, lists.total);
  std::byte* gathered_target = Reserve(scratch.gathered, 2 * width * changed.size());
  std::byte* gathered_base = gathered_target + width * changed.size();
  GatherElements(chunk.base, width, changed, gathered_base);
  const ElementChunk gathered = {chunk.form, nullptr, gathered_base, changed.size()};
  STEPFS_RETURN_IF_ERROR(DecodeDense(gathered, encoded.subspan(*used), gathered_target));
  std::memcpy(target, chunk.base, chunk.count * width);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    std::memcpy(target + std::size_t{changed[i]} * width, gathered_target + i * width, width);
  }
  return {};
}

}  // namespace stepfs::codec
