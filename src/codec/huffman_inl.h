// SPDX-License-Identifier: Apache-2.0
//
// The Huffman kernels, written once and compiled by each huffman_*.cc with its own flags (BMI2's shifts and LZCNT make
// most of the difference). Internal linkage throughout, so that each file keeps its own copy.
#pragma once

#include <cstring>

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
std::uint8_t* Encode(const std::uint8_t* in, std::size_t n, const std::uint64_t* table, std::uint8_t* out) {
  constexpr std::uint64_t kCodeMask = ~std::uint64_t{63};
  std::uint64_t bits = 0;
  std::uint64_t used = 0;  // Valid bits, in the low six bits.
  std::size_t i = 0;
  for (; i + 5 <= n; i += 5) {  // At most 7 + 5 * 11 = 62 bits.
    const std::uint64_t e0 = table[in[i]];
    const std::uint64_t e1 = table[in[i + 1]];
    const std::uint64_t e2 = table[in[i + 2]];
    const std::uint64_t e3 = table[in[i + 3]];
    const std::uint64_t e4 = table[in[i + 4]];
    bits = bits >> (e0 & 63) | e0;
    bits = bits >> (e1 & 63) | e1;
    bits = bits >> (e2 & 63) | e2;
    bits = bits >> (e3 & 63) | e3;
    bits = bits >> (e4 & 63) | (e4 & kCodeMask);
    used = (used + (e0 + e1) + (e2 + e3) + e4) & 63;
    const std::uint64_t valid = bits >> (64 - used);
    std::memcpy(out, &valid, sizeof valid);
    out += used >> 3;
    used &= 7;
  }
  for (; i < n; ++i) {
    const std::uint64_t e = table[in[i]];
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

constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kMaxCodeBits) - 1;
constexpr std::uint64_t kSentinel = std::uint64_t{1} << 63;
constexpr std::size_t kSymbolsPerRefill = 5;
// Bytes that a refill and its symbols move on at most: (7 + 5 * 11) / 8.
constexpr std::ptrdiff_t kBytesPerRefill = 7;

// Refills that no stream of the blocks can fail to have bytes and symbols for.
template <std::size_t kBlocks>
std::size_t SafeRefills(const HuffmanStreams* blocks, const Position* positions, std::size_t done) {
  std::size_t refills = ~std::size_t{0};
  for (std::size_t b = 0; b < kBlocks; ++b) {
    for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
      const std::ptrdiff_t left = blocks[b].end[s] - positions[b * kHuffmanStreams + s].in;
      const std::size_t by_bytes = left < 8 ? 0 : static_cast<std::size_t>((left - 8) / kBytesPerRefill) + 1;
      const std::size_t by_symbols = (blocks[b].symbols[s] - done) / kSymbolsPerRefill;
      refills = by_bytes < refills ? by_bytes : refills;
      refills = by_symbols < refills ? by_symbols : refills;
    }
  }
  return refills;
}

// Decodes the common part of the streams without looking at bounds between SafeRefills; returns symbols done in each.
// A refill sets a sentinel above the 63 bits it takes, so that the zeros above it tell what was consumed.
template <std::size_t kBlocks>
std::size_t DecodeFast(const HuffmanStreams* blocks, Position* positions) {
  constexpr std::size_t kStreams = kBlocks * kHuffmanStreams;
  std::size_t done = 0;
  while (std::size_t refills = SafeRefills<kBlocks>(blocks, positions, done)) {
    const std::uint8_t* in[kStreams];
    std::uint64_t bits[kStreams];
    std::uint8_t* out[kStreams];
    for (std::size_t s = 0; s < kStreams; ++s) {
      in[s] = positions[s].in;
      bits[s] = (Load64(in[s]) | kSentinel) >> positions[s].shift;
      out[s] = blocks[s / kHuffmanStreams].out[s % kHuffmanStreams];
    }
    const std::uint16_t* const table0 = blocks[0].table;
    const std::uint16_t* const table1 = blocks[kBlocks - 1].table;
    for (;;) {
      for (std::size_t j = 0; j < kSymbolsPerRefill; ++j) {
        for (std::size_t s = 0; s < kStreams; ++s) {
          const std::uint16_t entry = (s < kHuffmanStreams ? table0 : table1)[bits[s] & kIndexMask];
          bits[s] >>= entry & 63;
          out[s][done + j] = static_cast<std::uint8_t>(entry >> 8);
        }
      }
      done += kSymbolsPerRefill;
      --refills;
      for (std::size_t s = 0; s < kStreams; ++s) {
        const auto consumed = static_cast<std::uint64_t>(__builtin_clzll(bits[s]));
        in[s] += consumed >> 3;
        if (refills == 0) {
          positions[s] = {in[s], consumed & 7};
        } else {
          bits[s] = (Load64(in[s]) | kSentinel) >> (consumed & 7);
        }
      }
      if (refills == 0) break;
    }
  }
  return done;
}

// Decodes the rest of one stream. False unless the stream ends within its last byte and only zero bits follow.
bool FinishStream(const std::uint16_t* table, const std::uint8_t* begin, const std::uint8_t* end, Position position,
                  std::uint8_t* out, std::size_t symbols) {
  const auto size = static_cast<std::uint64_t>(end - begin);
  std::uint64_t bit = static_cast<std::uint64_t>(position.in - begin) * 8 + position.shift;
  for (std::size_t i = 0; i < symbols;) {
    const std::uint64_t byte = bit >> 3;
    if (byte > size) return false;
    std::uint64_t bits = 0;  // Zeros stand behind the end.
    if (size - byte >= 8) {
      bits = Load64(begin + byte);
    } else {
      std::memcpy(&bits, begin + byte, static_cast<std::size_t>(size - byte));
    }
    bits >>= bit & 7;
    const std::size_t stop = symbols - i < kSymbolsPerRefill ? symbols : i + kSymbolsPerRefill;
    for (; i < stop; ++i) {
      const std::uint16_t entry = table[bits & kIndexMask];
      bits >>= entry & 63;
      bit += entry & 63;
      out[i] = static_cast<std::uint8_t>(entry >> 8);
    }
  }
  if (bit > 8 * size || 8 * size - bit >= 8) return false;
  return bit == 8 * size || end[-1] >> (bit & 7) == 0;
}

template <std::size_t kBlocks>
bool DecodeBlocks(const HuffmanStreams* blocks) {
  Position positions[kBlocks * kHuffmanStreams];
  for (std::size_t s = 0; s < kBlocks * kHuffmanStreams; ++s) {
    positions[s] = {blocks[s / kHuffmanStreams].begin[s % kHuffmanStreams], 0};
  }
  const std::size_t done = DecodeFast<kBlocks>(blocks, positions);
  for (std::size_t s = 0; s < kBlocks * kHuffmanStreams; ++s) {
    const HuffmanStreams& block = blocks[s / kHuffmanStreams];
    const std::size_t k = s % kHuffmanStreams;
    if (!FinishStream(block.table, block.begin[k], block.end[k], positions[s], block.out[k] + done,
                      block.symbols[k] - done)) {
      return false;
    }
  }
  return true;
}

bool Decode(const HuffmanStreams* blocks, std::size_t count) {
  return count == 2 ? DecodeBlocks<2>(blocks) : DecodeBlocks<1>(blocks);
}

}  // namespace
}  // namespace stepfs::codec
