// SPDX-License-Identifier: Apache-2.0
//
// Interleaved range asymmetric numeral systems (rANS) with static tables chosen per symbol by a context: what
// entropy-codes the bytes of the exponent coder. Symbols are bytes, probabilities are frequencies out of 2^table_log.
// A stream is 1, 4 or 32 states ("lanes") that take turns and share one sequence of 16-bit words, so that 32 lanes
// decode as four vectors of eight. Format: docs/codec_exponent.md, "Entropy-coded bytes".
//
// Sources: J. Duda, arXiv 1311.2540; F. Giesen, "Interleaved entropy coders", arXiv 1402.3392.
//
// Kernels allocate nothing; the scalar ones define the bytes, the others give the same. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace stepfs::codec {

inline constexpr unsigned kAnsMinTableLog = 9;
inline constexpr unsigned kAnsMaxTableLog = 12;
inline constexpr std::size_t kAnsMaxLanes = 32;
inline constexpr std::size_t kAnsSymbols = 256;
// States stay in [2^15, 2^31); 16 bits move at a time.
inline constexpr std::uint32_t kAnsStateLow = 1u << 15;
// Bytes that the encoder may overwrite below the words that it returns.
inline constexpr std::size_t kAnsEncodeSlack = 64;

// Frequencies of one context, summing to 2^table_log.
using AnsFrequencies = std::array<std::uint16_t, kAnsSymbols>;

struct AnsEncodeEntry {
  std::uint32_t reciprocal;  // x / frequency == (x * reciprocal) >> 32 >> shift for every state x.
  std::uint32_t packed;      // frequency (13 bits), bias << 13 (13 bits), shift << 26.
};

// One for each slot of [0, 2^table_log): symbol, (frequency - 1) << 8, (slot - first slot of the symbol) << 20.
using AnsDecodeEntry = std::uint32_t;

// Entries of absent symbols are zero; they must not be encoded.
void BuildAnsEncodeTable(const AnsFrequencies& frequencies, unsigned table_log,
                         std::span<AnsEncodeEntry, kAnsSymbols> table);
// REQUIRES: table.size() == 1 << table_log; the frequencies sum to that.
void BuildAnsDecodeTable(const AnsFrequencies& frequencies, unsigned table_log, std::span<AnsDecodeEntry> table);

struct AnsEncodeArgs {
  const AnsEncodeEntry* table;  // kAnsSymbols entries a context.
  unsigned table_log;
  const std::uint8_t* contexts;  // One for each symbol, or null: context 0 throughout.
  const std::uint8_t* symbols;
  std::size_t count;
  std::size_t lanes;
};

struct AnsDecodeArgs {
  const AnsDecodeEntry* table;  // 1 << table_log entries a context.
  unsigned table_log;
  const std::uint8_t* contexts;  // As above; each below the number of contexts in `table`.
  std::uint8_t* symbols;         // Output.
  std::size_t count;             // A multiple of `lanes`, except in the last call for a stream.
  std::size_t lanes;
};

struct AnsKernels {
  // Encodes from the last symbol to the first, starting from `states` and leaving in it what the decoder starts with.
  // Writes words in front of `end`, two bytes a symbol at most, and returns the first of them.
  std::uint8_t* (*encode)(const AnsEncodeArgs& args, std::uint32_t* states, std::uint8_t* end);
  // Reads words from `*in`, never at or behind `in_end`, and moves `*in` on. False when the words do not suffice.
  bool (*decode)(const AnsDecodeArgs& args, std::uint32_t* states, const std::uint8_t** in, const std::uint8_t* in_end);
};

extern const AnsKernels kAnsScalar;
extern const AnsKernels kAnsAvx2;  // Equals kAnsScalar where the build has no AVX2.

// The kernels of the active CPU level.
const AnsKernels& ActiveAnsKernels();

// A whole stream: lanes * 4 bytes of states, then words. Writes it so that it ends at `end`; needs
// 2 * count + 4 * lanes + kAnsEncodeSlack bytes in front of it. Returns its first byte.
std::uint8_t* AnsEncodeStream(const AnsEncodeArgs& args, std::uint8_t* end);

// Decodes a stream in pieces.
class AnsStreamDecoder {
 public:
  // False when the stream is too short or a state is out of range.
  bool Start(std::span<const std::uint8_t> stream, std::size_t lanes);
  // `args.lanes` is ignored. False when words are missing.
  bool Decode(AnsDecodeArgs args);
  // True when the stream was used up and every lane has come back to where the encoder began.
  bool AtEnd() const;

 private:
  std::uint32_t states_[kAnsMaxLanes];
  std::size_t lanes_ = 0;
  const std::uint8_t* in_ = nullptr;
  const std::uint8_t* end_ = nullptr;
};

}  // namespace stepfs::codec
