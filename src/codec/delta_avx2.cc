// SPDX-License-Identifier: Apache-2.0
#include "codec/delta.h"

#if defined(__AVX2__)
#include <cstring>

#include "codec/delta_avx2.h"

namespace stepfs::codec {
namespace {

template <DeltaKind kKind, std::size_t kWidth>
void Apply(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements, std::uint8_t* delta) {
  const std::size_t bytes = elements * kWidth;
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32) Store(delta + i, LoadDelta<kKind, kWidth>(target, base, i));
  kDeltaScalar.apply[static_cast<std::size_t>(kKind)][Log2Width(kWidth)](target + i, BaseAt<kKind>(base, i),
                                                                         (bytes - i) / kWidth, delta + i);
}

template <DeltaKind kKind, std::size_t kWidth>
void Undo(const std::uint8_t* delta, const std::uint8_t* base, std::size_t elements, std::uint8_t* target) {
  const std::size_t bytes = elements * kWidth;
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32) StoreTarget<kKind, kWidth>(Load(delta + i), base, i, target);
  kDeltaScalar.undo[static_cast<std::size_t>(kKind)][Log2Width(kWidth)](delta + i, BaseAt<kKind>(base, i),
                                                                        (bytes - i) / kWidth, target + i);
}

// Bit p: byte p of any element in `seen` is not zero.
template <std::size_t kWidth>
std::uint8_t NonZeroBytes(__m256i seen) {
  auto mask = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(seen, _mm256_setzero_si256())));
  for (std::size_t shift = 16; shift >= kWidth; shift /= 2) mask |= mask >> shift;
  return static_cast<std::uint8_t>(mask & ((1u << kWidth) - 1));
}

template <std::size_t kWidth>
__m256i Broadcast(const std::uint8_t* element) {
  std::uint64_t value = 0;
  std::memcpy(&value, element, kWidth);
  for (std::size_t w = kWidth; w < 8; w *= 2) value |= value << (8 * w);
  return _mm256_set1_epi64x(static_cast<long long>(value));
}

template <DeltaKind kKind, std::size_t kWidth>
std::uint8_t Varying(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements) {
  constexpr std::uint8_t kAll = static_cast<std::uint8_t>((1u << kWidth) - 1);
  constexpr std::size_t kStep = 256;  // Bytes between two looks at the sum.
  const auto kind = static_cast<std::size_t>(kKind);
  const std::size_t bytes = elements * kWidth;
  std::uint8_t first_element[kWidth];
  kDeltaScalar.apply[kind][Log2Width(kWidth)](target, base, 1, first_element);
  const __m256i first = Broadcast<kWidth>(first_element);
  __m256i seen = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + kStep <= bytes; i += kStep) {
    for (std::size_t j = 0; j < kStep; j += 32) {
      const __m256i delta = LoadDelta<kKind, kWidth>(target, base, i + j);
      seen = _mm256_or_si256(seen, _mm256_xor_si256(delta, first));
    }
    if (NonZeroBytes<kWidth>(seen) == kAll) return kAll;
  }
  std::uint8_t mask = NonZeroBytes<kWidth>(seen);
  std::uint8_t element[kWidth];
  for (; i < bytes; i += kWidth) {
    kDeltaScalar.apply[kind][Log2Width(kWidth)](target + i, BaseAt<kKind>(base, i), 1, element);
    for (std::size_t p = 0; p < kWidth; ++p) {
      if (element[p] != first_element[p]) mask = static_cast<std::uint8_t>(mask | (1u << p));
    }
  }
  return mask;
}

}  // namespace

#define STEPFS_WIDTHS(f, kind) \
  { f<kind, 1>, f<kind, 2>, f<kind, 4>, f<kind, 8> }
#define STEPFS_KINDS(f) \
  { STEPFS_WIDTHS(f, DeltaKind::kNone), STEPFS_WIDTHS(f, DeltaKind::kXor), STEPFS_WIDTHS(f, DeltaKind::kSubtract) }

constinit const DeltaKernels kDeltaAvx2 = {STEPFS_KINDS(Apply), STEPFS_KINDS(Undo), STEPFS_KINDS(Varying)};

#undef STEPFS_KINDS
#undef STEPFS_WIDTHS

}  // namespace stepfs::codec
#else
namespace stepfs::codec {

const DeltaKernels kDeltaAvx2 = kDeltaScalar;

}  // namespace stepfs::codec
#endif
