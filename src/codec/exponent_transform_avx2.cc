// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent_transform.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include "codec/exponent_transform_inl.h"

// 16- and 32-bit floats, sixteen or eight at a time; everything else is left to the scalar kernels. Raw bits are moved
// by pext and pdep, which take the bits of several elements at once: a mask has the places of each element's raw bits.
namespace stepfs::codec {
namespace {

using transform::kTop;

__m256i LoadVector(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
void StoreVector(void* to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

// The bytes of the low halves of 16-bit lanes of two vectors, in order.
__m256i PackBytes(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
}

// Arithmetic on vectors of U.
template <typename U>
struct Vector;

template <>
struct Vector<std::uint16_t> {
  static constexpr std::size_t kCount = 16;
  static __m256i Set(unsigned value) { return _mm256_set1_epi16(static_cast<short>(value)); }
  static __m256i Add(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
  static __m256i Sub(__m256i a, __m256i b) { return _mm256_sub_epi16(a, b); }
  static __m256i Max(__m256i a, __m256i b) { return _mm256_max_epi16(a, b); }
  static __m256i SignMask(__m256i a) { return _mm256_srai_epi16(a, 15); }
  static __m256i ShiftLeft(__m256i a, __m128i count) { return _mm256_sll_epi16(a, count); }
  static __m256i ShiftRight(__m256i a, __m128i count) { return _mm256_srl_epi16(a, count); }

  // 2^exponent; 0 for exponent 16.
  static __m256i PowerOfTwo(__m256i exponent) {
    const __m256i low = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64,
                                         -128, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i high = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0,
                                          1, 2, 4, 8, 16, 32, 64, -128);
    // The upper byte of each lane indexes entry 0 of `low` (1) unless it is masked out; 16 wraps to nothing.
    const __m256i in_range = _mm256_cmpgt_epi16(_mm256_set1_epi16(16), exponent);
    const __m256i low_bytes = _mm256_and_si256(_mm256_shuffle_epi8(low, exponent), _mm256_set1_epi16(0xff));
    const __m256i high_bytes = _mm256_slli_epi16(_mm256_shuffle_epi8(high, exponent), 8);
    return _mm256_and_si256(_mm256_or_si256(low_bytes, high_bytes), in_range);
  }
  static __m256i ShiftLeftEach(__m256i a, __m256i count) { return _mm256_mullo_epi16(a, PowerOfTwo(count)); }
  static __m256i ShiftRightEach(__m256i a, __m256i count) {
    const __m256i shifted = _mm256_mulhi_epu16(a, PowerOfTwo(_mm256_sub_epi16(_mm256_set1_epi16(16), count)));
    return _mm256_blendv_epi8(shifted, a, _mm256_cmpeq_epi16(count, _mm256_setzero_si256()));
  }
  static __m256i BitWidth(__m256i a) {
    const __m256i widths = _mm256_setr_epi8(0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 0, 1, 2, 2, 3, 3, 3, 3, 4,
                                            4, 4, 4, 4, 4, 4, 4);
    const __m256i upper_widths = _mm256_setr_epi8(0, 5, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 0, 5, 6, 6, 7, 7, 7,
                                                  7, 8, 8, 8, 8, 8, 8, 8, 8);
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    const __m256i of_bytes =
        _mm256_max_epu8(_mm256_shuffle_epi8(widths, _mm256_and_si256(a, nibble)),
                        _mm256_shuffle_epi8(upper_widths, _mm256_and_si256(_mm256_srli_epi16(a, 4), nibble)));
    const __m256i upper = _mm256_srli_epi16(of_bytes, 8);
    const __m256i lower = _mm256_and_si256(of_bytes, _mm256_set1_epi16(0xff));
    const __m256i has_upper = _mm256_cmpgt_epi16(upper, _mm256_setzero_si256());
    return _mm256_blendv_epi8(lower, _mm256_add_epi16(upper, _mm256_set1_epi16(8)), has_upper);
  }

  static __m256i FromBytes(const std::uint8_t* bytes) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  }
};

template <>
struct Vector<std::uint32_t> {
  static constexpr std::size_t kCount = 8;
  static __m256i Set(unsigned value) { return _mm256_set1_epi32(static_cast<int>(value)); }
  static __m256i Add(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
  static __m256i Sub(__m256i a, __m256i b) { return _mm256_sub_epi32(a, b); }
  static __m256i Max(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
  static __m256i SignMask(__m256i a) { return _mm256_srai_epi32(a, 31); }
  static __m256i ShiftLeft(__m256i a, __m128i count) { return _mm256_sll_epi32(a, count); }
  static __m256i ShiftRight(__m256i a, __m128i count) { return _mm256_srl_epi32(a, count); }
  static __m256i ShiftLeftEach(__m256i a, __m256i count) { return _mm256_sllv_epi32(a, count); }
  static __m256i ShiftRightEach(__m256i a, __m256i count) { return _mm256_srlv_epi32(a, count); }
  static __m256i PowerOfTwo(__m256i exponent) { return _mm256_sllv_epi32(_mm256_set1_epi32(1), exponent); }
  // The exponent of the value as a float. With no two leading ones it cannot be rounded up to the next power of two;
  // 2^31 becomes -2^31, whose exponent is the same.
  static __m256i BitWidth(__m256i a) {
    const __m256i thin = _mm256_andnot_si256(_mm256_srli_epi32(a, 1), a);
    const __m256i bits = _mm256_castps_si256(_mm256_cvtepi32_ps(thin));
    const __m256i exponent = _mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(0xff));
    return _mm256_max_epi32(_mm256_sub_epi32(exponent, _mm256_set1_epi32(126)), _mm256_setzero_si256());
  }
  static __m256i FromBytes(const std::uint8_t* bytes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
  }
};

template <typename U>
__m256i Ordered(__m256i value) {
  using V = Vector<U>;
  return _mm256_xor_si256(value, _mm256_or_si256(V::SignMask(value), V::Set(kTop<U>)));
}

template <typename U>
__m256i Negated(__m256i value, __m256i mask) {  // Where the mask is all ones.
  return Vector<U>::Sub(_mm256_xor_si256(value, mask), mask);
}

struct Split {
  __m256i magnitude;
  __m256i negative;  // A mask.
};

template <typename U>
Split Difference(const std::byte* target, const std::byte* base) {
  using V = Vector<U>;
  const __m256i t = LoadVector(target);
  const __m256i b = LoadVector(base);
  const __m256i difference = Negated<U>(V::Sub(Ordered<U>(t), Ordered<U>(b)), V::SignMask(b));
  const __m256i negative = V::SignMask(difference);
  return {Negated<U>(difference, negative), negative};
}

template <typename U>
__m256i RawBits(__m256i magnitude, __m256i keep_and_one) {
  return Vector<U>::Max(Vector<U>::Sub(Vector<U>::BitWidth(magnitude), keep_and_one), _mm256_setzero_si256());
}

// 2 * bucket - negative, in lanes of U.
template <typename U>
__m256i SymbolsOf(const std::byte* target, const std::byte* base, __m128i keep, __m256i keep_and_one) {
  using V = Vector<U>;
  const Split split = Difference<U>(target, base);
  const __m256i raw = RawBits<U>(split.magnitude, keep_and_one);
  const __m256i bucket = V::Add(V::ShiftLeft(raw, keep), V::ShiftRightEach(split.magnitude, raw));
  return V::Add(V::Add(bucket, bucket), split.negative);
}

// 32 bytes from the low bytes of 32 lanes; `lanes(i)` gives those of elements i and following.
template <typename U, typename Lanes>
__m256i Bytes32(Lanes lanes) {
  if constexpr (sizeof(U) == 2) {
    return PackBytes(lanes(0), lanes(16));
  } else {
    const __m256i low = _mm256_packus_epi32(lanes(0), lanes(8));
    const __m256i high = _mm256_packus_epi32(lanes(16), lanes(24));
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
}

constexpr std::size_t kStep = 32;

template <typename U>
void Contexts(ElementForm form, const std::byte* base, std::size_t count, const ContextMap* map,
              std::uint8_t* contexts) {
  const TransformKernels& scalar = kTransformScalar[sizeof(U) / 2];
  if (form.kind != ElementKind::kFloat) return scalar.contexts(form, base, count, map, contexts);
  using V = Vector<U>;
  const __m128i one = _mm_cvtsi32_si128(1);
  const __m128i shift = _mm_cvtsi32_si128(form.mantissa_bits + 1);
  const std::size_t runs = map != nullptr ? map->runs : 0;
  __m256i first[16];
  for (std::size_t r = 1; r < runs; ++r) first[r] = _mm256_set1_epi8(static_cast<char>(map->first[r]));
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const __m256i bytes = Bytes32<U>(
        [&](std::size_t j) { return V::ShiftRight(V::ShiftLeft(LoadVector(base + (i + j) * sizeof(U)), one), shift); });
    __m256i run = map != nullptr ? _mm256_setzero_si256() : bytes;
    for (std::size_t r = 1; r < runs; ++r) {
      run = _mm256_sub_epi8(run, _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, first[r]), bytes));
    }
    StoreVector(contexts + i, run);
  }
  scalar.contexts(form, base + i * sizeof(U), count - i, map, contexts + i);
}

template <typename U>
void Symbols(ElementForm form, const std::byte* target, const std::byte* base, std::size_t count,
             std::uint8_t* symbols) {
  const TransformKernels& scalar = kTransformScalar[sizeof(U) / 2];
  if (form.kind != ElementKind::kFloat) return scalar.symbols(form, target, base, count, symbols);
  const __m128i keep = _mm_cvtsi32_si128(form.max_keep);
  const __m256i keep_and_one = Vector<U>::Set(form.max_keep + 1u);
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    StoreVector(symbols + i, Bytes32<U>([&](std::size_t j) {
                  const std::size_t at = (i + j) * sizeof(U);
                  return SymbolsOf<U>(target + at, base + at, keep, keep_and_one);
                }));
  }
  scalar.symbols(form, target + i * sizeof(U), base + i * sizeof(U), count - i, symbols + i);
}

// Bits of one 64-bit group of elements, at most 62.
void WriteGroup(std::uint64_t values, std::uint64_t mask, BitWriter& raw) {
  const auto bits = static_cast<unsigned>(_mm_popcnt_u64(mask));
  const std::uint64_t packed = _pext_u64(values, mask);
  if (bits > 56) return raw.WriteLong(packed, bits);
  raw.WriteClean(packed, bits);
}
std::uint64_t ReadGroup(std::uint64_t mask, BitReader& raw) {
  const auto bits = static_cast<unsigned>(_mm_popcnt_u64(mask));
  if (bits > 56) return _pdep_u64(raw.ReadLong(bits), mask);
  const std::uint64_t window = raw.Window();
  raw.Skip(bits);
  return _pdep_u64(window, mask);
}

template <typename U>
void Pack(ElementForm form, unsigned keep, const std::byte* target, const std::byte* base, std::size_t count,
          BitWriter& shared) {
  const TransformKernels& scalar = kTransformScalar[sizeof(U) / 2];
  if (form.kind != ElementKind::kFloat) return scalar.pack(form, keep, target, base, count, shared);
  BitWriter raw = shared;  // A copy stays in registers: stores of bytes could change the shared one.
  using V = Vector<U>;
  const __m256i keep_and_one = V::Set(keep + 1);
  std::size_t i = 0;
  for (; i + V::kCount <= count; i += V::kCount) {
    const __m256i magnitude = Difference<U>(target + i * sizeof(U), base + i * sizeof(U)).magnitude;
    const __m256i mask = V::Sub(V::PowerOfTwo(RawBits<U>(magnitude, keep_and_one)), V::Set(1));
    if (_mm256_testz_si256(mask, mask) != 0) continue;
    alignas(32) std::uint64_t masks[4];
    alignas(32) std::uint64_t values[4];
    StoreVector(masks, mask);
    StoreVector(values, magnitude);
    for (std::size_t g = 0; g < 4; ++g) WriteGroup(values[g], masks[g], raw);
  }
  shared = raw;
  scalar.pack(form, keep, target + i * sizeof(U), base + i * sizeof(U), count - i, shared);
}

template <typename U>
void Restore(ElementForm form, unsigned keep, const std::byte* base, const std::uint8_t* symbols, std::size_t count,
             BitReader& shared, std::byte* target) {
  const TransformKernels& scalar = kTransformScalar[sizeof(U) / 2];
  if (form.kind != ElementKind::kFloat) return scalar.restore(form, keep, base, symbols, count, shared, target);
  BitReader raw = shared;
  using V = Vector<U>;
  const __m128i keep_shift = _mm_cvtsi32_si128(static_cast<int>(keep));
  const __m128i one_shift = _mm_cvtsi32_si128(1);
  const __m256i one = V::Set(1);
  const __m256i zero = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + V::kCount <= count; i += V::kCount) {
    const __m256i symbol = V::FromBytes(symbols + i);
    const __m256i b = LoadVector(base + i * sizeof(U));
    const __m256i bucket = V::ShiftRight(V::Add(symbol, one), one_shift);
    const __m256i raw_bits = V::Max(V::Sub(V::ShiftRight(bucket, keep_shift), one), zero);
    const __m256i leading = V::Sub(bucket, V::ShiftLeft(raw_bits, keep_shift));
    __m256i magnitude = V::ShiftLeftEach(leading, raw_bits);
    const __m256i mask = V::Sub(V::PowerOfTwo(raw_bits), one);
    if (_mm256_testz_si256(mask, mask) == 0) {
      alignas(32) std::uint64_t masks[4];
      alignas(32) std::uint64_t values[4];
      StoreVector(masks, mask);
      for (std::size_t g = 0; g < 4; ++g) values[g] = ReadGroup(masks[g], raw);
      magnitude = _mm256_or_si256(magnitude, LoadVector(values));
    }
    const __m256i negative = V::Sub(zero, _mm256_and_si256(symbol, one));
    const __m256i difference = Negated<U>(Negated<U>(magnitude, negative), V::SignMask(b));
    const __m256i ordered = V::Add(Ordered<U>(b), difference);
    const __m256i flip = _mm256_or_si256(V::SignMask(_mm256_xor_si256(ordered, V::Set(kTop<U>))), V::Set(kTop<U>));
    StoreVector(target + i * sizeof(U), _mm256_xor_si256(ordered, flip));
  }
  shared = raw;
  scalar.restore(form, keep, base + i * sizeof(U), symbols + i, count - i, shared, target + i * sizeof(U));
}

void RunMasks(const std::uint8_t* contexts, std::size_t runs, std::uint64_t* masks) {
  const __m256i low = LoadVector(contexts);
  const __m256i high = LoadVector(contexts + 32);
  for (std::size_t r = 0; r < runs; ++r) {
    const __m256i run = _mm256_set1_epi8(static_cast<char>(r));
    const auto low_mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, run)));
    const auto high_mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, run)));
    masks[r] = std::uint64_t{high_mask} << 32 | low_mask;
  }
}

template <typename U>
constexpr TransformKernels kKernels = {Contexts<U>, Symbols<U>, Pack<U>, Restore<U>};

}  // namespace

const RunMasksFn kRunMasksAvx2 = RunMasks;
const TransformKernels* const kTransformAvx2[4] = {&kTransformScalar[0], &kKernels<std::uint16_t>,
                                                   &kKernels<std::uint32_t>, &kTransformScalar[3]};

}  // namespace stepfs::codec

#else

namespace stepfs::codec {
const RunMasksFn kRunMasksAvx2 = nullptr;  // Never selected: cpu.h knows no AVX2 in such a build.
const TransformKernels* const kTransformAvx2[4] = {&kTransformScalar[0], &kTransformScalar[1], &kTransformScalar[2],
                                                   &kTransformScalar[3]};
}  // namespace stepfs::codec

#endif
