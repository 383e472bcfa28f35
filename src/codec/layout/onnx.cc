// SPDX-License-Identifier: Apache-2.0
//
// ONNX models (protobuf, onnx.proto): the initializers whose bytes stand in the file itself. Those kept in a file
// beside it are found there by statistics.
#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;
constexpr std::uint64_t kMaxNameBytes = 1024;

// Field numbers of ModelProto, GraphProto and TensorProto.
constexpr std::uint64_t kModelGraph = 7;
constexpr std::uint64_t kGraphInitializer = 5;
constexpr std::uint64_t kTensorDims = 1;
constexpr std::uint64_t kTensorType = 2;
constexpr std::uint64_t kTensorName = 8;
constexpr std::uint64_t kTensorRaw = 9;

enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string_view DtypeName(std::uint64_t data_type) {
  constexpr std::string_view kNames[] = {
      "",          "float32",    "uint8",    "int8",          "uint16",          "int16",       "int32",
      "int64",     "",           "bool",     "float16",       "float64",         "uint32",      "uint64",
      "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"};
  return data_type < std::size(kNames) ? kNames[data_type] : std::string_view();
}

std::uint64_t Varint(SourceWindow& window) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint64_t b = window.Fixed<std::uint8_t>();
    value |= (b & 0x7f) << shift;
    if (b < 0x80) return value;
  }
  window.Fail();
  return 0;
}

// One field of a message: for kBytes, [window.position(), end) is its content.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t wire_type = 0;
  std::uint64_t value = 0;
  std::uint64_t end = 0;
};

Field ReadField(SourceWindow& window) {
  Field field;
  const std::uint64_t key = Varint(window);
  field.number = key >> 3;
  field.wire_type = key & 7;
  field.end = window.position();
  switch (field.wire_type) {
    case kVarint:
      field.value = Varint(window);
      break;
    case kFixed64:
      window.Skip(8);
      break;
    case kFixed32:
      window.Skip(4);
      break;
    case kBytes:
      field.value = Varint(window);
      if (field.value > window.remaining()) window.Fail();
      break;
    default:
      window.Fail();
      break;
  }
  if (field.number == 0) window.Fail();
  field.end = window.position() + (field.wire_type == kBytes && window.ok() ? field.value : 0);
  return field;
}

// Reads a TensorProto that ends at `end`.
std::optional<Tensor> ReadTensor(SourceWindow& window, std::uint64_t end) {
  std::vector<std::uint64_t> shape;
  std::string name;
  std::uint64_t data_type = 0;
  std::uint64_t raw_offset = 0;
  std::uint64_t raw_bytes = 0;
  while (window.ok() && window.position() < end) {
    const Field field = ReadField(window);
    if (field.number == kTensorDims && field.wire_type == kVarint && shape.size() < kMaxRank) {
      shape.push_back(field.value);
    } else if (field.number == kTensorDims && field.wire_type == kBytes) {
      while (window.ok() && window.position() < field.end && shape.size() < kMaxRank) shape.push_back(Varint(window));
    } else if (field.number == kTensorType) {
      data_type = field.value;
    } else if (field.number == kTensorName && field.wire_type == kBytes && field.value <= kMaxNameBytes) {
      name = AsText(window.Take(field.value));
    } else if (field.number == kTensorRaw && field.wire_type == kBytes) {
      raw_offset = window.position();
      raw_bytes = field.value;
    }
    if (window.ok() && field.end > end) window.Fail();
    window.Seek(field.end);
  }
  const auto dtype = DtypeFromName(DtypeName(data_type));
  if (!window.ok() || !dtype || raw_bytes == 0 || TensorBytes(shape, dtype->item_bytes) != raw_bytes) {
    return std::nullopt;
  }
  return MakeTensor(std::move(name), *dtype, std::move(shape), raw_offset, raw_bytes);
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "onnx"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    // There is no magic number: a model begins with its ir_version and is protobuf to its last byte.
    if (window.Fixed<std::uint8_t>() != 0x08) return NothingFrom<Layout>(window);
    window.Seek(0);
    Layout layout;
    layout.format = format();
    bool graph = false;
    while (window.ok() && window.remaining() > 0) {
      const Field field = ReadField(window);
      if (field.number == kModelGraph && field.wire_type == kBytes) {
        graph = true;
        ReadGraph(window, field.end, layout);
      }
      if (window.ok()) window.Seek(field.end);
    }
    if (!window.ok() || !graph) return NothingFrom<Layout>(window);
    return std::optional(std::move(layout));
  }

 private:
  static void ReadGraph(SourceWindow& window, std::uint64_t end, Layout& layout) {
    while (window.ok() && window.position() < end) {
      const Field field = ReadField(window);
      if (field.end > end) return window.Fail();
      if (field.number == kGraphInitializer && field.wire_type == kBytes && layout.tensors.size() < kMaxTensors) {
        if (auto tensor = ReadTensor(window, field.end)) layout.tensors.push_back(std::move(*tensor));
      }
      if (window.ok()) window.Seek(field.end);
    }
  }
};

}  // namespace

const LayoutParser& OnnxParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
