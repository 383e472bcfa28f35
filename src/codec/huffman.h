// SPDX-License-Identifier: Apache-2.0
//
// Canonical Huffman coding of a block of at most 64 KiB, codes of at most 11 bits, four streams a block. A coded block,
// its "body", is codebook | three u16 stream sizes | four streams; docs/codec_lmc.md has every bit of it. The caller
// keeps the body's size and the number of symbols. Encoding and decoding allocate nothing. Safe to call from any number
// of threads.
//
// Source: arXiv 2505.09810, "Huffman Encoding" (a codebook for each block of 64 KiB). Length limit and interleaving are
// ours, after Y. Collet's and F. Giesen's decoders: 11 bits let five symbols follow one 64-bit refill, four streams
// hide the latency of the table look-up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace stepfs::codec {

inline constexpr unsigned kMaxCodeBits = 11;
inline constexpr std::size_t kMaxHuffmanSymbols = 65536;  // In one block.
inline constexpr std::size_t kHuffmanStreams = 4;
// One count byte, then a nibble a symbol.
inline constexpr std::size_t kMaxCodebookBytes = 129;
// Bytes beyond a body's end that HuffmanEncode may overwrite.
inline constexpr std::size_t kHuffmanSlack = 8;

using SymbolCounts = std::array<std::uint32_t, 256>;
// Code bits of each symbol, 0 for symbols without a code.
using CodeLengths = std::array<std::uint8_t, 256>;

// How often each byte occurs in in[0, n-1].
void CountSymbols(const std::uint8_t* in, std::size_t n, SymbolCounts& counts);

// Lengths of a complete code for the symbols that occur, none above kMaxCodeBits. Optimal while the unlimited Huffman
// code keeps that limit, else close to it. Depends on nothing but the counts. REQUIRES: at least two symbols occur; the
// counts add up to at most kMaxHuffmanSymbols.
CodeLengths BuildCodeLengths(const SymbolCounts& counts);

// Writes the lengths and returns the size. REQUIRES: room for kMaxCodebookBytes; at least one length is not 0.
std::size_t WriteCodebook(const CodeLengths& lengths, std::uint8_t* out);
// Reads lengths from in[0, size-1] and returns how many bytes they took, or 0 if they are malformed, exceed
// kMaxCodeBits or are not those of a complete code of two symbols or more.
std::size_t ReadCodebook(const std::uint8_t* in, std::size_t size, CodeLengths& lengths);

// An upper bound of the body of a block with those counts in that code, tight but for a few bytes.
std::size_t HuffmanBodyBound(const SymbolCounts& counts, const CodeLengths& lengths);

// Writes the body of in[0, n-1] and returns its size. REQUIRES: every byte has a code in `lengths`, a complete code;
// 1 <= n <= kMaxHuffmanSymbols; room for HuffmanBodyBound + kHuffmanSlack bytes; no overlap.
std::size_t HuffmanEncode(const std::uint8_t* in, std::size_t n, const CodeLengths& lengths, std::uint8_t* out);

// A body to decode and where its symbols go: out[0, symbols-1].
struct HuffmanJob {
  const std::uint8_t* body;
  std::size_t body_bytes;
  std::uint8_t* out;
  std::size_t symbols;
};

// Decodes all jobs; two at a time are faster than one by one. kCorruption when a body is malformed (outputs then hold
// anything): bad codebook, stream sizes beyond the body, a stream that does not end where its last symbol ends.
// Never reads or writes outside the jobs' ranges.
Status HuffmanDecode(std::span<const HuffmanJob> jobs);

// --- Kernels, one table a CPU level.

// A decoding table: index = the next kMaxCodeBits bits, first bit lowest; entry = symbol << 8 | code bits.
using DecodeTable = std::array<std::uint16_t, std::size_t{1} << kMaxCodeBits>;
// An encoding table: entry = (code, its first bit lowest) << (64 - bits) | bits.
using EncodeTable = std::array<std::uint64_t, 256>;

// One block to decode. It is coded back to front: symbol `symbols - 1 - j` is the next of stream j % 4.
struct HuffmanBlock {
  DecodeTable table;
  const std::uint8_t* begin[kHuffmanStreams];
  const std::uint8_t* end[kHuffmanStreams];
  std::uint8_t* out;
  std::size_t symbols;
};

struct HuffmanKernels {
  void (*count)(const std::uint8_t* in, std::size_t n, std::uint32_t* counts);
  // Writes the stream of *last, last[-4], last[-8], ..., `n` symbols, and returns its end. May overwrite kHuffmanSlack
  // bytes behind it.
  std::uint8_t* (*encode)(const std::uint8_t* last, std::size_t n, const std::uint64_t* table, std::uint8_t* out);
  // Decodes blocks[0, count-1], count = 1 or 2. False when a stream does not end where its last symbol ends.
  bool (*decode)(const HuffmanBlock* blocks, std::size_t count);
};

extern const HuffmanKernels kHuffmanScalar;
extern const HuffmanKernels kHuffmanAvx2;  // Equals kHuffmanScalar where the build has no AVX2.

// The kernels of the active CPU level.
const HuffmanKernels& ActiveHuffmanKernels();

}  // namespace stepfs::codec
