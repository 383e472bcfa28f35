// SPDX-License-Identifier: Apache-2.0
#include "codec/byte_group.h"

#if defined(__AVX2__)
#include "codec/delta_avx2.h"

namespace stepfs::codec {
namespace {

// All kernels take 32 elements a step: kWidth vectors of deltas on one side, one vector of each plane on the other.
constexpr std::size_t kStep = 32;

template <std::size_t kWidth>
void Split(const __m256i* deltas, __m256i* planes);
template <std::size_t kWidth>
void Join(const __m256i* planes, __m256i* deltas);

template <>
inline void Split<1>(const __m256i* deltas, __m256i* planes) {
  planes[0] = deltas[0];
}

template <>
inline void Join<1>(const __m256i* planes, __m256i* deltas) {
  deltas[0] = planes[0];
}

template <>
inline void Split<2>(const __m256i* deltas, __m256i* planes) {
  const __m256i low = _mm256_set1_epi16(0x00ff);
  const __m256i p0 = _mm256_packus_epi16(_mm256_and_si256(deltas[0], low), _mm256_and_si256(deltas[1], low));
  const __m256i p1 = _mm256_packus_epi16(_mm256_srli_epi16(deltas[0], 8), _mm256_srli_epi16(deltas[1], 8));
  planes[0] = _mm256_permute4x64_epi64(p0, 0xd8);
  planes[1] = _mm256_permute4x64_epi64(p1, 0xd8);
}

template <>
inline void Join<2>(const __m256i* planes, __m256i* deltas) {
  const __m256i low = _mm256_unpacklo_epi8(planes[0], planes[1]);
  const __m256i high = _mm256_unpackhi_epi8(planes[0], planes[1]);
  deltas[0] = _mm256_permute2x128_si256(low, high, 0x20);
  deltas[1] = _mm256_permute2x128_si256(low, high, 0x31);
}

template <>
inline void Split<4>(const __m256i* deltas, __m256i* planes) {
  // In each lane: the 4 x 4 bytes of four elements turned, then 4 x 4 dwords over the four vectors.
  const __m256i turn = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m256i lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i r0 = _mm256_shuffle_epi8(deltas[0], turn);
  const __m256i r1 = _mm256_shuffle_epi8(deltas[1], turn);
  const __m256i r2 = _mm256_shuffle_epi8(deltas[2], turn);
  const __m256i r3 = _mm256_shuffle_epi8(deltas[3], turn);
  const __m256i s0 = _mm256_unpacklo_epi32(r0, r1);
  const __m256i s1 = _mm256_unpackhi_epi32(r0, r1);
  const __m256i s2 = _mm256_unpacklo_epi32(r2, r3);
  const __m256i s3 = _mm256_unpackhi_epi32(r2, r3);
  planes[0] = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(s0, s2), lanes);
  planes[1] = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(s0, s2), lanes);
  planes[2] = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(s1, s3), lanes);
  planes[3] = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(s1, s3), lanes);
}

template <>
inline void Join<4>(const __m256i* planes, __m256i* deltas) {
  const __m256i a = _mm256_unpacklo_epi8(planes[0], planes[1]);
  const __m256i b = _mm256_unpackhi_epi8(planes[0], planes[1]);
  const __m256i c = _mm256_unpacklo_epi8(planes[2], planes[3]);
  const __m256i d = _mm256_unpackhi_epi8(planes[2], planes[3]);
  const __m256i e0 = _mm256_unpacklo_epi16(a, c);
  const __m256i e1 = _mm256_unpackhi_epi16(a, c);
  const __m256i e2 = _mm256_unpacklo_epi16(b, d);
  const __m256i e3 = _mm256_unpackhi_epi16(b, d);
  deltas[0] = _mm256_permute2x128_si256(e0, e1, 0x20);
  deltas[1] = _mm256_permute2x128_si256(e2, e3, 0x20);
  deltas[2] = _mm256_permute2x128_si256(e0, e1, 0x31);
  deltas[3] = _mm256_permute2x128_si256(e2, e3, 0x31);
}

template <>
inline void Split<8>(const __m256i* deltas, __m256i* planes) {
  // In each lane: the bytes of two elements interleaved to 8 words, then 8 x 8 words over the eight vectors.
  const __m256i turn = _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15,  //
                                        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  const __m256i lanes = _mm256_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15,  //
                                         0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  __m256i r[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_shuffle_epi8(deltas[i], turn);
  __m256i s[8];
  for (int i = 0; i < 4; ++i) {
    s[i] = _mm256_unpacklo_epi16(r[2 * i], r[2 * i + 1]);      // Planes 0-3 of vectors 2i, 2i+1.
    s[4 + i] = _mm256_unpackhi_epi16(r[2 * i], r[2 * i + 1]);  // Planes 4-7.
  }
  for (int half = 0; half < 2; ++half) {
    const __m256i* h = s + 4 * half;
    const __m256i t0 = _mm256_unpacklo_epi32(h[0], h[1]);
    const __m256i t1 = _mm256_unpackhi_epi32(h[0], h[1]);
    const __m256i t2 = _mm256_unpacklo_epi32(h[2], h[3]);
    const __m256i t3 = _mm256_unpackhi_epi32(h[2], h[3]);
    planes[4 * half + 0] = _mm256_unpacklo_epi64(t0, t2);
    planes[4 * half + 1] = _mm256_unpackhi_epi64(t0, t2);
    planes[4 * half + 2] = _mm256_unpacklo_epi64(t1, t3);
    planes[4 * half + 3] = _mm256_unpackhi_epi64(t1, t3);
  }
  // The words of the two lanes alternate in element order.
  for (int p = 0; p < 8; ++p) planes[p] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(planes[p], 0xd8), lanes);
}

template <>
inline void Join<8>(const __m256i* planes, __m256i* deltas) {
  __m256i a[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi8(planes[2 * i], planes[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi8(planes[2 * i], planes[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half) {  // Elements 0-7 and 16-23, then 8-15 and 24-31.
    const __m256i b0 = _mm256_unpacklo_epi16(a[half], a[2 + half]);
    const __m256i b1 = _mm256_unpackhi_epi16(a[half], a[2 + half]);
    const __m256i c0 = _mm256_unpacklo_epi16(a[4 + half], a[6 + half]);
    const __m256i c1 = _mm256_unpackhi_epi16(a[4 + half], a[6 + half]);
    const __m256i d0 = _mm256_unpacklo_epi32(b0, c0);
    const __m256i d1 = _mm256_unpackhi_epi32(b0, c0);
    const __m256i d2 = _mm256_unpacklo_epi32(b1, c1);
    const __m256i d3 = _mm256_unpackhi_epi32(b1, c1);
    deltas[2 * half + 0] = _mm256_permute2x128_si256(d0, d1, 0x20);
    deltas[2 * half + 1] = _mm256_permute2x128_si256(d2, d3, 0x20);
    deltas[2 * half + 4] = _mm256_permute2x128_si256(d0, d1, 0x31);
    deltas[2 * half + 5] = _mm256_permute2x128_si256(d2, d3, 0x31);
  }
}

template <DeltaKind kKind, std::size_t kWidth>
void Group(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements, std::uint8_t* const* planes) {
  std::size_t i = 0;
  for (; i + kStep <= elements; i += kStep) {
    __m256i deltas[kWidth];
    __m256i split[kWidth];
    for (std::size_t v = 0; v < kWidth; ++v) {
      deltas[v] = LoadDelta<kKind, kWidth>(target, base, i * kWidth + v * 32);
    }
    Split<kWidth>(deltas, split);
    for (std::size_t p = 0; p < kWidth; ++p) Store(planes[p] + i, split[p]);
  }
  std::uint8_t* rest[kWidth];
  for (std::size_t p = 0; p < kWidth; ++p) rest[p] = planes[p] + i;
  kByteGroupScalar.group[static_cast<std::size_t>(kKind)][Log2Width(kWidth)](
      target + i * kWidth, BaseAt<kKind>(base, i * kWidth), elements - i, rest);
}

template <DeltaKind kKind, std::size_t kWidth>
void Ungroup(const std::uint8_t* const* planes, const std::uint8_t* base, std::size_t elements, std::uint8_t* target) {
  std::size_t i = 0;
  for (; i + kStep <= elements; i += kStep) {
    __m256i split[kWidth];
    __m256i deltas[kWidth];
    for (std::size_t p = 0; p < kWidth; ++p) split[p] = Load(planes[p] + i);
    Join<kWidth>(split, deltas);
    for (std::size_t v = 0; v < kWidth; ++v) {
      StoreTarget<kKind, kWidth>(deltas[v], base, i * kWidth + v * 32, target);
    }
  }
  const std::uint8_t* rest[kWidth];
  for (std::size_t p = 0; p < kWidth; ++p) rest[p] = planes[p] + i;
  kByteGroupScalar.ungroup[static_cast<std::size_t>(kKind)][Log2Width(kWidth)](rest, BaseAt<kKind>(base, i * kWidth),
                                                                               elements - i, target + i * kWidth);
}

}  // namespace

#define STEPFS_WIDTHS(f, kind) \
  { f<kind, 1>, f<kind, 2>, f<kind, 4>, f<kind, 8> }
#define STEPFS_KINDS(f) \
  { STEPFS_WIDTHS(f, DeltaKind::kNone), STEPFS_WIDTHS(f, DeltaKind::kXor), STEPFS_WIDTHS(f, DeltaKind::kSubtract) }

constinit const ByteGroupKernels kByteGroupAvx2 = {STEPFS_KINDS(Group), STEPFS_KINDS(Ungroup)};

#undef STEPFS_KINDS
#undef STEPFS_WIDTHS

}  // namespace stepfs::codec
#else
namespace stepfs::codec {

const ByteGroupKernels kByteGroupAvx2 = kByteGroupScalar;

}  // namespace stepfs::codec
#endif
