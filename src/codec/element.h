// SPDX-License-Identifier: Apache-2.0
//
// ElementType: what the bytes of a tensor are. Persisted in frames (docs/format.md, "Element types"): never renumbered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepfs::codec {

enum class ElementType : std::uint8_t {
  kBytes = 0,  // Not a tensor: text, pickles, headers.
  kUint8 = 1,
  kInt8 = 2,
  kBool = 3,
  kInt16 = 4,
  kUint16 = 5,
  kInt32 = 6,
  kUint32 = 7,
  kInt64 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kBfloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kFloat8E4M3 = 14,
  kFloat8E5M2 = 15,
  kPacked4 = 16,      // Two 4-bit values a byte, or a block-quantised type: bytes without a wider grain.
  kOpaque16 = 17,     // Elements of that many bits whose meaning is not known (found by statistics).
  kOpaque32 = 18,
  kOpaque64 = 19,
  kComplex64 = 20,    // Two float32.
  kComplex128 = 21,   // Two float64.
};
inline constexpr std::uint8_t kElementTypeCount = 22;

// Bytes of the unit that byte grouping and deltas work on: 1, 2, 4 or 8 (complex: that of one part).
std::size_t Width(ElementType element);
// "bfloat16", "float32", ...; for messages and --json.
std::string_view Name(ElementType element);
// Nothing for a number that no known type has.
std::optional<ElementType> ElementTypeFromNumber(std::uint8_t number);

}  // namespace stepfs::codec
