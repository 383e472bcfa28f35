// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent_transform.h"
#include "codec/exponent_transform_inl.h"

namespace stepfs::codec {
namespace {

using namespace transform;  // NOLINT(google-build-using-namespace): this file is those functions in loops.

template <typename U>
void Contexts(ElementForm form, const std::byte* base, std::size_t count, const ContextMap* map,
              std::uint8_t* contexts) {
  WithKind<U>(form.kind, [&]<ElementKind kKind>() {
    for (std::size_t i = 0; i < count; ++i) contexts[i] = ContextOf<U, kKind>(form, Load<U>(base, i));
  });
  if (map == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) contexts[i] = map->run_of[contexts[i]];
}

template <typename U>
void Symbols(ElementForm form, const std::byte* target, const std::byte* base, std::size_t count,
             std::uint8_t* symbols) {
  WithKind<U>(form.kind, [&]<ElementKind kKind>() {
    for (std::size_t i = 0; i < count; ++i) {
      symbols[i] = SymbolOf(Difference<U, kKind>(Load<U>(target, i), Load<U>(base, i)), form.max_keep);
    }
  });
}

template <typename U>
void Pack(ElementForm form, unsigned keep, const std::byte* target, const std::byte* base, std::size_t count,
          BitWriter& raw) {
  WithKind<U>(form.kind, [&]<ElementKind kKind>() {
    for (std::size_t i = 0; i < count; ++i) {
      const U magnitude = Magnitude(Difference<U, kKind>(Load<U>(target, i), Load<U>(base, i)));
      raw.WriteLong(magnitude, RawBits(magnitude, keep));
    }
  });
}

template <typename U>
void Restore(ElementForm form, unsigned keep, const std::byte* base, const std::uint8_t* symbols, std::size_t count,
             BitReader& raw, std::byte* target) {
  WithKind<U>(form.kind, [&]<ElementKind kKind>() {
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned symbol = symbols[i];
      const unsigned raw_bits = RawBitsOfSymbol(symbol, keep);
      const unsigned leading = (symbol + 1) / 2 - (raw_bits << keep);
      const std::uint64_t magnitude = std::uint64_t{leading} << raw_bits | raw.ReadLong(raw_bits);
      const auto sign = static_cast<U>(U{0} - static_cast<U>(symbol & 1));
      const auto difference = static_cast<U>((static_cast<U>(magnitude) ^ sign) - sign);
      Store(Undo<U, kKind>(difference, Load<U>(base, i)), target, i);
    }
  });
}

void RunMasks(const std::uint8_t* contexts, std::size_t runs, std::uint64_t* masks) {
  for (std::size_t r = 0; r < runs; ++r) masks[r] = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    if (contexts[i] < runs) masks[contexts[i]] |= std::uint64_t{1} << i;
  }
}

template <typename U>
constexpr TransformKernels kKernels = {Contexts<U>, Symbols<U>, Pack<U>, Restore<U>};

}  // namespace

const RunMasksFn kRunMasksScalar = RunMasks;
const TransformKernels kTransformScalar[4] = {kKernels<std::uint8_t>, kKernels<std::uint16_t>, kKernels<std::uint32_t>,
                                              kKernels<std::uint64_t>};

}  // namespace stepfs::codec
