// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>

#include "codec/layout/hdf5.h"

namespace stepfs::codec::hdf5 {
namespace {

constexpr std::uint8_t kUnfilteredChunks = 10;  // Type of a version 2 B-tree.
constexpr std::uint64_t kChecksumBytes = 4;

// The grid of chunks. Array indexes number them row by row over the maximal dimensions, of which at most one is
// unlimited and then counts as the slowest.
class Grid {
 public:
  explicit Grid(const Chunking& chunking) : chunking_(chunking) {
    for (std::size_t i = 0; i < chunking.chunk.size(); ++i) {
      order_.push_back(i);
      const bool unlimited = chunking.maximum[i] == kUndefined;
      if (unlimited) std::rotate(order_.begin(), order_.end() - 1, order_.end());
      per_dimension_.push_back(unlimited ? 1 : Chunks(chunking.maximum[i], chunking.chunk[i]));
    }
  }

  // The origin of the chunk of a number; nothing when it lies outside the array.
  std::optional<std::vector<std::uint64_t>> Origin(std::uint64_t number) const {
    std::vector<std::uint64_t> origin(order_.size());
    for (std::size_t k = order_.size(); k-- > 0;) {
      const std::size_t i = order_[k];
      const std::uint64_t scaled = k == 0 ? number : number % per_dimension_[i];
      number /= per_dimension_[i] == 0 ? 1 : per_dimension_[i];
      if (scaled >= Chunks(chunking_.dimensions[i], chunking_.chunk[i])) return std::nullopt;
      origin[i] = scaled * chunking_.chunk[i];
    }
    return origin;
  }

  // One more than the greatest number of a chunk inside the array; kMaxItems at most.
  std::uint64_t End() const {
    std::uint64_t end = 1;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const std::size_t i = order_[k];
      const std::uint64_t chunks = k == 0 ? Chunks(chunking_.dimensions[i], chunking_.chunk[i]) : per_dimension_[i];
      if (chunks == 0) return 0;
      if (end > kMaxItems / chunks) return kMaxItems;
      end *= chunks;
    }
    return end;
  }

 private:
  static std::uint64_t Chunks(std::uint64_t elements, std::uint64_t chunk) {
    return elements / chunk + (elements % chunk != 0 ? 1 : 0);
  }

  const Chunking& chunking_;
  std::vector<std::size_t> order_;  // Dimensions, slowest first.
  std::vector<std::uint64_t> per_dimension_;
};

// Collects chunks that an array index lists by number.
class Collector {
 public:
  explicit Collector(const Chunking& chunking) : grid_(chunking), end_(grid_.End()), bytes_(chunking.chunk_bytes) {}

  bool Full() const { return number_ >= end_; }
  std::uint64_t left() const { return end_ - std::min(number_, end_); }
  // The next chunk in number lies at `address`, or nowhere.
  void Next(std::uint64_t address) {
    if (address != kUndefined) {
      if (auto origin = grid_.Origin(number_)) extents_.push_back({address, bytes_, std::move(*origin)});
    }
    ++number_;
  }
  void Miss(std::uint64_t count) { number_ += std::min(count, end_); }
  std::vector<TensorExtent> Take() { return std::move(extents_); }

 private:
  Grid grid_;
  std::uint64_t end_;
  std::uint64_t bytes_;
  std::uint64_t number_ = 0;
  std::vector<TensorExtent> extents_;
};

void ReadElements(SourceWindow& window, std::uint64_t count, Collector& chunks) {
  for (std::uint64_t i = 0; i < count && !chunks.Full() && window.ok(); ++i) chunks.Next(window.Fixed<std::uint64_t>());
}

// Elements in pages of `page` elements, each followed by a checksum.
void ReadPages(SourceWindow& window, std::uint64_t count, std::uint64_t page, Collector& chunks) {
  for (std::uint64_t done = 0; done < count && !chunks.Full() && window.ok(); done += page) {
    ReadElements(window, std::min(page, count - done), chunks);
    if (!chunks.Full()) window.Skip(kChecksumBytes);
  }
}

void ReadFixedArray(SourceWindow& window, std::uint64_t address, Collector& chunks) {
  window.Seek(address);
  Expect(window, "FAHD", 0);
  const auto client = window.Fixed<std::uint8_t>();
  const auto element_bytes = window.Fixed<std::uint8_t>();
  const auto page_bits = window.Fixed<std::uint8_t>();
  const auto count = window.Fixed<std::uint64_t>();
  const auto block = window.Fixed<std::uint64_t>();
  if (client != 0 || element_bytes != 8 || page_bits > 40) return window.Fail();
  if (block == kUndefined) return;
  window.Seek(block);
  Expect(window, "FADB", 0);
  window.Skip(1 + 8);
  const std::uint64_t page = std::uint64_t{1} << page_bits;
  if (count <= page) return ReadElements(window, count, chunks);
  const std::uint64_t pages = (count - 1) / page + 1;
  window.Skip((pages - 1) / 8 + 1 + kChecksumBytes);
  ReadPages(window, count, page, chunks);
}

struct ExtensibleArray {
  std::uint64_t offset_bytes;  // Of a block's offset field.
  std::uint64_t page;          // Elements a page.
};

void ReadExtensibleBlock(SourceWindow& window, const ExtensibleArray& array, std::uint64_t address, std::uint64_t count,
                         Collector& chunks) {
  if (address == kUndefined) return chunks.Miss(count);
  window.Seek(address);
  Expect(window, "EADB", 0);
  window.Skip(1 + 8 + array.offset_bytes);
  if (count <= array.page) return ReadElements(window, count, chunks);
  window.Skip(kChecksumBytes);
  ReadPages(window, count, array.page, chunks);
}

// A list of addresses of data blocks, all of `count` elements.
void ReadExtensibleBlocks(SourceWindow& window, const ExtensibleArray& array, std::uint64_t blocks, std::uint64_t count,
                          Collector& chunks) {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < blocks && i * count < chunks.left() && window.ok(); ++i) {
    addresses.push_back(window.Fixed<std::uint64_t>());
  }
  const std::uint64_t after = window.position() + 8 * (blocks - addresses.size());
  for (std::uint64_t address : addresses) {
    if (!window.ok() || chunks.Full()) break;
    ReadExtensibleBlock(window, array, address, count, chunks);
  }
  if (!chunks.Full()) window.Seek(after);
}

void ReadExtensibleArray(SourceWindow& window, std::uint64_t address, Collector& chunks) {
  window.Seek(address);
  Expect(window, "EAHD", 0);
  const auto client = window.Fixed<std::uint8_t>();
  const auto element_bytes = window.Fixed<std::uint8_t>();
  const std::uint64_t max_bits = window.Fixed<std::uint8_t>();
  const std::uint64_t index_elements = window.Fixed<std::uint8_t>();
  const std::uint64_t block_elements = window.Fixed<std::uint8_t>();
  const std::uint64_t min_pointers = window.Fixed<std::uint8_t>();
  const std::uint64_t page_bits = window.Fixed<std::uint8_t>();
  window.Skip(6 * 8);
  const auto index = window.Fixed<std::uint64_t>();
  if (!window.ok() || client != 0 || element_bytes != 8 || max_bits > 64 || !std::has_single_bit(block_elements) ||
      !std::has_single_bit(min_pointers) || page_bits > 40) {
    return window.Fail();
  }
  if (index == kUndefined) return;
  const ExtensibleArray array{(max_bits + 7) / 8, std::uint64_t{1} << page_bits};
  window.Seek(index);
  Expect(window, "EAIB", 0);
  window.Skip(1 + 8);
  ReadElements(window, index_elements, chunks);

  // Super block s has 2^(s/2) data blocks of 2^((s+1)/2) times the least number of elements. The data blocks of the
  // first ones are listed in the index itself, those of the others in secondary blocks.
  const auto direct = 2 * static_cast<std::uint64_t>(std::countr_zero(min_pointers));
  for (std::uint64_t s = 0; !chunks.Full() && window.ok() && s < 64; ++s) {
    const std::uint64_t blocks = std::uint64_t{1} << (s / 2);
    const std::uint64_t count = block_elements << std::min<std::uint64_t>((s + 1) / 2, 40);
    if (s < direct) {
      ReadExtensibleBlocks(window, array, blocks, count, chunks);
      continue;
    }
    const auto secondary = window.Fixed<std::uint64_t>();
    const std::uint64_t after = window.position();
    if (secondary == kUndefined) {
      chunks.Miss(blocks * count);
      continue;
    }
    window.Seek(secondary);
    Expect(window, "EASB", 0);
    window.Skip(1 + 8 + array.offset_bytes);
    if (count > array.page) window.Skip(blocks * ((count / array.page + 7) / 8));
    ReadExtensibleBlocks(window, array, blocks, count, chunks);
    if (!chunks.Full()) window.Seek(after);
  }
}

// Version 1 B-tree: keys carry the origin.
std::vector<TensorExtent> ReadBtree1(SourceWindow& window, const Chunking& chunking) {
  std::vector<TensorExtent> extents;
  std::vector<std::uint64_t> nodes = {chunking.address};
  while (window.ok() && !nodes.empty()) {
    window.Seek(nodes.back());
    nodes.pop_back();
    Expect(window, "TREE", 1);
    const auto level = window.Fixed<std::uint8_t>();
    const std::uint64_t used = window.Fixed<std::uint16_t>();
    window.Skip(16);
    if (extents.size() + nodes.size() + used > kMaxItems) window.Fail();
    for (std::uint64_t i = 0; i < used && window.ok(); ++i) {
      TensorExtent extent;
      extent.nbytes = window.Fixed<std::uint32_t>();
      window.Skip(4);
      for (std::size_t k = 0; k < chunking.chunk.size(); ++k) extent.origin.push_back(window.Fixed<std::uint64_t>());
      window.Skip(8);  // The element's own dimension.
      extent.offset = window.Fixed<std::uint64_t>();
      if (level > 0) {
        nodes.push_back(extent.offset);
      } else if (extent.nbytes == chunking.chunk_bytes) {
        extents.push_back(std::move(extent));
      }
    }
  }
  return extents;
}

std::vector<TensorExtent> ReadBtree2Chunks(SourceWindow& window, const Chunking& chunking) {
  std::vector<TensorExtent> extents;
  const Records records = ReadBtree2(window, chunking.address, kUnfilteredChunks);
  const std::size_t rank = chunking.chunk.size();
  if (!window.ok() || records.record_bytes != 8 + 8 * rank) return window.Fail(), extents;
  for (std::size_t at = 0; at < records.bytes.size(); at += records.record_bytes) {
    const std::byte* record = records.bytes.data() + at;
    TensorExtent extent;
    extent.offset = LoadLittle<std::uint64_t>(record);
    extent.nbytes = chunking.chunk_bytes;
    for (std::size_t k = 0; k < rank; ++k) {
      const auto scaled = LoadLittle<std::uint64_t>(record + 8 + 8 * k);
      if (scaled > kUndefined / chunking.chunk[k]) return window.Fail(), extents;
      extent.origin.push_back(scaled * chunking.chunk[k]);
    }
    extents.push_back(std::move(extent));
  }
  return extents;
}

}  // namespace

std::vector<TensorExtent> ReadChunks(SourceWindow& window, const Chunking& chunking) {
  if (chunking.address == kUndefined || chunking.chunk_bytes == 0) return {};
  Collector chunks(chunking);
  switch (chunking.index) {
    case Chunking::Index::kBtree1:
      return ReadBtree1(window, chunking);
    case Chunking::Index::kBtree2:
      return ReadBtree2Chunks(window, chunking);
    case Chunking::Index::kSingle:
      chunks.Next(chunking.address);
      break;
    case Chunking::Index::kImplicit:
      if (chunks.left() > (window.end() - std::min(window.end(), chunking.address)) / chunking.chunk_bytes) {
        window.Fail();
        break;
      }
      for (std::uint64_t at = chunking.address; !chunks.Full(); at += chunking.chunk_bytes) chunks.Next(at);
      break;
    case Chunking::Index::kFixedArray:
      ReadFixedArray(window, chunking.address, chunks);
      break;
    case Chunking::Index::kExtensibleArray:
      ReadExtensibleArray(window, chunking.address, chunks);
      break;
  }
  return chunks.Take();
}

}  // namespace stepfs::codec::hdf5
