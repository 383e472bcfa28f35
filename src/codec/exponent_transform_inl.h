// SPDX-License-Identifier: Apache-2.0
//
// One element at a time: what the kernels of every level share. `U` is the unsigned integer of the element's width.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codec/exponent_transform.h"

namespace stepfs::codec::transform {

template <typename U>
inline constexpr unsigned kBits = 8 * sizeof(U);
template <typename U>
inline constexpr U kTop = static_cast<U>(U{1} << (kBits<U> - 1));

template <typename U>
U Load(const std::byte* from, std::size_t index) {
  U value;
  std::memcpy(&value, from + index * sizeof(U), sizeof(U));
  return value;
}
template <typename U>
void Store(U value, std::byte* to, std::size_t index) {
  std::memcpy(to + index * sizeof(U), &value, sizeof(U));
}

// All ones for a set top bit.
template <typename U>
U SignMask(U value) {
  return static_cast<U>(U{0} - static_cast<U>(value >> (kBits<U> - 1)));
}

template <typename U>
U Ordered(U value) {
  return static_cast<U>(value ^ (SignMask(value) | kTop<U>));
}
template <typename U>
U FromOrdered(U ordered) {
  return static_cast<U>(ordered ^ (SignMask(static_cast<U>(~ordered)) | kTop<U>));
}

// A double's eleven exponent bits are cut to the 256 values around 1.
inline constexpr unsigned kFirstDoubleExponent = 1023 - 128;

template <typename U, ElementKind kKind>
std::uint8_t ContextOf(ElementForm form, U base) {
  if constexpr (kKind == ElementKind::kFloat) {
    const auto exponent = static_cast<unsigned>(static_cast<U>(base << 1) >> (form.mantissa_bits + 1));
    if constexpr (sizeof(U) < 8) return static_cast<std::uint8_t>(exponent);
    return static_cast<std::uint8_t>(std::min(std::max(exponent, kFirstDoubleExponent) - kFirstDoubleExponent, 255u));
  } else if constexpr (kKind == ElementKind::kSigned) {
    const U sign = SignMask(base);
    return static_cast<std::uint8_t>(std::bit_width(static_cast<U>((base ^ sign) - sign)));
  } else if constexpr (kKind == ElementKind::kUnsigned) {
    return static_cast<std::uint8_t>(std::bit_width(base));
  } else {
    return static_cast<std::uint8_t>(base >> 4);
  }
}

template <typename U, ElementKind kKind>
U Difference(U target, U base) {
  if constexpr (kKind != ElementKind::kFloat) return static_cast<U>(target - base);
  const U sign = SignMask(base);
  return static_cast<U>((static_cast<U>(Ordered(target) - Ordered(base)) ^ sign) - sign);
}
template <typename U, ElementKind kKind>
U Undo(U difference, U base) {
  if constexpr (kKind != ElementKind::kFloat) return static_cast<U>(base + difference);
  const U sign = SignMask(base);
  return FromOrdered(static_cast<U>(Ordered(base) + static_cast<U>((difference ^ sign) - sign)));
}

template <typename U>
U Magnitude(U difference) {
  const U sign = SignMask(difference);
  return static_cast<U>((difference ^ sign) - sign);
}
template <typename U>
unsigned RawBits(U magnitude, unsigned keep) {
  const auto length = static_cast<unsigned>(std::bit_width(magnitude));
  return length > keep + 1 ? length - keep - 1 : 0;
}
template <typename U>
std::uint8_t SymbolOf(U difference, unsigned keep) {
  const U magnitude = Magnitude(difference);
  const unsigned raw = RawBits(magnitude, keep);
  const unsigned bucket = (raw << keep) + static_cast<unsigned>(magnitude >> raw);
  return static_cast<std::uint8_t>(2 * bucket - (difference >> (kBits<U> - 1)));
}

// Calls function.template operator()<kind>() with the kind as a constant.
template <typename U, typename Function>
void WithKind(ElementKind kind, Function function) {
  if constexpr (sizeof(U) > 1) {
    if (kind == ElementKind::kSigned) return function.template operator()<ElementKind::kSigned>();
    if (kind == ElementKind::kUnsigned) return function.template operator()<ElementKind::kUnsigned>();
  } else {
    if (kind == ElementKind::kByte) return function.template operator()<ElementKind::kByte>();
  }
  return function.template operator()<ElementKind::kFloat>();
}

}  // namespace stepfs::codec::transform
