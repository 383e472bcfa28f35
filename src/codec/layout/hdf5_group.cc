// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "codec/layout/hdf5.h"

namespace stepfs::codec::hdf5 {
namespace {

constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr std::uint8_t kLinkNameIndex = 5;  // Type of a version 2 B-tree.
constexpr std::uint8_t kHardLink = 0;

// A zero-terminated name at `address`.
std::string ReadName(SourceWindow& window, std::uint64_t address) {
  std::string name;
  window.Seek(address);
  while (window.ok()) {
    const Bytes piece = window.Take(std::min<std::uint64_t>(window.remaining(), 32));
    if (piece.empty() || name.size() > kMaxNameBytes) window.Fail();
    const auto end = std::find(piece.begin(), piece.end(), std::byte{0});
    name.append(AsText(piece).substr(0, static_cast<std::size_t>(end - piece.begin())));
    if (end != piece.end()) break;
  }
  return name;
}

// The doubling table of a fractal heap: rows of `width` blocks, the first two rows of the starting size, each later row
// of twice the size before.
struct Heap {
  std::uint64_t id_bytes = 0;
  std::uint64_t offset_bytes = 0;  // Of an object's place in the heap.
  std::uint64_t length_bytes = 0;  // Of its length.
  std::uint64_t width = 0;
  std::uint64_t start_bytes = 0;
  std::uint64_t rows = 0;  // Of the root indirect block; 0: the root is a direct block.
  std::uint64_t root = kUndefined;
  std::vector<std::uint64_t> blocks;  // Addresses of the direct blocks in order.
};

std::uint64_t RowBytes(const Heap& heap, std::uint64_t row) { return heap.start_bytes << (row == 0 ? 0 : row - 1); }

Heap ReadHeap(SourceWindow& window, std::uint64_t address) {
  Heap heap;
  window.Seek(address);
  Expect(window, "FRHP", 0);
  heap.id_bytes = window.Fixed<std::uint16_t>();
  const auto filter_bytes = window.Fixed<std::uint16_t>();
  window.Skip(1);
  const std::uint64_t max_managed = window.Fixed<std::uint32_t>();
  window.Skip(12 * 8);
  heap.width = window.Fixed<std::uint16_t>();
  heap.start_bytes = window.Fixed<std::uint64_t>();
  const auto max_direct = window.Fixed<std::uint64_t>();
  const std::uint64_t heap_bits = window.Fixed<std::uint16_t>();
  window.Skip(2);
  heap.root = window.Fixed<std::uint64_t>();
  heap.rows = window.Fixed<std::uint16_t>();
  if (!window.ok() || filter_bytes != 0 || heap.width == 0 || heap.width > 1024 || heap_bits > 64 ||
      !std::has_single_bit(heap.start_bytes) || heap.start_bytes > max_direct || max_direct > (1u << 31)) {
    window.Fail();
    return heap;
  }
  heap.offset_bytes = (heap_bits + 7) / 8;
  heap.length_bytes = (static_cast<std::uint64_t>(std::bit_width(std::min(max_managed, max_direct))) + 7) / 8;
  if (heap.rows == 0) {
    heap.blocks = {heap.root};
    return heap;
  }
  window.Seek(heap.root);
  Expect(window, "FHIB", 0);
  window.Skip(8 + heap.offset_bytes);
  for (std::uint64_t row = 0; row < heap.rows && RowBytes(heap, row) <= max_direct && window.ok(); ++row) {
    for (std::uint64_t i = 0; i < heap.width; ++i) heap.blocks.push_back(window.Fixed<std::uint64_t>());
  }
  return heap;
}

// The address of the object at `offset` of the heap; kUndefined when its block is not among those known.
std::uint64_t AddressInHeap(const Heap& heap, std::uint64_t offset) {
  std::size_t block = 0;
  for (std::uint64_t row = 0; block < heap.blocks.size(); ++row) {
    for (std::uint64_t i = 0; i < heap.width && block < heap.blocks.size(); ++i, ++block) {
      if (offset < RowBytes(heap, row)) {
        const std::uint64_t begin = heap.blocks[block];
        return begin > kUndefined - offset ? kUndefined : begin + offset;
      }
      offset -= RowBytes(heap, row);
    }
  }
  return kUndefined;
}

}  // namespace

void ReadSymbolTable(SourceWindow& window, std::uint64_t btree, std::uint64_t heap, std::vector<Link>& links) {
  window.Seek(heap);
  Expect(window, "HEAP", 0);
  window.Skip(3 + 8 + 8);
  const auto names = window.Fixed<std::uint64_t>();

  struct Entry {
    std::uint64_t name;
    std::uint64_t header;
  };
  std::vector<Entry> entries;
  std::vector<std::uint64_t> nodes = {btree};
  while (window.ok() && !nodes.empty()) {
    window.Seek(nodes.back());
    nodes.pop_back();
    const bool tree = AsText(window.Take(4)) == "TREE";
    const auto type_or_version = window.Fixed<std::uint8_t>();
    window.Skip(1);
    const std::uint64_t used = window.Fixed<std::uint16_t>();
    if (type_or_version != (tree ? 0 : 1) || entries.size() + nodes.size() > kMaxItems) window.Fail();
    if (tree) window.Skip(16);
    for (std::uint64_t i = 0; i < used && window.ok(); ++i) {
      const auto key_or_name = window.Fixed<std::uint64_t>();
      const auto address = window.Fixed<std::uint64_t>();
      if (tree) {
        nodes.push_back(address);
      } else {
        window.Skip(24);
        entries.push_back({key_or_name, address});
      }
    }
  }
  for (const Entry& entry : entries) {
    if (!window.ok()) return;
    if (entry.header == kUndefined) continue;
    if (entry.name > kUndefined - names) return window.Fail();
    links.push_back({ReadName(window, names + entry.name), entry.header});
  }
}

void ReadLink(SourceWindow& window, std::vector<Link>& links) {
  if (window.Fixed<std::uint8_t>() != 1) return window.Fail();
  const auto flags = window.Fixed<std::uint8_t>();
  const std::uint8_t type = (flags & 8) != 0 ? window.Fixed<std::uint8_t>() : kHardLink;
  if ((flags & 4) != 0) window.Skip(8);
  if ((flags & 0x10) != 0) window.Skip(1);
  const std::uint64_t name_bytes = Unsigned(window, std::uint64_t{1} << (flags & 3));
  if (name_bytes > kMaxNameBytes || links.size() >= kMaxItems) return window.Fail();
  std::string name(AsText(window.Take(name_bytes)));
  if (type != kHardLink) return;
  const auto header = window.Fixed<std::uint64_t>();
  if (window.ok()) links.push_back({std::move(name), header});
}

void ReadDenseLinks(SourceWindow& window, std::uint64_t heap_address, std::uint64_t name_index,
                    std::vector<Link>& links) {
  const Heap heap = ReadHeap(window, heap_address);
  if (!window.ok()) return;
  const Records records = ReadBtree2(window, name_index, kLinkNameIndex);
  if (!window.ok() || records.record_bytes < 4 + 1 + heap.offset_bytes) return window.Fail();
  for (std::size_t at = 0; at < records.bytes.size() && window.ok(); at += records.record_bytes) {
    const MemorySource memory(Bytes(records.bytes).subspan(at, records.record_bytes));
    SourceWindow record(memory);
    record.Skip(4);
    const auto flags = record.Fixed<std::uint8_t>();
    const std::uint64_t offset = Unsigned(record, heap.offset_bytes);
    const std::uint64_t address = AddressInHeap(heap, offset);
    if ((flags & 0x30) != 0 || address == kUndefined) continue;  // Huge and tiny objects: not names of links.
    window.Seek(address);
    ReadLink(window, links);
  }
}

}  // namespace stepfs::codec::hdf5
