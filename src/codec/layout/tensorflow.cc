// SPDX-License-Identifier: Apache-2.0
//
// TensorFlow checkpoints (tensor_bundle): PREFIX.index is a table in LevelDB's format from names to BundleEntryProto,
// which says where in which PREFIX.data-NNNNN-of-NNNNN a tensor lies.
#include <charconv>

#include "codec/layout/dtype.h"
#include "codec/layout/protobuf.h"
#include "codec/layout/siblings.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::uint64_t kMagic = 0xdb4775248b80fb57;
constexpr std::uint64_t kFooterBytes = 48;
constexpr std::uint64_t kMaxKeyBytes = 1024;
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{16} << 20;
constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;

// Field numbers of BundleEntryProto, TensorShapeProto and its Dim.
constexpr std::uint64_t kEntryDtype = 1;
constexpr std::uint64_t kEntryShape = 2;
constexpr std::uint64_t kEntryShard = 3;
constexpr std::uint64_t kEntryOffset = 4;
constexpr std::uint64_t kEntrySize = 5;
constexpr std::uint64_t kEntrySlices = 7;
constexpr std::uint64_t kShapeDim = 2;
constexpr std::uint64_t kDimSize = 1;

std::string_view DtypeName(std::uint64_t data_type) {
  switch (data_type) {
    case 1:
      return "float32";
    case 2:
      return "float64";
    case 3:
      return "int32";
    case 4:
      return "uint8";
    case 5:
      return "int16";
    case 6:
      return "int8";
    case 8:
      return "complex64";
    case 9:
      return "int64";
    case 10:
      return "bool";
    case 14:
      return "bfloat16";
    case 17:
      return "uint16";
    case 18:
      return "complex128";
    case 19:
      return "float16";
    case 22:
      return "uint32";
    case 23:
      return "uint64";
    case 24:
      return "float8_e5m2";
    case 25:
      return "float8_e4m3fn";
    default:
      return {};
  }
}

struct Record {
  std::string key;
  Bytes value;
};

// Calls `visit` for each record of a block; false when the block is malformed.
template <typename Visit>
bool ForEachRecord(Bytes block, Visit visit) {
  if (block.size() < 4) return false;
  const std::uint64_t restarts = LoadLittle<std::uint32_t>(block.data() + block.size() - 4);
  if (restarts > (block.size() - 4) / 4) return false;
  ByteReader reader(block.first(block.size() - 4 - 4 * restarts));
  std::string key;
  while (reader.ok() && reader.remaining() > 0) {
    const std::uint64_t shared = reader.Varint();
    const std::uint64_t more = reader.Varint();
    const std::uint64_t value_bytes = reader.Varint();
    if (shared > key.size() || more > kMaxKeyBytes || shared + more > kMaxKeyBytes) return false;
    key.resize(shared);
    key += AsText(reader.Raw(more));
    const Bytes value = reader.Raw(value_bytes);
    if (reader.ok()) visit(key, value);
  }
  return reader.ok();
}

struct BlockHandle {
  std::uint64_t offset;
  std::uint64_t bytes;
};

BlockHandle ReadHandle(ByteReader& reader) {
  const std::uint64_t offset = reader.Varint();
  return {offset, reader.Varint()};
}

// A block and its trailer of compression type and checksum. Nothing for a compressed one.
std::optional<ByteVector> ReadBlock(const ByteSource& table, const BlockHandle& handle) {
  if (handle.bytes > kMaxBlockBytes || handle.offset > table.size() ||
      table.size() - handle.offset < handle.bytes + 5) {
    return std::nullopt;
  }
  ByteVector block(static_cast<std::size_t>(handle.bytes + 5));
  if (!table.ReadAt(handle.offset, block).ok() || block[handle.bytes] != std::byte{0}) return std::nullopt;
  block.resize(static_cast<std::size_t>(handle.bytes));
  return block;
}

std::optional<std::vector<std::uint64_t>> ReadShape(SourceWindow& window, std::uint64_t end) {
  std::vector<std::uint64_t> shape;
  while (window.ok() && window.position() < end) {
    const protobuf::Field field = protobuf::ReadField(window);
    if (field.end > end || shape.size() == kMaxRank) return std::nullopt;
    if (field.number == kShapeDim && field.wire_type == protobuf::kBytes) {
      std::uint64_t size = 0;
      while (window.ok() && window.position() < field.end) {
        const protobuf::Field dim = protobuf::ReadField(window);
        if (dim.number == kDimSize && dim.wire_type == protobuf::kVarint) size = dim.value;
        window.Seek(dim.end);
      }
      shape.push_back(size);
    }
    window.Seek(field.end);
  }
  return shape;
}

// The tensor of one entry if it lies whole in this shard.
std::optional<Tensor> ReadEntry(const std::string& key, Bytes value, std::uint64_t shard) {
  const MemorySource memory(value);
  SourceWindow window(memory);
  std::uint64_t numbers[kEntrySize + 1] = {};
  std::optional<std::vector<std::uint64_t>> shape = std::vector<std::uint64_t>();
  while (window.ok() && window.remaining() > 0) {
    const protobuf::Field field = protobuf::ReadField(window);
    if (field.number == kEntrySlices) return std::nullopt;
    if (field.number == kEntryShape && field.wire_type == protobuf::kBytes) {
      shape = ReadShape(window, field.end);
    } else if (field.number <= kEntrySize) {
      numbers[field.number] = field.value;
    }
    if (window.ok()) window.Seek(field.end);
  }
  const auto dtype = DtypeFromName(DtypeName(numbers[kEntryDtype]));
  if (!window.ok() || !dtype || !shape || numbers[kEntryShard] != shard) return std::nullopt;
  if (TensorBytes(*shape, dtype->item_bytes) != numbers[kEntrySize]) return std::nullopt;
  return MakeTensor(key, *dtype, std::move(*shape), numbers[kEntryOffset], numbers[kEntrySize]);
}

// Blocks are read once, in order, each at most as large as the bytes between its offset and the one before allow.
std::optional<Layout> ReadTable(const ByteSource& table, std::uint64_t shard) {
  if (table.size() < kFooterBytes || table.size() > kMaxHeaderBytes) return std::nullopt;
  std::byte footer[kFooterBytes];
  if (!table.ReadAt(table.size() - kFooterBytes, footer).ok()) return std::nullopt;
  if (LoadLittle<std::uint64_t>(footer + kFooterBytes - 8) != kMagic) return std::nullopt;
  ByteReader reader(Bytes(footer).first(kFooterBytes - 8));
  ReadHandle(reader);  // Of the meta index.
  const auto index = ReadBlock(table, ReadHandle(reader));
  if (!reader.ok() || !index) return std::nullopt;

  Layout layout;
  layout.format = "tensorflow";
  std::uint64_t read_to = 0;
  bool well_formed = true;
  const bool index_ok = ForEachRecord(*index, [&](const std::string&, Bytes value) {
    ByteReader handle_reader(value);
    const BlockHandle handle = ReadHandle(handle_reader);
    if (!well_formed || !handle_reader.ok() || handle.offset < read_to) {
      well_formed = false;
      return;
    }
    const auto block = ReadBlock(table, handle);
    well_formed = block && ForEachRecord(*block, [&](const std::string& key, Bytes entry) {
                    auto tensor = key.empty() ? std::nullopt : ReadEntry(key, entry, shard);
                    if (tensor && layout.tensors.size() < kMaxTensors) layout.tensors.push_back(std::move(*tensor));
                  });
    read_to = handle.offset + handle.bytes;
  });
  if (!index_ok || !well_formed) return std::nullopt;
  return layout;
}

}  // namespace

std::optional<Layout> TensorFlowDataLayout(const Siblings& siblings) {
  // PREFIX.data-00000-of-00001
  const std::string name = siblings.name();
  const auto at = name.rfind(".data-");
  if (at == std::string::npos || name.size() != at + 20 || name.compare(at + 11, 4, "-of-") != 0) return std::nullopt;
  std::uint64_t shard = 0;
  const char* digits = name.data() + at + 6;
  if (std::from_chars(digits, digits + 5, shard).ptr != digits + 5) return std::nullopt;
  const auto table = siblings.Open(name.substr(0, at) + ".index");
  return table == nullptr ? std::nullopt : ReadTable(*table, shard);
}

}  // namespace stepfs::codec
