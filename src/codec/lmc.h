// SPDX-License-Identifier: Apache-2.0
//
// lmc: delta against the base, byte grouping, run-length coding and Huffman coding with a codebook for each block of a
// byte plane. The format is docs/codec_lmc.md. A chunk records its switches, so that one decoder reads all of them.
//
// Source: arXiv 2505.09810, "Lossless Compression for LLM Tensor Incremental Snapshots" (LMC).
#pragma once

#include <memory>

#include "codec/codec.h"

namespace stepfs::codec {

// The switches exist for comparison; the defaults are what pays.
struct LmcOptions {
  bool subtract = false;            // Modular difference of elements instead of XOR.
  bool group = true;                // Byte grouping; else elements stay together.
  bool run_length = true;           // Run-length coding where a block has a very common byte.
  std::size_t block_bytes = 65536;  // Of one plane. Rounded down to a power of two within [256, 65536].
};

// An encoder (which decodes as well). Without a base it codes the planes of the target itself. Keeps about
// (width + 2) blocks of scratch memory a thread.
std::unique_ptr<ChunkCodec> NewLmcCodec(const LmcOptions& options);

// Decodes chunks of any switches; encodes with the default ones. Valid for the life of the program.
const ChunkCodec& LmcDecoder();

}  // namespace stepfs::codec
