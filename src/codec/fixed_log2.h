// SPDX-License-Identifier: Apache-2.0
//
// Logarithms in fixed point, for estimates that decide what an encoder writes: integer arithmetic only, so that every
// build decides alike. Values are in units of 2^-16 bit, within 2^-10 bit of the true logarithm.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace stepfs::codec {

inline constexpr unsigned kLogFractionBits = 16;

namespace internal {

inline constexpr unsigned kLogTableBits = 10;

// Entry i: log2(1 + i / 1024). Sixteen squarings give sixteen bits of the logarithm.
constexpr std::array<std::uint32_t, (1u << kLogTableBits) + 1> MakeLogTable() {
  std::array<std::uint32_t, (1u << kLogTableBits) + 1> table{};
  for (std::uint64_t i = 0; i < (1u << kLogTableBits); ++i) {
    std::uint64_t x = (1u << 30) + (i << (30 - kLogTableBits));
    std::uint32_t log = 0;
    for (unsigned bit = 0; bit < kLogFractionBits; ++bit) {
      x = (x * x) >> 30;
      log <<= 1;
      if (x >= (std::uint64_t{2} << 30)) {
        x >>= 1;
        log |= 1;
      }
    }
    table[i] = log;
  }
  table[1u << kLogTableBits] = 1u << kLogFractionBits;
  return table;
}

inline constexpr auto kLogTable = MakeLogTable();

}  // namespace internal

// log2(value) * 2^16, rounded down; 0 for 0.
constexpr std::uint32_t FixedLog2(std::uint32_t value) {
  if (value == 0) return 0;
  const unsigned exponent = 31u - static_cast<unsigned>(std::countl_zero(value));
  const std::uint32_t mantissa = (value << (31 - exponent)) & 0x7fffffffu;
  return (exponent << kLogFractionBits) + internal::kLogTable[mantissa >> (31 - internal::kLogTableBits)];
}

// value * log2(value) * 2^16: with it, the entropy of counts c summing to n is NLog2N(n) - sum NLog2N(c).
constexpr std::uint64_t NLog2N(std::uint32_t value) { return std::uint64_t{value} * FixedLog2(value); }

}  // namespace stepfs::codec
