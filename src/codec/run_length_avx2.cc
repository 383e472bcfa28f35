// SPDX-License-Identifier: Apache-2.0
#include "codec/run_length.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include "codec/run_length_inl.h"

namespace stepfs::codec {
namespace {

// Bit i: in[i] == value, for 32 bytes.
std::uint32_t EqualMask(const std::uint8_t* in, __m256i value) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, value)));
}

std::size_t Count(const std::uint8_t* in, std::size_t n, std::uint8_t value) {
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(value));
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) count += static_cast<std::size_t>(_mm_popcnt_u32(EqualMask(in + i, wanted)));
  for (; i < n; ++i) count += in[i] == value ? 1 : 0;
  return count;
}

RunCounts Split(const std::uint8_t* in, std::size_t n, std::uint8_t run_byte, std::uint8_t* tokens,
                std::uint8_t* literals) {
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(run_byte));
  RunWriter writer(tokens, literals);
  std::size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    std::uint64_t others = ~(EqualMask(in + i, wanted) | std::uint64_t{EqualMask(in + i + 32, wanted)} << 32);
    for (; others != 0; others &= others - 1) {
      const std::size_t position = i + static_cast<std::size_t>(_tzcnt_u64(others));
      writer.Literal(position, in[position]);
    }
  }
  for (; i < n; ++i) {
    if (in[i] != run_byte) writer.Literal(i, in[i]);
  }
  return writer.counts();
}

}  // namespace

constinit const RunLengthKernels kRunLengthAvx2 = {Count, Split};

}  // namespace stepfs::codec
#else
namespace stepfs::codec {

const RunLengthKernels kRunLengthAvx2 = kRunLengthScalar;

}  // namespace stepfs::codec
#endif
