// SPDX-License-Identifier: Apache-2.0
//
// The default lossless coder (docs/codec_exponent.md). Whether and how far a weight moved between two checkpoints
// depends on its own magnitude, so each element's difference from the base is entropy-coded in the context of the
// base's exponent. The encoder chooses per chunk, by cost, between that, a sparse form for few changes, and coding the
// target alone (grouped bytes, each group entropy-coded or raw); with no base only the last is left.
// References::context is not looked at.
#pragma once

#include <cstdint>
#include <memory>

#include "codec/codec.h"

namespace stepfs::codec {

// Encoder and decoder; stateless, scratch memory is per thread and kept.
std::unique_ptr<ChunkCodec> NewExponentCodec();
// The same, valid for the life of the program.
const ChunkCodec& ExponentDecoder();

// About how many bits the codec would take for `target` with `base` (empty: without one), from a sample of at most 16
// Ki elements: what a planner compares to choose between a delta and no base. The same on every build. REQUIRES: base
// is empty or as long as target.
std::uint64_t EstimateExponentBits(ElementType element, Bytes target, Bytes base);

}  // namespace stepfs::codec
