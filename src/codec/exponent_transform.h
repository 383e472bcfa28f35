// SPDX-License-Identifier: Apache-2.0
//
// What the exponent coder makes of elements before anything is entropy-coded (docs/codec_exponent.md, "Elements").
//
// Against a base, each element becomes a context, a symbol and raw bits. The context is the base's exponent field, or
// its bit length for integers. The difference of target and base is taken between ordered integers: the bits of a float
// mapped so that integer order is numeric order, and counted positive away from zero. The symbol is the sign of the
// difference, the bit length of its magnitude and up to `keep` bits below the leading one; the bits that are left are
// raw. All of it is modulo 2^width, so that any bits at all (NaNs, negative zero) come back.
//
// Kernels allocate nothing and cannot fail. The scalar ones define the result. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/bit_stream.h"
#include "codec/element.h"

namespace stepfs::codec {

enum class ElementKind : std::uint8_t {
  kFloat,   // Sign, exponent, mantissa.
  kSigned,  // Two's complement.
  kUnsigned,
  kByte,  // Bytes of no known meaning: the context is the upper half.
};

// How the coder reads an element type. Unknown (opaque) elements are read as the float of their width: the mapping is
// one to one for any bits, and their upper bits are the best context there is.
struct ElementForm {
  ElementKind kind;
  std::uint8_t width;          // Bytes: 1, 2, 4 or 8.
  std::uint8_t mantissa_bits;  // Floats only.
  std::uint8_t max_keep;       // The largest `keep` with which symbols fit a byte.
};
ElementForm FormOf(ElementType element);

inline constexpr std::size_t kContexts = 256;  // Contexts are bytes.
inline constexpr std::size_t kSymbols = 256;   // So are symbols.

// The symbol of magnitude bucket b is 2b - 1 when the difference is negative, else 2b. Bucket b < 2^(keep + 1) is the
// magnitude b itself; above, the bucket keeps the leading one and `keep` bits after it.
constexpr unsigned RawBitsOfSymbol(unsigned symbol, unsigned keep) {
  const unsigned bucket = (symbol + 1) / 2;
  return bucket < (2u << keep) ? 0 : (bucket >> keep) - 1;
}
// The largest symbol of elements of `width` bytes: that of the difference 2^(8 * width - 1).
constexpr unsigned MaxSymbol(std::size_t width, unsigned keep) {
  const unsigned raw = 8 * static_cast<unsigned>(width) - keep - 1;
  return 2 * ((raw << keep) + (1u << keep)) - 1;
}
// The symbol that the same difference has with a smaller `keep`.
constexpr unsigned CoarserSymbol(unsigned symbol, unsigned keep, unsigned coarser_keep) {
  const unsigned raw = RawBitsOfSymbol(symbol, keep);
  const unsigned bucket = (symbol + 1) / 2;
  const std::uint64_t magnitude = std::uint64_t{bucket - (raw << keep)} << raw;  // The least of its bucket.
  unsigned coarse = static_cast<unsigned>(magnitude);
  if (magnitude >= (2u << coarser_keep)) {
    const unsigned length = 64u - static_cast<unsigned>(__builtin_clzll(magnitude));
    const unsigned coarse_raw = length - coarser_keep - 1;
    coarse = (coarse_raw << coarser_keep) + static_cast<unsigned>(magnitude >> coarse_raw);
  }
  return 2 * coarse - (symbol & 1);
}

// A coarser numbering of contexts: runs of neighbours, in order.
struct ContextMap {
  std::size_t runs = 0;
  std::array<std::uint8_t, 16> first{};          // Run r starts at context first[r]; first[0] is 0, and they ascend.
  std::array<std::uint8_t, kContexts> run_of{};  // The same as a table.

  // REQUIRES: 1 <= first_contexts.size() <= 16, as above.
  static ContextMap From(std::span<const std::uint8_t> first_contexts);
};

// One table a CPU level and width; `form.width` is the table's. Pointers need no alignment.
struct TransformKernels {
  // contexts[i] = the run of base[i]'s context, or with no map that context itself.
  void (*contexts)(ElementForm form, const std::byte* base, std::size_t count, const ContextMap* map,
                   std::uint8_t* contexts);
  // Symbols with keep = form.max_keep.
  void (*symbols)(ElementForm form, const std::byte* target, const std::byte* base, std::size_t count,
                  std::uint8_t* symbols);
  // Appends the raw bits of every element, first to last.
  void (*pack)(ElementForm form, unsigned keep, const std::byte* target, const std::byte* base, std::size_t count,
               BitWriter& raw);
  // The inverse of symbols and pack. REQUIRES: no symbol is above MaxSymbol(form.width, keep).
  void (*restore)(ElementForm form, unsigned keep, const std::byte* base, const std::uint8_t* symbols,
                  std::size_t count, BitReader& raw, std::byte* target);
};

// Indexed by log2 of the width.
extern const TransformKernels kTransformScalar[4];
extern const TransformKernels* const kTransformAvx2[4];  // Entries of kTransformScalar where there is nothing faster.

// For 64 contexts that are runs of a map: masks[r] has bit i set when contexts[i] == r, for r < runs.
using RunMasksFn = void (*)(const std::uint8_t* contexts, std::size_t runs, std::uint64_t* masks);
extern const RunMasksFn kRunMasksScalar;
extern const RunMasksFn kRunMasksAvx2;
RunMasksFn ActiveRunMasks();

// The kernels of the active CPU level for elements of `width` bytes.
const TransformKernels& ActiveTransformKernels(std::size_t width);

}  // namespace stepfs::codec
