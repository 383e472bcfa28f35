// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/dtype.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

namespace stepfs::codec {
namespace {

struct Row {
  std::string_view name;
  std::string_view safetensors;
  ElementType element;
  std::uint64_t item_bytes;
};

constexpr Row kRows[] = {
    {"float32", "F32", ElementType::kFloat32, 4},
    {"bfloat16", "BF16", ElementType::kBfloat16, 2},
    {"float16", "F16", ElementType::kFloat16, 2},
    {"float64", "F64", ElementType::kFloat64, 8},
    {"int64", "I64", ElementType::kInt64, 8},
    {"int32", "I32", ElementType::kInt32, 4},
    {"int16", "I16", ElementType::kInt16, 2},
    {"int8", "I8", ElementType::kInt8, 1},
    {"uint64", "U64", ElementType::kUint64, 8},
    {"uint32", "U32", ElementType::kUint32, 4},
    {"uint16", "U16", ElementType::kUint16, 2},
    {"uint8", "U8", ElementType::kUint8, 1},
    {"bool", "BOOL", ElementType::kBool, 1},
    {"complex64", "C64", ElementType::kComplex64, 8},
    {"complex128", "C128", ElementType::kComplex128, 16},
    {"float8_e4m3fn", "F8_E4M3", ElementType::kFloat8E4M3, 1},
    {"float8_e5m2", "F8_E5M2", ElementType::kFloat8E5M2, 1},
    {"float8_e4m3fnuz", "F8_E4M3FNUZ", ElementType::kFloat8E4M3, 1},
    {"float8_e5m2fnuz", "F8_E5M2FNUZ", ElementType::kFloat8E5M2, 1},
    {"float8_e8m0fnu", "F8_E8M0", ElementType::kUint8, 1},
};

Dtype FromRow(const Row& row) { return {row.element, std::string(row.name), row.item_bytes}; }

ElementType OpaqueOfWidth(std::uint64_t width) {
  return width == 2 ? ElementType::kOpaque16 : width == 4 ? ElementType::kOpaque32 : ElementType::kOpaque64;
}

}  // namespace

std::optional<Dtype> DtypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return FromRow(row);
  }
  return std::nullopt;
}

std::optional<Dtype> DtypeFromSafetensors(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.safetensors == name) return FromRow(row);
  }
  return std::nullopt;
}

std::optional<Dtype> DtypeFromNumpy(std::string_view descr) {
  const bool big = descr.starts_with('>');
  if (descr.starts_with('<') || descr.starts_with('|') || descr.starts_with('=') || big) descr.remove_prefix(1);
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"f4", "float32"}, {"f2", "float16"}, {"f8", "float64"},   {"i8", "int64"},       {"i4", "int32"},
      {"i2", "int16"},   {"i1", "int8"},    {"u8", "uint64"},    {"u4", "uint32"},      {"u2", "uint16"},
      {"u1", "uint8"},   {"b1", "bool"},    {"c8", "complex64"}, {"c16", "complex128"},
  };
  if (descr == "V2") return Dtype{ElementType::kOpaque16, "opaque16", 2};  // bfloat16, to numpy's own writer.
  for (const auto& [short_name, name] : kNames) {
    if (short_name != descr) continue;
    auto dtype = DtypeFromName(name);
    if (dtype && big && Width(dtype->element) > 1) dtype->element = OpaqueOfWidth(Width(dtype->element));
    return dtype;
  }
  return std::nullopt;
}

std::string SafetensorsName(std::string_view dtype) {
  for (const Row& row : kRows) {
    if (row.name == dtype) return std::string(row.safetensors);
  }
  std::string name(dtype);
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

std::optional<std::uint64_t> TensorBytes(const std::vector<std::uint64_t>& shape, std::uint64_t item_bytes) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
  std::uint64_t bytes = item_bytes;
  for (std::uint64_t dimension : shape) {
    if (bytes > kMax / dimension) return std::nullopt;
    bytes *= dimension;
  }
  return bytes;
}

Tensor MakeTensor(std::string name, const Dtype& dtype, std::vector<std::uint64_t> shape, std::uint64_t offset,
                  std::uint64_t nbytes) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.element = dtype.element;
  tensor.dtype = dtype.name;
  tensor.shape = std::move(shape);
  tensor.extents.push_back({offset, nbytes, {}});
  return tensor;
}

}  // namespace stepfs::codec
