// SPDX-License-Identifier: Apache-2.0
//
// GGUF versions 2 and 3 (github.com/ggml-org/ggml, docs/gguf.md), little-endian: counts, key-value pairs, one record a
// tensor, padding, data. Block-quantised types are bytes without a wider grain.
#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxDepth = 4;
constexpr std::uint32_t kValueUint32 = 4;
constexpr std::uint32_t kValueString = 8;
constexpr std::uint32_t kValueArray = 9;

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  ElementType element;
  std::uint64_t block_elements;
  std::uint64_t block_bytes;
};

constexpr ElementType kQuantised = ElementType::kPacked4;
constexpr GgmlType kTypes[] = {
    {0, "float32", ElementType::kFloat32, 1, 4},
    {1, "float16", ElementType::kFloat16, 1, 2},
    {2, "q4_0", kQuantised, 32, 18},
    {3, "q4_1", kQuantised, 32, 20},
    {6, "q5_0", kQuantised, 32, 22},
    {7, "q5_1", kQuantised, 32, 24},
    {8, "q8_0", kQuantised, 32, 34},
    {9, "q8_1", kQuantised, 32, 40},
    {10, "q2_k", kQuantised, 256, 84},
    {11, "q3_k", kQuantised, 256, 110},
    {12, "q4_k", kQuantised, 256, 144},
    {13, "q5_k", kQuantised, 256, 176},
    {14, "q6_k", kQuantised, 256, 210},
    {15, "q8_k", kQuantised, 256, 292},
    {16, "iq2_xxs", kQuantised, 256, 66},
    {17, "iq2_xs", kQuantised, 256, 74},
    {18, "iq3_xxs", kQuantised, 256, 98},
    {19, "iq1_s", kQuantised, 256, 50},
    {20, "iq4_nl", kQuantised, 32, 18},
    {21, "iq3_s", kQuantised, 256, 110},
    {22, "iq2_s", kQuantised, 256, 82},
    {23, "iq4_xs", kQuantised, 256, 136},
    {24, "int8", ElementType::kInt8, 1, 1},
    {25, "int16", ElementType::kInt16, 1, 2},
    {26, "int32", ElementType::kInt32, 1, 4},
    {27, "int64", ElementType::kInt64, 1, 8},
    {28, "float64", ElementType::kFloat64, 1, 8},
    {29, "iq1_m", kQuantised, 256, 56},
    {30, "bfloat16", ElementType::kBfloat16, 1, 2},
    {34, "tq1_0", kQuantised, 256, 54},
    {35, "tq2_0", kQuantised, 256, 66},
    {39, "mxfp4", kQuantised, 32, 17},
};

const GgmlType* FindType(std::uint32_t number) {
  for (const GgmlType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

// Bytes of a key's value type that has a fixed size; 0 for others.
std::uint64_t ValueBytes(std::uint32_t type) {
  constexpr std::uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

void SkipString(SourceWindow& window) { window.Skip(window.Fixed<std::uint64_t>()); }

// Arrays of arrays nest at most kMaxDepth deep.
void SkipValues(SourceWindow& window, std::uint32_t type, std::uint64_t count, std::size_t depth) {
  if (const std::uint64_t bytes = ValueBytes(type); bytes != 0) {
    if (count > window.remaining() / bytes) return window.Fail();
    return window.Skip(count * bytes);
  }
  if (depth > kMaxDepth || (type != kValueString && type != kValueArray)) return window.Fail();
  for (std::uint64_t i = 0; i < count && window.ok(); ++i) {
    if (type == kValueString) {
      SkipString(window);
    } else {
      const auto inner = window.Fixed<std::uint32_t>();
      SkipValues(window, inner, window.Fixed<std::uint64_t>(), depth + 1);
    }
  }
}

std::string ReadName(SourceWindow& window) {
  const auto length = window.Fixed<std::uint64_t>();
  if (length > kMaxNameBytes) window.Fail();
  return std::string(AsText(window.Take(length)));
}

// Reads all pairs and returns the data's alignment.
std::uint64_t ReadPairs(SourceWindow& window, std::uint64_t count) {
  std::uint64_t alignment = 32;
  for (std::uint64_t i = 0; i < count && window.ok(); ++i) {
    const std::string key = ReadName(window);
    const auto type = window.Fixed<std::uint32_t>();
    if (key == "general.alignment" && type == kValueUint32) {
      alignment = window.Fixed<std::uint32_t>();
    } else {
      SkipValues(window, type, 1, 0);
    }
  }
  return alignment;
}

// One tensor, its offset counted from the data's begin; nothing for a type we do not know.
std::optional<Tensor> ReadTensor(SourceWindow& window) {
  std::string name = ReadName(window);
  const auto rank = window.Fixed<std::uint32_t>();
  if (rank > 8) window.Fail();
  std::vector<std::uint64_t> shape;
  for (std::uint32_t i = 0; i < rank && window.ok(); ++i) {
    shape.insert(shape.begin(), window.Fixed<std::uint64_t>());  // The file has the fastest dimension first.
  }
  const GgmlType* type = FindType(window.Fixed<std::uint32_t>());
  const auto offset = window.Fixed<std::uint64_t>();
  if (!window.ok() || type == nullptr) return std::nullopt;
  const auto elements = TensorBytes(shape, 1);
  if (!elements || *elements % type->block_elements != 0) return std::nullopt;
  const auto nbytes = TensorBytes({*elements / type->block_elements}, type->block_bytes);
  if (!nbytes) return std::nullopt;
  return MakeTensor(std::move(name), {type->element, std::string(type->name), 1}, std::move(shape), offset, *nbytes);
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "gguf"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    const bool magic = window.Fixed<std::uint32_t>() == kMagic;
    const auto version = window.Fixed<std::uint32_t>();
    if (!magic || version < 2 || version > 3) return NothingFrom<Layout>(window);
    const auto tensor_count = window.Fixed<std::uint64_t>();
    const auto pair_count = window.Fixed<std::uint64_t>();
    if (tensor_count > kMaxCount || pair_count > kMaxCount) return std::optional<Layout>();
    const std::uint64_t alignment = ReadPairs(window, pair_count);
    Layout layout;
    layout.format = format();
    for (std::uint64_t i = 0; i < tensor_count && window.ok(); ++i) {
      if (auto tensor = ReadTensor(window)) layout.tensors.push_back(std::move(*tensor));
    }
    if (!window.ok() || alignment == 0) return NothingFrom<Layout>(window);
    Relocate({}, (window.position() + alignment - 1) / alignment * alignment, layout);
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& GgufParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
