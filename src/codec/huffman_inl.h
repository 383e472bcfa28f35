// SPDX-License-Identifier: Apache-2.0
//
// The Huffman kernels, written once and compiled by each huffman_*.cc with its own flags (BMI2's shifts and LZCNT make
// most of the difference). Internal linkage throughout, so that each file keeps its own copy.
#pragma once

#include <cstring>
#include <utility>

#if defined(__BMI2__)
#include <immintrin.h>
#endif

#include "codec/huffman.h"

namespace stepfs::codec {
namespace {

inline std::uint64_t Load64(const std::uint8_t* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Four tables, so that equal neighbours do not wait for each other's store.
void Count(const std::uint8_t* in, std::size_t n, std::uint32_t* counts) {
  std::uint32_t tables[4][256] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const std::uint64_t bytes = Load64(in + i);
    ++tables[0][bytes & 0xff];
    ++tables[1][(bytes >> 8) & 0xff];
    ++tables[2][(bytes >> 16) & 0xff];
    ++tables[3][(bytes >> 24) & 0xff];
    ++tables[0][(bytes >> 32) & 0xff];
    ++tables[1][(bytes >> 40) & 0xff];
    ++tables[2][(bytes >> 48) & 0xff];
    ++tables[3][bytes >> 56];
  }
  for (; i < n; ++i) ++tables[0][in[i]];
  for (std::size_t s = 0; s < 256; ++s) counts[s] = tables[0][s] + tables[1][s] + tables[2][s] + tables[3][s];
}

// Bits gather at the top of `bits`, the newest highest, and leave in whole bytes. An entry's low bits, its length, are
// or-ed in with the code: they fall below the valid bits, but for the last one before a flush, where they are cut off.
std::uint8_t* Encode(const std::uint8_t* last, std::size_t n, const std::uint64_t* table, std::uint8_t* out) {
  constexpr auto kStep = static_cast<std::ptrdiff_t>(kHuffmanStreams);
  constexpr std::uint64_t kCodeMask = ~std::uint64_t{63};
  std::uint64_t bits = 0;
  std::uint64_t used = 0;                      // Valid bits, in the low six bits.
  for (; n >= 5; n -= 5, last -= 5 * kStep) {  // At most 7 + 5 * 11 = 62 bits.
    const std::uint64_t e0 = table[last[0]];
    const std::uint64_t e1 = table[last[-kStep]];
    const std::uint64_t e2 = table[last[-2 * kStep]];
    const std::uint64_t e3 = table[last[-3 * kStep]];
    const std::uint64_t e4 = table[last[-4 * kStep]];
    // Joined in pairs first: only two steps of five depend on the symbols before.
    const std::uint64_t used01 = e0 + e1;
    const std::uint64_t used23 = e2 + e3;
    const std::uint64_t bits01 = e0 >> (e1 & 63) | e1;
    const std::uint64_t bits23 = e2 >> (e3 & 63) | e3;
    const std::uint64_t used0123 = used01 + used23;
    const std::uint64_t bits0123 = bits01 >> (used23 & 63) | bits23;
    bits = bits >> (used0123 & 63) | bits0123;
    bits = bits >> (e4 & 63) | (e4 & kCodeMask);
    used = (used + used0123 + e4) & 63;
    const std::uint64_t valid = bits >> (64 - used);
    std::memcpy(out, &valid, sizeof valid);
    out += used >> 3;
    used &= 7;
  }
  for (; n > 0; --n, last -= kStep) {
    const std::uint64_t e = table[*last];
    bits = bits >> (e & 63) | (e & kCodeMask);
    used += e & 63;
  }
  if (used == 0) return out;
  const std::uint64_t valid = bits >> (64 - used);
  std::memcpy(out, &valid, sizeof valid);
  return out + (used + 7) / 8;
}

// Where one stream is: its next bit is bit `shift` (0-7) of *in.
struct Position {
  const std::uint8_t* in;
  std::uint64_t shift;
};

constexpr std::uint64_t kSentinel = std::uint64_t{1} << 63;
constexpr std::size_t kSymbolsPerRefill = 5;
// Bytes that a refill and its symbols move on at most: (7 + 5 * 11) / 8.
constexpr std::ptrdiff_t kBytesPerRefill = 7;

inline std::size_t TableIndex(std::uint64_t bits) {
#if defined(__BMI2__)
  return _bzhi_u64(bits, kMaxCodeBits);
#else
  return bits & ((std::uint64_t{1} << kMaxCodeBits) - 1);
#endif
}

// Refills that no stream of the blocks can fail to have bytes and symbols for.
template <std::size_t kBlocks>
std::size_t SafeRefills(const HuffmanBlock* blocks, const Position* positions, std::size_t done) {
  std::size_t refills = ~std::size_t{0};
  for (std::size_t b = 0; b < kBlocks; ++b) {
    // The first symbol of the block, in memory, is left over: see DecodeSymbol.
    const std::size_t by_symbols = ((blocks[b].symbols - 1) / kHuffmanStreams - done) / kSymbolsPerRefill;
    refills = by_symbols < refills ? by_symbols : refills;
    for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
      const std::ptrdiff_t left = blocks[b].end[s] - positions[b * kHuffmanStreams + s].in;
      const std::size_t by_bytes = left < 8 ? 0 : static_cast<std::size_t>((left - 8) / kBytesPerRefill) + 1;
      refills = by_bytes < refills ? by_bytes : refills;
    }
  }
  return refills;
}

// Decodes a symbol of the kStream-th of the streams of up to two blocks. Outputs run backwards, so that one 16-bit
// store of the entry will do: its lower byte, the code bits, lands where the next symbol will overwrite it.
template <std::size_t kStream>
[[gnu::always_inline]] inline void DecodeSymbol(const HuffmanBlock* blocks, std::uint64_t* bits, std::uint8_t* end0,
                                                std::uint8_t* end1, std::ptrdiff_t round) {
  constexpr std::size_t kBlock = kStream / kHuffmanStreams;
  constexpr auto kInBlock = static_cast<std::ptrdiff_t>(kStream % kHuffmanStreams);
  const std::uint16_t entry = blocks[kBlock].table[TableIndex(bits[kStream])];
  bits[kStream] >>= entry & 63;
  std::memcpy((kBlock == 0 ? end0 : end1) - 2 - kInBlock - round * static_cast<std::ptrdiff_t>(kHuffmanStreams), &entry,
              sizeof entry);
}

// A refill sets a sentinel above the 63 bits it takes, so that the zeros above it tell what was consumed.
inline std::uint64_t Refill(Position position) { return (Load64(position.in) | kSentinel) >> position.shift; }

template <std::size_t kStream>
[[gnu::always_inline]] inline void Advance(std::uint64_t* bits, Position* positions) {
  const auto consumed = static_cast<std::uint64_t>(__builtin_clzll(bits[kStream]));
  positions[kStream] = {positions[kStream].in + (consumed >> 3), consumed & 7};
}

// Decodes what the streams have in common without looking at bounds between SafeRefills; returns the symbols done in
// each stream. Unrolled by hand, in effect: the bits of all streams must stay in registers.
template <std::size_t... kStream>
std::size_t DecodeFast(const HuffmanBlock* blocks, Position* positions, std::size_t done,
                       std::index_sequence<kStream...>) {
  constexpr std::size_t kBlocks = sizeof...(kStream) / kHuffmanStreams;
  while (std::size_t refills = SafeRefills<kBlocks>(blocks, positions, done)) {
    std::uint8_t* end0 = blocks[0].out + blocks[0].symbols - done * kHuffmanStreams;
    std::uint8_t* end1 = blocks[kBlocks - 1].out + blocks[kBlocks - 1].symbols - done * kHuffmanStreams;
    done += refills * kSymbolsPerRefill;
    for (; refills > 0; --refills) {
      std::uint64_t bits[sizeof...(kStream)] = {Refill(positions[kStream])...};
      (DecodeSymbol<kStream>(blocks, bits, end0, end1, 0), ...);
      (DecodeSymbol<kStream>(blocks, bits, end0, end1, 1), ...);
      (DecodeSymbol<kStream>(blocks, bits, end0, end1, 2), ...);
      (DecodeSymbol<kStream>(blocks, bits, end0, end1, 3), ...);
      (DecodeSymbol<kStream>(blocks, bits, end0, end1, 4), ...);
      (Advance<kStream>(bits, positions), ...);
      end0 -= kSymbolsPerRefill * kHuffmanStreams;
      end1 -= kSymbolsPerRefill * kHuffmanStreams;
    }
  }
  return done;
}

// Decodes what is left of stream `s` behind its first `done` symbols. False unless the stream ends within its last byte
// and only zeros follow.
bool FinishStream(const HuffmanBlock& block, std::size_t s, Position position, std::size_t done) {
  const std::uint8_t* const begin = block.begin[s];
  const auto size = static_cast<std::uint64_t>(block.end[s] - begin);
  std::uint64_t bit = static_cast<std::uint64_t>(position.in - begin) * 8 + position.shift;
  for (std::size_t i = done * kHuffmanStreams + s; i < block.symbols;) {
    const std::uint64_t byte = bit >> 3;
    if (byte > size) return false;
    std::uint64_t bits = 0;  // Zeros stand behind the end.
    if (size - byte >= 8) {
      bits = Load64(begin + byte);
    } else {
      std::memcpy(&bits, begin + byte, static_cast<std::size_t>(size - byte));
    }
    bits >>= bit & 7;
    for (std::size_t j = 0; j < kSymbolsPerRefill && i < block.symbols; ++j, i += kHuffmanStreams) {
      const unsigned entry = block.table[TableIndex(bits)];
      bits >>= entry & 63;
      bit += entry & 63;
      block.out[block.symbols - 1 - i] = static_cast<std::uint8_t>(entry >> 8);
    }
  }
  if (bit > 8 * size || 8 * size - bit >= 8) return false;
  return bit == 8 * size || begin[size - 1] >> (bit & 7) == 0;
}

bool Decode(const HuffmanBlock* blocks, std::size_t count) {
  constexpr auto kOne = std::make_index_sequence<kHuffmanStreams>();
  constexpr auto kTwo = std::make_index_sequence<2 * kHuffmanStreams>();
  Position positions[2 * kHuffmanStreams];
  for (std::size_t b = 0; b < count; ++b) {
    for (std::size_t s = 0; s < kHuffmanStreams; ++s) positions[b * kHuffmanStreams + s] = {blocks[b].begin[s], 0};
  }
  const std::size_t common = count == 2 ? DecodeFast(blocks, positions, 0, kTwo) : 0;
  for (std::size_t b = 0; b < count; ++b) {
    Position* const own = positions + b * kHuffmanStreams;
    const std::size_t done = DecodeFast(blocks + b, own, common, kOne);
    for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
      if (!FinishStream(blocks[b], s, own[s], done)) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace stepfs::codec
