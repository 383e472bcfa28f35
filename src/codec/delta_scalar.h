// SPDX-License-Identifier: Apache-2.0
//
// One element at a time, for the *_scalar.cc files.
#pragma once

#include <cstring>

#include "codec/delta.h"

namespace stepfs::codec {

template <typename T>
T LoadElement(const std::uint8_t* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void StoreElement(T value, std::uint8_t* to, std::size_t index) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <DeltaKind kKind, typename T>
T LoadDelta(const std::uint8_t* target, const std::uint8_t* base, std::size_t index) {
  const T value = LoadElement<T>(target, index);
  if constexpr (kKind == DeltaKind::kNone) return value;
  if constexpr (kKind == DeltaKind::kXor) return static_cast<T>(value ^ LoadElement<T>(base, index));
  if constexpr (kKind == DeltaKind::kSubtract) return static_cast<T>(value - LoadElement<T>(base, index));
}

template <DeltaKind kKind, typename T>
T UndoDelta(T delta, const std::uint8_t* base, std::size_t index) {
  if constexpr (kKind == DeltaKind::kNone) return delta;
  if constexpr (kKind == DeltaKind::kXor) return static_cast<T>(delta ^ LoadElement<T>(base, index));
  if constexpr (kKind == DeltaKind::kSubtract) return static_cast<T>(delta + LoadElement<T>(base, index));
}

}  // namespace stepfs::codec
