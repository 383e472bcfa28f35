// SPDX-License-Identifier: Apache-2.0
//
// Delta: the difference of a target and its base, element by element, and back. Element widths are 1, 2, 4 and 8 bytes,
// elements are little-endian integers, pointers need no alignment. Kernels allocate nothing and cannot fail; what they
// require of their arguments is said here and checked by callers. Safe to call from any number of threads.
//
// Source: arXiv 2505.09810 stores incremental deltas between snapshots and does not name the operation; both usual ones
// are here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepfs::codec {

// Persisted in lmc chunks (docs/codec_lmc.md, "Header"): never renumbered.
enum class DeltaKind : std::uint8_t {
  kNone = 0,      // delta = target; the base is not looked at and may be null.
  kXor = 1,       // delta = target XOR base.
  kSubtract = 2,  // delta = target - base modulo 2^(8 * width).
};
inline constexpr std::size_t kDeltaKindCount = 3;
inline constexpr std::size_t kMaxWidth = 8;
// Widths are indexed by their logarithm: 1, 2, 4, 8 -> 0, 1, 2, 3.
inline constexpr std::size_t kWidthCount = 4;

// One table a CPU level; entries are indexed [kind][log2(width)].
struct DeltaKernels {
  // delta[0, n-1] = target - base, n = width * elements bytes. `delta` may be `target`, else they do not overlap.
  using ApplyFn = void (*)(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements,
                           std::uint8_t* delta);
  // The inverse. `target` may be `delta`.
  using UndoFn = void (*)(const std::uint8_t* delta, const std::uint8_t* base, std::size_t elements,
                          std::uint8_t* target);
  // Bit p is set when byte p of the deltas is not the same for all elements. Stops as soon as every byte has varied.
  // REQUIRES: elements > 0.
  using VaryingFn = std::uint8_t (*)(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements);

  ApplyFn apply[kDeltaKindCount][kWidthCount];
  UndoFn undo[kDeltaKindCount][kWidthCount];
  VaryingFn varying[kDeltaKindCount][kWidthCount];
};

extern const DeltaKernels kDeltaScalar;
extern const DeltaKernels kDeltaAvx2;  // Equals kDeltaScalar where the build has no AVX2.

// The kernels of the active CPU level.
const DeltaKernels& ActiveDeltaKernels();

}  // namespace stepfs::codec
