// SPDX-License-Identifier: Apache-2.0
//
// The methods that a chunk of the exponent coder is stored by, each with its cost, encoder and decoder
// (docs/codec_exponent.md, "Methods"). Inside this layer only; callers use exponent.h. Thread-safe: what they need
// beyond their arguments is per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "codec/ans.h"
#include "codec/exponent_model.h"
#include "codec/exponent_transform.h"

namespace stepfs::codec {

// First byte of an encoded chunk. Persisted: never renumbered.
enum class ExponentMethod : std::uint8_t {
  kStored = 0,  // The target's bytes.
  kEqual = 1,   // Nothing: the target is its base.
  kPlanes = 2,  // Without base: grouped bytes.
  kDense = 3,   // Differences of all elements.
  kSparse = 4,  // Places and differences of the elements that changed.
};

// Whole elements; `target` is null when decoding.
struct ElementChunk {
  ElementForm form;
  const std::byte* target;
  const std::byte* base;  // Null: none.
  std::size_t count;
};

// Per-thread memory, grown to what the largest chunk needed.
struct ExponentScratch {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> contexts;
  std::vector<std::uint8_t> stream;
  std::vector<std::uint32_t> counts;  // A ContextCounts.
  std::vector<std::uint32_t> places;  // Sparse: which elements changed,
  std::vector<std::uint32_t> gaps;    // how far apart, by class,
  std::vector<std::byte> gathered;    // and the target's and the base's elements there.
  std::vector<std::byte> head;
  std::vector<AnsEncodeEntry> encode_table;
  std::vector<AnsDecodeEntry> decode_table;
  ExponentModel model;
};
ExponentScratch& LocalScratch();
template <typename T>
T* Reserve(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
  return buffer.data();
}

// Encoders write to out, behind the method byte, and return the number of bytes, or nothing when they do not fit.
// Writers of bits may touch 8 bytes more than that: out has them.
using MaybeSize = std::optional<std::size_t>;
inline constexpr std::size_t kOutputSlack = 16;

// Dense. Plan fills scratch.symbols, scratch.contexts and scratch.model, which Encode uses.
ModelPlan PlanDense(const ElementChunk& chunk, ExponentScratch& scratch);
MaybeSize EncodeDense(const ElementChunk& chunk, const ModelPlan& plan, ExponentScratch& scratch, MutableBytes out);
Status DecodeDense(const ElementChunk& chunk, Bytes encoded, std::byte* target);

// Sparse. `changed` lists the indices of the elements that differ, ascending; at least one.
MaybeSize EncodeSparse(const ElementChunk& chunk, std::span<const std::uint32_t> changed, ExponentScratch& scratch,
                       MutableBytes out);
Status DecodeSparse(const ElementChunk& chunk, Bytes encoded, std::byte* target);

// Planes. The estimate, in bits, looks at up to `sample` elements.
std::uint64_t EstimatePlanesBits(const ElementChunk& chunk, std::size_t sample, ExponentScratch& scratch);
MaybeSize EncodePlanes(const ElementChunk& chunk, ExponentScratch& scratch, MutableBytes out);
Status DecodePlanes(const ElementChunk& chunk, Bytes encoded, std::byte* target);

// The indices of the elements that differ from the base, ascending, in scratch.places; nothing when there are more than
// `limit`.
std::optional<std::span<const std::uint32_t>> FindChanges(const ElementChunk& chunk, std::size_t limit,
                                                          ExponentScratch& scratch);

// An entropy-coded stream with its lane count, as it stands in dense, sparse and plane bodies.
inline constexpr std::size_t kLaneCounts[3] = {1, 4, 32};
// The index into kLaneCounts for about `coded_bits`: few lanes when the four bytes that each costs would show.
unsigned LaneCodeFor(std::uint64_t coded_bits, std::size_t count);

// Encode table of a model over symbols taken with form.max_keep.
const AnsEncodeEntry* BuildModelEncodeTable(ElementForm form, const ExponentModel& model, ExponentScratch& scratch);
const AnsDecodeEntry* BuildModelDecodeTable(const ExponentModel& model, ExponentScratch& scratch);

}  // namespace stepfs::codec
