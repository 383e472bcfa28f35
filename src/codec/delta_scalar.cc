// SPDX-License-Identifier: Apache-2.0
#include "codec/delta_scalar.h"

#include <algorithm>

namespace stepfs::codec {
namespace {

template <DeltaKind kKind, typename T>
void Apply(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements, std::uint8_t* delta) {
  for (std::size_t i = 0; i < elements; ++i) StoreElement<T>(LoadDelta<kKind, T>(target, base, i), delta, i);
}

template <DeltaKind kKind, typename T>
void Undo(const std::uint8_t* delta, const std::uint8_t* base, std::size_t elements, std::uint8_t* target) {
  for (std::size_t i = 0; i < elements; ++i) {
    StoreElement<T>(UndoDelta<kKind, T>(LoadElement<T>(delta, i), base, i), target, i);
  }
}

template <typename T>
std::uint8_t NonZeroBytes(T value) {
  std::uint8_t mask = 0;
  for (std::size_t p = 0; p < sizeof(T); ++p) {
    if (static_cast<std::uint8_t>(value >> (8 * p)) != 0) mask = static_cast<std::uint8_t>(mask | (1u << p));
  }
  return mask;
}

template <DeltaKind kKind, typename T>
std::uint8_t Varying(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements) {
  constexpr std::uint8_t kAll = static_cast<std::uint8_t>((1u << sizeof(T)) - 1);
  constexpr std::size_t kStep = 64;  // Elements between two looks at the sum.
  const T first = LoadDelta<kKind, T>(target, base, 0);
  T seen = 0;
  for (std::size_t i = 0; i < elements;) {
    const std::size_t end = std::min(elements, i + kStep);
    for (; i < end; ++i) seen = static_cast<T>(seen | (LoadDelta<kKind, T>(target, base, i) ^ first));
    if (NonZeroBytes(seen) == kAll) return kAll;
  }
  return NonZeroBytes(seen);
}

}  // namespace

#define STEPFS_WIDTHS(f, kind) \
  { f<kind, std::uint8_t>, f<kind, std::uint16_t>, f<kind, std::uint32_t>, f<kind, std::uint64_t> }
#define STEPFS_KINDS(f) \
  { STEPFS_WIDTHS(f, DeltaKind::kNone), STEPFS_WIDTHS(f, DeltaKind::kXor), STEPFS_WIDTHS(f, DeltaKind::kSubtract) }

constinit const DeltaKernels kDeltaScalar = {STEPFS_KINDS(Apply), STEPFS_KINDS(Undo), STEPFS_KINDS(Varying)};

#undef STEPFS_KINDS
#undef STEPFS_WIDTHS

}  // namespace stepfs::codec
