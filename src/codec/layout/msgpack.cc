// SPDX-License-Identifier: Apache-2.0
//
// msgpack as flax.serialization writes it: maps of names, in which an array is extension type 1 around a msgpack array
// of shape, dtype name and bytes. (Arrays above 1 GiB are cut into pieces under a key "__msgpack_chunked_array__": each
// piece is a flat array of its own.)
#include <algorithm>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr int kArrayExtension = 1;

enum class Kind { kMap, kArray, kText, kBinary, kExtension, kInteger, kOther };

// The head of one value. What follows: `count` pairs or values, or `count` bytes.
struct Head {
  Kind kind = Kind::kOther;
  std::uint64_t count = 0;
  std::int64_t integer = 0;
  int extension = 0;
};

template <std::unsigned_integral T>
T BigEndian(SourceWindow& window) {
  T value = 0;
  for (std::byte b : window.Take(sizeof(T))) value = static_cast<T>((value << 8) | std::to_integer<T>(b));
  return value;
}

std::uint64_t BigEndian(SourceWindow& window, int log2_bytes) {
  switch (log2_bytes) {
    case 0:
      return BigEndian<std::uint8_t>(window);
    case 1:
      return BigEndian<std::uint16_t>(window);
    case 2:
      return BigEndian<std::uint32_t>(window);
    default:
      return BigEndian<std::uint64_t>(window);
  }
}

Head Extension(SourceWindow& window, std::uint64_t count) {
  return {Kind::kExtension, count, 0, static_cast<std::int8_t>(window.Fixed<std::uint8_t>())};
}

Head ReadHead(SourceWindow& window) {
  const int tag = window.Fixed<std::uint8_t>();
  if (tag <= 0x7f) return {Kind::kInteger, 0, tag};
  if (tag <= 0x8f) return {Kind::kMap, static_cast<std::uint64_t>(tag & 0xf)};
  if (tag <= 0x9f) return {Kind::kArray, static_cast<std::uint64_t>(tag & 0xf)};
  if (tag <= 0xbf) return {Kind::kText, static_cast<std::uint64_t>(tag & 0x1f)};
  if (tag >= 0xe0) return {Kind::kInteger, 0, tag - 0x100};
  switch (tag) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
      return {};
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return {Kind::kBinary, BigEndian(window, tag - 0xc4)};
    case 0xc7:
    case 0xc8:
    case 0xc9:
      return Extension(window, BigEndian(window, tag - 0xc7));
    case 0xca:
      window.Skip(4);
      return {};
    case 0xcb:
      window.Skip(8);
      return {};
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      return {Kind::kInteger, 0, static_cast<std::int64_t>(BigEndian(window, tag - 0xcc))};
    case 0xd0:
      return {Kind::kInteger, 0, static_cast<std::int8_t>(BigEndian<std::uint8_t>(window))};
    case 0xd1:
      return {Kind::kInteger, 0, static_cast<std::int16_t>(BigEndian<std::uint16_t>(window))};
    case 0xd2:
      return {Kind::kInteger, 0, static_cast<std::int32_t>(BigEndian<std::uint32_t>(window))};
    case 0xd3:
      return {Kind::kInteger, 0, static_cast<std::int64_t>(BigEndian<std::uint64_t>(window))};
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return Extension(window, std::uint64_t{1} << (tag - 0xd4));
    case 0xd9:
    case 0xda:
    case 0xdb:
      return {Kind::kText, BigEndian(window, tag - 0xd9)};
    case 0xdc:
    case 0xdd:
      return {Kind::kArray, BigEndian(window, tag - 0xdc + 1)};
    case 0xde:
    case 0xdf:
      return {Kind::kMap, BigEndian(window, tag - 0xde + 1)};
    default:
      window.Fail();
      return {};
  }
}

// Reads [shape, dtype name, bytes] and skips over the bytes; the window ends where the extension does.
std::optional<Tensor> ReadArray(SourceWindow& window, const std::string& name) {
  const Head outer = ReadHead(window);
  const Head dimensions = ReadHead(window);
  if (outer.kind != Kind::kArray || outer.count != 3 || dimensions.kind != Kind::kArray ||
      dimensions.count > kMaxRank) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> shape;
  for (std::uint64_t i = 0; i < dimensions.count; ++i) {
    const Head dimension = ReadHead(window);
    if (dimension.kind != Kind::kInteger || dimension.integer < 0) return std::nullopt;
    shape.push_back(static_cast<std::uint64_t>(dimension.integer));
  }
  const Head type = ReadHead(window);
  if ((type.kind != Kind::kText && type.kind != Kind::kBinary) || type.count > 64) return std::nullopt;
  const auto dtype = DtypeFromName(AsText(window.Take(type.count)));
  const Head bytes = ReadHead(window);
  if (!window.ok() || !dtype || bytes.kind != Kind::kBinary || TensorBytes(shape, dtype->item_bytes) != bytes.count) {
    return std::nullopt;
  }
  return MakeTensor(name, *dtype, std::move(shape), window.position(), bytes.count);
}

class Walker {
 public:
  Walker(const ByteSource& file, SourceWindow& window, Layout& layout)
      : file_(file), window_(window), layout_(layout) {}

  // True when the whole file was one well-formed value.
  Result<bool> Run() {
    STEPFS_RETURN_IF_ERROR(Value());
    while (window_.ok() && !frames_.empty()) {
      Frame& frame = frames_.back();
      name_.resize(frame.name_bytes);
      if (frame.left == 0) {
        frames_.pop_back();
        continue;
      }
      --frame.left;
      if (frame.map) {
        Key();
      } else {
        AddPart(std::to_string(frame.index++));
      }
      STEPFS_RETURN_IF_ERROR(Value());
    }
    return window_.ok() && window_.remaining() == 0;
  }

 private:
  struct Frame {
    bool map;
    std::uint64_t left;
    std::uint64_t index;
    std::size_t name_bytes;
  };

  void AddPart(std::string_view part) {
    if (name_.size() + part.size() + 1 > kMaxNameBytes) return;
    if (!name_.empty()) name_ += '.';
    name_ += part;
  }

  void Key() {
    const Head head = ReadHead(window_);
    if (head.kind == Kind::kInteger) return AddPart(std::to_string(head.integer));
    if (head.kind != Kind::kText || head.count > kMaxNameBytes) return window_.Fail();
    step_key_ = frames_.size() == 1;
    const std::string_view key = AsText(window_.Take(head.count));
    step_key_ = step_key_ && key == "step";
    AddPart(key);
  }

  Status Value() {
    const bool step = std::exchange(step_key_, false);
    const Head head = ReadHead(window_);
    switch (head.kind) {
      case Kind::kMap:
      case Kind::kArray:
        // Every value takes a byte at least: more of them than bytes are left is a lie.
        if (frames_.size() >= kMaxDepth || head.count > window_.remaining()) {
          window_.Fail();
        } else {
          frames_.push_back({head.kind == Kind::kMap, head.count, 0, name_.size()});
        }
        break;
      case Kind::kExtension:
        return ExtensionValue(head);
      case Kind::kInteger:
        if (step) layout_.step = head.integer;
        break;
      default:
        window_.Skip(head.count);
        break;
    }
    return {};
  }

  Status ExtensionValue(const Head& head) {
    const std::uint64_t begin = window_.position();
    window_.Skip(head.count);
    if (!window_.ok() || head.extension != kArrayExtension || layout_.tensors.size() >= kMaxTensors) return {};
    SourceWindow array(file_, begin, begin + head.count, 64 * 1024);
    if (auto tensor = ReadArray(array, name_)) layout_.tensors.push_back(std::move(*tensor));
    return array.failure();
  }

  const ByteSource& file_;
  SourceWindow& window_;
  Layout& layout_;
  std::vector<Frame> frames_;
  std::string name_;
  bool step_key_ = false;
};

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "msgpack"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    const auto tag = window.Fixed<std::uint8_t>();
    const bool map = (tag >= 0x81 && tag <= 0x8f) || tag == 0xde || tag == 0xdf;
    if (!window.ok() || !map) return NothingFrom<Layout>(window);
    window.Seek(0);
    Layout layout;
    layout.format = format();
    STEPFS_ASSIGN_OR_RETURN(const bool whole, Walker(file, window, layout).Run());
    // There is no magic number: only a file that is msgpack to its last byte and holds an array is taken for one.
    if (!whole || layout.tensors.empty()) return NothingFrom<Layout>(window);
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& MsgpackParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
