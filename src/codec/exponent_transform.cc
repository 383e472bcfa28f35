// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent_transform.h"

#include <algorithm>
#include <bit>

#include "codec/cpu.h"

namespace stepfs::codec {

ElementForm FormOf(ElementType element) {
  constexpr std::uint8_t kMaxKeep[4] = {6, 3, 2, 1};
  const auto width = static_cast<std::uint8_t>(Width(element));
  const std::uint8_t keep = kMaxKeep[std::countr_zero(width)];
  switch (element) {
    case ElementType::kFloat16:
      return {ElementKind::kFloat, width, 10, keep};
    case ElementType::kBfloat16:
    case ElementType::kOpaque16:
      return {ElementKind::kFloat, width, 7, keep};
    case ElementType::kFloat32:
    case ElementType::kComplex64:
    case ElementType::kOpaque32:
      return {ElementKind::kFloat, width, 23, keep};
    case ElementType::kFloat64:
    case ElementType::kComplex128:
    case ElementType::kOpaque64:
      return {ElementKind::kFloat, width, 52, keep};
    case ElementType::kFloat8E4M3:
      return {ElementKind::kFloat, width, 3, keep};
    case ElementType::kFloat8E5M2:
      return {ElementKind::kFloat, width, 2, keep};
    case ElementType::kInt16:
    case ElementType::kInt32:
    case ElementType::kInt64:
      return {ElementKind::kSigned, width, 0, keep};
    case ElementType::kUint16:
    case ElementType::kUint32:
    case ElementType::kUint64:
      return {ElementKind::kUnsigned, width, 0, keep};
    case ElementType::kBytes:
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kBool:
    case ElementType::kPacked4:
      break;
  }
  return {ElementKind::kByte, width, 0, keep};
}

ContextMap ContextMap::From(std::span<const std::uint8_t> first_contexts) {
  ContextMap map;
  map.runs = first_contexts.size();
  std::copy(first_contexts.begin(), first_contexts.end(), map.first.begin());
  std::size_t run = 0;
  for (std::size_t context = 0; context < kContexts; ++context) {
    while (run + 1 < map.runs && map.first[run + 1] <= context) ++run;
    map.run_of[context] = static_cast<std::uint8_t>(run);
  }
  return map;
}

RunMasksFn ActiveRunMasks() { return SelectKernels(kRunMasksScalar, kRunMasksAvx2); }

const TransformKernels& ActiveTransformKernels(std::size_t width) {
  const auto index = static_cast<std::size_t>(std::countr_zero(width));
  return SelectKernels(kTransformScalar[index], *kTransformAvx2[index]);
}

}  // namespace stepfs::codec
