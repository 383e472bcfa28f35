// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "codec/ans.h"

namespace stepfs::codec {
namespace {

std::uint8_t* Encode(const AnsEncodeArgs& args, std::uint32_t* states, std::uint8_t* out) {
  const unsigned table_log = args.table_log;
  for (std::size_t i = args.count; i-- > 0;) {
    const std::size_t context = args.contexts != nullptr ? args.contexts[i] : 0;
    const AnsEncodeEntry entry = args.table[context * kAnsSymbols + args.symbols[i]];
    const std::uint32_t frequency = entry.packed & 0x1fff;
    const std::uint32_t bias = entry.packed >> 13 & 0x1fff;
    std::uint32_t x = states[i & (args.lanes - 1)];
    if ((x >> (31 - table_log)) >= frequency) {
      out -= 2;
      const auto word = static_cast<std::uint16_t>(x);
      std::memcpy(out, &word, 2);
      x >>= 16;
    }
    const auto quotient =
        static_cast<std::uint32_t>((std::uint64_t{x} * entry.reciprocal) >> 32) >> (entry.packed >> 26);
    states[i & (args.lanes - 1)] = x + bias + quotient * ((1u << table_log) - frequency);
  }
  return out;
}

bool Decode(const AnsDecodeArgs& args, std::uint32_t* states, const std::uint8_t** in, const std::uint8_t* in_end) {
  const unsigned table_log = args.table_log;
  const std::uint32_t mask = (1u << table_log) - 1;
  const std::uint8_t* word_at = *in;
  for (std::size_t i = 0; i < args.count; ++i) {
    const std::size_t context = args.contexts != nullptr ? args.contexts[i] : 0;
    std::uint32_t x = states[i & (args.lanes - 1)];
    const AnsDecodeEntry entry = args.table[(context << table_log) + (x & mask)];
    args.symbols[i] = static_cast<std::uint8_t>(entry);
    x = ((entry >> 8 & 0xfff) + 1) * (x >> table_log) + (entry >> 20);
    if (x < kAnsStateLow) {
      if (in_end - word_at < 2) return false;
      std::uint16_t word;
      std::memcpy(&word, word_at, 2);
      word_at += 2;
      x = x << 16 | word;
    }
    states[i & (args.lanes - 1)] = x;
  }
  *in = word_at;
  return true;
}

}  // namespace

const AnsKernels kAnsScalar = {Encode, Decode};

}  // namespace stepfs::codec
