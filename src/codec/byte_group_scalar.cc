// SPDX-License-Identifier: Apache-2.0
#include "codec/byte_group.h"
#include "codec/delta_scalar.h"

namespace stepfs::codec {
namespace {

template <DeltaKind kKind, typename T>
void Group(const std::uint8_t* target, const std::uint8_t* base, std::size_t elements, std::uint8_t* const* planes) {
  for (std::size_t i = 0; i < elements; ++i) {
    const T delta = LoadDelta<kKind, T>(target, base, i);
    for (std::size_t p = 0; p < sizeof(T); ++p) planes[p][i] = static_cast<std::uint8_t>(delta >> (8 * p));
  }
}

template <DeltaKind kKind, typename T>
void Ungroup(const std::uint8_t* const* planes, const std::uint8_t* base, std::size_t elements, std::uint8_t* target) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint64_t delta = 0;
    for (std::size_t p = 0; p < sizeof(T); ++p) delta |= std::uint64_t{planes[p][i]} << (8 * p);
    StoreElement<T>(UndoDelta<kKind, T>(static_cast<T>(delta), base, i), target, i);
  }
}

}  // namespace

#define STEPFS_WIDTHS(f, kind) \
  { f<kind, std::uint8_t>, f<kind, std::uint16_t>, f<kind, std::uint32_t>, f<kind, std::uint64_t> }
#define STEPFS_KINDS(f) \
  { STEPFS_WIDTHS(f, DeltaKind::kNone), STEPFS_WIDTHS(f, DeltaKind::kXor), STEPFS_WIDTHS(f, DeltaKind::kSubtract) }

constinit const ByteGroupKernels kByteGroupScalar = {STEPFS_KINDS(Group), STEPFS_KINDS(Ungroup)};

#undef STEPFS_KINDS
#undef STEPFS_WIDTHS

}  // namespace stepfs::codec
