// SPDX-License-Identifier: Apache-2.0
//
// ONNX models (protobuf, onnx.proto): the initializers whose bytes stand in the file itself. Those kept in a file
// beside it are found there by statistics.
#include <charconv>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/protobuf.h"
#include "codec/layout/siblings.h"
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
constexpr std::uint64_t kTensorExternal = 13;
constexpr std::uint64_t kEntryKey = 1;
constexpr std::uint64_t kEntryValue = 2;

std::string_view DtypeName(std::uint64_t data_type) {
  constexpr std::string_view kNames[] = {
      "",          "float32",    "uint8",    "int8",          "uint16",          "int16",       "int32",
      "int64",     "",           "bool",     "float16",       "float64",         "uint32",      "uint64",
      "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"};
  return data_type < std::size(kNames) ? kNames[data_type] : std::string_view();
}

// A tensor and the file that holds it: empty for the model itself.
struct Initializer {
  Tensor tensor;
  std::string location;
};

struct External {
  std::string location;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// One StringStringEntryProto of a tensor's external data, which ends at `end`.
void ReadExternal(SourceWindow& window, std::uint64_t end, External& external) {
  std::string key;
  std::string value;
  while (window.ok() && window.position() < end) {
    const protobuf::Field field = protobuf::ReadField(window);
    if (field.end > end || field.value > kMaxNameBytes) window.Fail();
    if (field.number == kEntryKey) key = AsText(window.Take(field.value));
    if (field.number == kEntryValue) value = AsText(window.Take(field.value));
    if (window.ok()) window.Seek(field.end);
  }
  if (key == "location") external.location = value;
  std::uint64_t* number = key == "offset" ? &external.offset : key == "length" ? &external.length : nullptr;
  if (number != nullptr) std::from_chars(value.data(), value.data() + value.size(), *number);
}

// Reads a TensorProto that ends at `end`.
std::optional<Initializer> ReadTensor(SourceWindow& window, std::uint64_t end) {
  std::vector<std::uint64_t> shape;
  std::string name;
  std::uint64_t data_type = 0;
  External data;
  while (window.ok() && window.position() < end) {
    const protobuf::Field field = protobuf::ReadField(window);
    if (field.end > end) window.Fail();
    if (field.number == kTensorDims && field.wire_type == protobuf::kVarint && shape.size() < kMaxRank) {
      shape.push_back(field.value);
    } else if (field.number == kTensorDims && field.wire_type == protobuf::kBytes) {
      while (window.ok() && window.position() < field.end && shape.size() < kMaxRank) {
        shape.push_back(protobuf::Varint(window));
      }
    } else if (field.number == kTensorType) {
      data_type = field.value;
    } else if (field.number == kTensorName && field.wire_type == protobuf::kBytes && field.value <= kMaxNameBytes) {
      name = AsText(window.Take(field.value));
    } else if (field.number == kTensorRaw && field.wire_type == protobuf::kBytes) {
      data = {{}, window.position(), field.value};
    } else if (field.number == kTensorExternal && field.wire_type == protobuf::kBytes) {
      ReadExternal(window, field.end, data);
    }
    if (window.ok()) window.Seek(field.end);
  }
  const auto dtype = DtypeFromName(DtypeName(data_type));
  if (!window.ok() || !dtype || data.length == 0 || TensorBytes(shape, dtype->item_bytes) != data.length) {
    return std::nullopt;
  }
  return Initializer{MakeTensor(std::move(name), *dtype, std::move(shape), data.offset, data.length),
                     std::move(data.location)};
}

void ReadGraph(SourceWindow& window, std::uint64_t end, std::string_view location, Layout& layout) {
  while (window.ok() && window.position() < end) {
    const protobuf::Field field = protobuf::ReadField(window);
    if (field.end > end) return window.Fail();
    if (field.number == kGraphInitializer && field.wire_type == protobuf::kBytes &&
        layout.tensors.size() < kMaxTensors) {
      auto initializer = ReadTensor(window, field.end);
      if (initializer && initializer->location == location) layout.tensors.push_back(std::move(initializer->tensor));
    }
    if (window.ok()) window.Seek(field.end);
  }
}

// The tensors of a model that lie in the file `location`. There is no magic number: a model begins with its ir_version
// and is protobuf to its last byte.
Result<std::optional<Layout>> ParseModel(const ByteSource& model, std::string_view location) {
  SourceWindow window(model);
  if (window.Fixed<std::uint8_t>() != 0x08) return NothingFrom<Layout>(window);
  window.Seek(0);
  Layout layout;
  layout.format = "onnx";
  bool graph = false;
  while (window.ok() && window.remaining() > 0) {
    const protobuf::Field field = protobuf::ReadField(window);
    if (field.number == kModelGraph && field.wire_type == protobuf::kBytes) {
      graph = true;
      ReadGraph(window, field.end, location, layout);
    }
    if (window.ok()) window.Seek(field.end);
  }
  if (!window.ok() || !graph) return NothingFrom<Layout>(window);
  return std::optional(std::move(layout));
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "onnx"; }
  Result<std::optional<Layout>> Parse(const ByteSource& file) const override { return ParseModel(file, {}); }
};

}  // namespace

const LayoutParser& OnnxParser() {
  static const Parser parser;
  return parser;
}

std::optional<Layout> OnnxDataLayout(const Siblings& siblings) {
  const std::string name = siblings.name();
  for (std::string_view suffix : {".data", "_data"}) {
    if (!name.ends_with(suffix)) continue;
    const auto model = siblings.Open(name.substr(0, name.size() - suffix.size()));
    if (model == nullptr) continue;
    auto layout = ParseModel(*model, name);
    if (layout.ok() && *layout && !(*layout)->tensors.empty()) return std::move(*layout);
  }
  return std::nullopt;
}

}  // namespace stepfs::codec
