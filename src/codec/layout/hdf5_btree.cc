// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "codec/layout/hdf5.h"

namespace stepfs::codec::hdf5 {
namespace {

constexpr std::uint64_t kNodeOverhead = 10;  // Signature, version, type, checksum.
constexpr std::uint64_t kMaxNodeBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxDepth = 16;

// Bytes that a number up to `limit` is stored in.
std::uint64_t EncodedBytes(std::uint64_t limit) {
  return (static_cast<std::uint64_t>(std::bit_width(limit)) - (limit > 0 ? 1 : 0)) / 8 + 1;
}

struct Shape {
  std::uint64_t node_bytes;
  std::uint64_t record_bytes;
  std::uint64_t count_bytes;               // Of a child's record count.
  std::vector<std::uint64_t> total_bytes;  // By a child's depth: of the record count of its whole subtree.
};

Shape MakeShape(std::uint64_t node_bytes, std::uint64_t record_bytes, std::uint64_t depth) {
  const std::uint64_t leaf_records = (node_bytes - kNodeOverhead) / record_bytes;
  Shape shape{node_bytes, record_bytes, EncodedBytes(leaf_records), {0}};
  std::uint64_t subtree = leaf_records;
  for (std::uint64_t level = 1; level < depth; ++level) {
    const std::uint64_t pointer_bytes = 8 + shape.count_bytes + shape.total_bytes.back();
    if (node_bytes < kNodeOverhead + pointer_bytes) break;
    const std::uint64_t records = (node_bytes - kNodeOverhead - pointer_bytes) / (record_bytes + pointer_bytes);
    subtree = subtree > kUndefined / (records + 2) ? kUndefined : (records + 1) * subtree + records;
    shape.total_bytes.push_back(EncodedBytes(subtree));
  }
  return shape;
}

struct Node {
  std::uint64_t address;
  std::uint64_t records;
  std::uint64_t depth;
};

}  // namespace

void Expect(SourceWindow& window, std::string_view signature, std::uint8_t version) {
  const bool same = AsText(window.Take(signature.size())) == signature;
  if (window.Fixed<std::uint8_t>() != version || !same) window.Fail();
}

std::uint64_t Unsigned(SourceWindow& window, std::uint64_t bytes) {
  std::uint64_t value = 0;
  int shift = 0;
  for (std::byte b : window.Take(bytes)) {
    value |= std::to_integer<std::uint64_t>(b) << shift;
    shift += 8;
  }
  return value;
}

Records ReadBtree2(SourceWindow& window, std::uint64_t address, std::uint8_t type) {
  Records all;
  window.Seek(address);
  Expect(window, "BTHD", 0);
  if (window.Fixed<std::uint8_t>() != type) window.Fail();
  const std::uint64_t node_bytes = window.Fixed<std::uint32_t>();
  all.record_bytes = window.Fixed<std::uint16_t>();
  const std::uint64_t depth = window.Fixed<std::uint16_t>();
  window.Skip(2);
  const auto root = window.Fixed<std::uint64_t>();
  const std::uint64_t root_records = window.Fixed<std::uint16_t>();
  if (node_bytes > kMaxNodeBytes || all.record_bytes == 0 || all.record_bytes + kNodeOverhead > node_bytes ||
      depth > kMaxDepth) {
    window.Fail();
  }
  if (!window.ok() || root == kUndefined) return all;

  const Shape shape = MakeShape(node_bytes, all.record_bytes, depth);
  std::vector<Node> nodes = {{root, root_records, depth}};
  while (window.ok() && !nodes.empty()) {
    const Node node = nodes.back();
    nodes.pop_back();
    window.Seek(node.address);
    Expect(window, node.depth == 0 ? "BTLF" : "BTIN", 0);
    window.Skip(1);
    const Bytes records = window.Take(node.records * all.record_bytes);
    all.bytes.insert(all.bytes.end(), records.begin(), records.end());
    if (node.depth == 0) continue;
    if (node.depth > shape.total_bytes.size()) return window.Fail(), all;
    for (std::uint64_t i = 0; i <= node.records && window.ok(); ++i) {
      Node child{window.Fixed<std::uint64_t>(), Unsigned(window, shape.count_bytes), node.depth - 1};
      window.Skip(shape.total_bytes[node.depth - 1]);
      if (child.records > kMaxNodeBytes) window.Fail();
      nodes.push_back(child);
    }
  }
  return all;
}

}  // namespace stepfs::codec::hdf5
