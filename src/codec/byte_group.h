// SPDX-License-Identifier: Apache-2.0
//
// Byte grouping: byte p of every element goes to plane p, so that bytes of like meaning (exponents, high mantissas, low
// mantissas) lie together. Fused with the delta: elements are read once and differences go straight to the planes.
// Kernels allocate nothing and cannot fail; pointers need no alignment. Safe to call from any number of threads.
//
// Source: arXiv 2505.09810, "Byte-Grouping".
#pragma once

#include "codec/delta.h"

namespace stepfs::codec {

// One table a CPU level; entries are indexed [kind][log2(width)].
struct ByteGroupKernels {
  // planes[p][0, elements-1] = byte p of the deltas, for p in [0, width). No plane overlaps another or the inputs.
  using GroupFn = void (*)(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements,
                           std::uint8_t* const* planes);
  // The inverse: target[0, width * elements - 1] from the planes and the base.
  using UngroupFn = void (*)(const std::uint8_t* const* planes, const std::uint8_t* base, std::size_t elements,
                             std::uint8_t* target);

  GroupFn group[kDeltaKindCount][kWidthCount];
  UngroupFn ungroup[kDeltaKindCount][kWidthCount];
};

extern const ByteGroupKernels kByteGroupScalar;
extern const ByteGroupKernels kByteGroupAvx2;  // Equals kByteGroupScalar where the build has no AVX2.

// The kernels of the active CPU level.
const ByteGroupKernels& ActiveByteGroupKernels();

}  // namespace stepfs::codec
