// SPDX-License-Identifier: Apache-2.0
#include "codec/element.h"

#include <array>

namespace stepfs::codec {
namespace {

struct Entry {
  std::string_view name;
  std::size_t width;
};
constexpr std::array<Entry, kElementTypeCount> kEntries = {{
    {"bytes", 1},    {"uint8", 1},        {"int8", 1},        {"bool", 1},    {"int16", 2},    {"uint16", 2},
    {"int32", 4},    {"uint32", 4},       {"int64", 8},       {"uint64", 8},  {"float16", 2},  {"bfloat16", 2},
    {"float32", 4},  {"float64", 8},      {"float8_e4m3", 1}, {"float8_e5m2", 1}, {"packed4", 1},  {"opaque16", 2},
    {"opaque32", 4}, {"opaque64", 8},     {"complex64", 4},   {"complex128", 8},
}};

}  // namespace

std::size_t Width(ElementType element) { return kEntries[static_cast<std::size_t>(element)].width; }
std::string_view Name(ElementType element) { return kEntries[static_cast<std::size_t>(element)].name; }

std::optional<ElementType> ElementTypeFromNumber(std::uint8_t number) {
  if (number >= kElementTypeCount) return std::nullopt;
  return static_cast<ElementType>(number);
}

}  // namespace stepfs::codec
