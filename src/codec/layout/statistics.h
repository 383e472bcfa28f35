// SPDX-License-Identifier: Apache-2.0
//
// Element width and phase from the bytes alone, for what no parser knows. Numbers in memory are regular: at one place
// of each element (the sign and exponent of a float, the high bytes of a small integer) the bytes are far from random,
// elsewhere they nearly are. So the entropy of the bytes at each position modulo 8 has the period of the element, and
// jumps up where an element begins. Text, compressed and random bytes have the same entropy everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "codec/element.h"
#include "codec/layout/layout.h"

namespace stepfs::codec {

struct ElementGuess {
  ElementType element = ElementType::kBytes;  // kFloat32, kBfloat16 or kFloat64 where the exponent shows, else opaque.
  std::size_t phase = 0;                      // Bytes of the sample before the first whole element; < the width.

  bool operator==(const ElementGuess&) const = default;
};

// Nothing when the sample (512 bytes at least, a few KiB are better) shows no element wider than a byte.
std::optional<ElementGuess> GuessElement(Bytes sample);

// Unnamed one-dimensional tensors for the stretches of source[begin, end-1] that look like elements. Reads at most 8
// KiB of each 64 KiB, and at most 8 MiB in all. Failures of `source` come back.
Result<std::vector<Tensor>> GuessTensors(const ByteSource& source, std::uint64_t begin, std::uint64_t end);

}  // namespace stepfs::codec
