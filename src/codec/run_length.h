// SPDX-License-Identifier: Apache-2.0
//
// Run-length coding of a block in which one byte, the run byte, is very common. The block becomes two byte strings: the
// literals (every byte that is not the run byte, in order) and the tokens, which say how many run bytes stand before
// each literal. Both are then Huffman-coded by the caller. Token t:
//     t < 248    t run bytes, then the next literal
//     t >= 248   248 << (t - 248) run bytes, no literal
// Run bytes behind the last literal have no token. Kernels allocate nothing. Safe to call from any number of threads.
//
// Source: arXiv 2505.09810, "Run-Length Encoding"; the grammar is ours (docs/codec_lmc.md, "Run grammar"). For bytes
// that come independently of each other, gaps are geometrically distributed, so that coding them costs no more than the
// order-0 entropy, where plain Huffman cannot go below one bit a byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepfs::codec {

inline constexpr unsigned kFirstLongRun = 248;

struct RunCounts {
  std::size_t tokens;
  std::size_t literals;
};

struct RunLengthKernels {
  // How often `value` occurs in in[0, n-1].
  std::size_t (*count)(const std::uint8_t* in, std::size_t n, std::uint8_t value);
  // Splits in[0, n-1]. REQUIRES: room for n bytes each at `tokens` and `literals`.
  RunCounts (*split)(const std::uint8_t* in, std::size_t n, std::uint8_t run_byte, std::uint8_t* tokens,
                     std::uint8_t* literals);
};

extern const RunLengthKernels kRunLengthScalar;
extern const RunLengthKernels kRunLengthAvx2;  // Equals kRunLengthScalar where the build has no AVX2.

// The kernels of the active CPU level.
const RunLengthKernels& ActiveRunLengthKernels();

// Rebuilds out[0, n-1]. False when the tokens do not use exactly `counts.literals` literals or reach beyond n; `out`
// then holds anything. Never reads or writes outside its arguments. At most n + counts.tokens steps.
bool MergeRuns(const std::uint8_t* tokens, const std::uint8_t* literals, RunCounts counts, std::uint8_t run_byte,
               std::uint8_t* out, std::size_t n);

}  // namespace stepfs::codec
