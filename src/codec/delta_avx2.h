// SPDX-License-Identifier: Apache-2.0
//
// 32 bytes of deltas at a time, for the *_avx2.cc files. Everything has internal linkage: a copy compiled with AVX2
// must never be the one that the linker keeps for other files.
#pragma once

#include <immintrin.h>

#include "codec/delta.h"

namespace stepfs::codec {
namespace {

inline __m256i Load(const std::uint8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline void Store(std::uint8_t* to, __m256i value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value); }

template <std::size_t kWidth>
inline __m256i Add(__m256i a, __m256i b) {
  if constexpr (kWidth == 1) return _mm256_add_epi8(a, b);
  if constexpr (kWidth == 2) return _mm256_add_epi16(a, b);
  if constexpr (kWidth == 4) return _mm256_add_epi32(a, b);
  if constexpr (kWidth == 8) return _mm256_add_epi64(a, b);
}

template <std::size_t kWidth>
inline __m256i Subtract(__m256i a, __m256i b) {
  if constexpr (kWidth == 1) return _mm256_sub_epi8(a, b);
  if constexpr (kWidth == 2) return _mm256_sub_epi16(a, b);
  if constexpr (kWidth == 4) return _mm256_sub_epi32(a, b);
  if constexpr (kWidth == 8) return _mm256_sub_epi64(a, b);
}

// The deltas of the elements in bytes [offset, offset + 32).
template <DeltaKind kKind, std::size_t kWidth>
inline __m256i LoadDelta(const std::uint8_t* target, const std::uint8_t* base, std::size_t offset) {
  const __m256i value = Load(target + offset);
  if constexpr (kKind == DeltaKind::kNone) return value;
  if constexpr (kKind == DeltaKind::kXor) return _mm256_xor_si256(value, Load(base + offset));
  if constexpr (kKind == DeltaKind::kSubtract) return Subtract<kWidth>(value, Load(base + offset));
}

template <DeltaKind kKind, std::size_t kWidth>
inline void StoreTarget(__m256i delta, const std::uint8_t* base, std::size_t offset, std::uint8_t* target) {
  if constexpr (kKind == DeltaKind::kXor) delta = _mm256_xor_si256(delta, Load(base + offset));
  if constexpr (kKind == DeltaKind::kSubtract) delta = Add<kWidth>(delta, Load(base + offset));
  Store(target + offset, delta);
}

// `base` moved on by `offset`, null staying null.
template <DeltaKind kKind>
inline const std::uint8_t* BaseAt(const std::uint8_t* base, std::size_t offset) {
  if constexpr (kKind == DeltaKind::kNone) return base;
  if constexpr (kKind != DeltaKind::kNone) return base + offset;
}

constexpr std::size_t Log2Width(std::size_t width) { return width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3; }

}  // namespace
}  // namespace stepfs::codec
