// SPDX-License-Identifier: Apache-2.0
//
// HDF5: from the superblock through all groups to the datasets whose elements stand in the file as they are:
// contiguous, compact, and chunked without filters.
#include "codec/layout/hdf5.h"

#include <algorithm>
#include <unordered_set>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"

namespace stepfs::codec {
namespace {

using hdf5::Chunking;
using hdf5::Link;

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t kMaxPathBytes = 1024;
constexpr std::size_t kMaxTotalPathBytes = std::size_t{64} << 20;

enum MessageType : std::uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLink = 0x06,
  kDataLayout = 0x08,
  kFilters = 0x0b,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
};

struct Message {
  std::uint16_t type;
  bool shared;  // Its content stands elsewhere.
  std::uint64_t offset;
};

struct Block {
  std::uint64_t offset;
  std::uint64_t bytes;
};

std::optional<std::string_view> FilterName(std::uint16_t id) {
  switch (id) {
    case 1:
      return "gzip";
    case 4:
      return "szip";
    case 32000:
      return "lzf";
    case 32001:
      return "blosc";
    case 32004:
      return "lz4";
    case 32015:
      return "zstd";
    default:
      return std::nullopt;
  }
}

// Reads the messages of both kinds of object headers, with their continuations.
class HeaderReader {
 public:
  explicit HeaderReader(SourceWindow& window) : window_(window) {}

  std::vector<Message> Read(std::uint64_t address) {
    window_.Seek(address);
    const bool second = AsText(window_.Take(4)) == "OHDR";
    if (second) {
      StartSecond();
    } else {
      window_.Seek(address);
      StartFirst();
    }
    while (window_.ok() && !blocks_.empty()) {
      const Block block = blocks_.back();
      blocks_.pop_back();
      ReadBlock(block, second);
    }
    return std::move(messages_);
  }

 private:
  void StartFirst() {
    if (window_.Fixed<std::uint8_t>() != 1) return window_.Fail();
    window_.Skip(7);
    const std::uint64_t bytes = window_.Fixed<std::uint32_t>();
    window_.Skip(4);
    blocks_.push_back({window_.position(), bytes});
  }
  void StartSecond() {
    if (window_.Fixed<std::uint8_t>() != 2) return window_.Fail();
    flags_ = window_.Fixed<std::uint8_t>();
    if ((flags_ & 0x20) != 0) window_.Skip(16);
    if ((flags_ & 0x10) != 0) window_.Skip(4);
    const std::uint64_t bytes = hdf5::Unsigned(window_, std::uint64_t{1} << (flags_ & 3));
    blocks_.push_back({window_.position(), bytes});
  }

  void ReadBlock(const Block& block, bool second) {
    window_.Seek(block.offset);
    if (block.bytes > window_.remaining()) return window_.Fail();
    const std::uint64_t end = block.offset + block.bytes;
    const std::uint64_t head_bytes = !second ? 8 : (flags_ & 4) != 0 ? 6 : 4;
    while (window_.ok() && window_.position() + head_bytes <= end) {
      Message message{};
      message.type = second ? window_.Fixed<std::uint8_t>() : window_.Fixed<std::uint16_t>();
      const std::uint64_t bytes = window_.Fixed<std::uint16_t>();
      message.shared = (window_.Fixed<std::uint8_t>() & 2) != 0;
      window_.Skip(second ? head_bytes - 4 : 3);
      message.offset = window_.position();
      if (messages_.size() >= hdf5::kMaxItems || bytes > end - std::min(end, message.offset)) return window_.Fail();
      if (message.type == kContinuation) AddContinuation(second);
      messages_.push_back(message);
      window_.Seek(message.offset + bytes);
    }
  }

  // The second kind's blocks have a signature before and a checksum behind.
  void AddContinuation(bool second) {
    Block block{window_.Fixed<std::uint64_t>(), window_.Fixed<std::uint64_t>()};
    if (second) {
      if (block.bytes < 8 || block.offset > hdf5::kUndefined - 4) return window_.Fail();
      block = {block.offset + 4, block.bytes - 8};
    }
    if (!continued_.insert(block.offset).second) return window_.Fail();
    blocks_.push_back(block);
  }

  SourceWindow& window_;
  std::uint8_t flags_ = 0;
  std::vector<Message> messages_;
  std::vector<Block> blocks_;
  std::unordered_set<std::uint64_t> continued_;
};

// What the messages of one object say, if it is a dataset.
struct Dataset {
  std::optional<Dtype> dtype;
  bool has_space = false;
  std::vector<std::uint64_t> dimensions;
  std::vector<std::uint64_t> maximum;
  bool filtered = false;
  std::string_view compressed_by;
  std::optional<Block> whole;  // Contiguous or compact.
  std::optional<Chunking> chunking;
};

void ReadDataspace(SourceWindow& window, Dataset& dataset) {
  const auto version = window.Fixed<std::uint8_t>();
  const std::size_t rank = window.Fixed<std::uint8_t>();
  const auto flags = window.Fixed<std::uint8_t>();
  const auto type = window.Fixed<std::uint8_t>();
  if (version < 1 || version > 2 || rank > hdf5::kMaxRank) return window.Fail();
  if (version == 1) window.Skip(4);
  if (version == 2 && type == 2) return;  // A null dataspace has no elements.
  for (std::size_t i = 0; i < rank; ++i) dataset.dimensions.push_back(window.Fixed<std::uint64_t>());
  dataset.maximum = dataset.dimensions;
  if ((flags & 1) != 0) {
    for (std::uint64_t& maximum : dataset.maximum) maximum = window.Fixed<std::uint64_t>();
  }
  dataset.has_space = true;
}

std::optional<Dtype> ReadDatatype(SourceWindow& window) {
  const int kind = window.Fixed<std::uint8_t>() & 0xf;
  const std::uint32_t bits = window.Fixed<std::uint16_t>() | std::uint32_t{window.Fixed<std::uint8_t>()} << 16;
  const auto bytes = window.Fixed<std::uint32_t>();
  const std::string descr = (bits & 1) != 0 ? ">" : "<";
  switch (kind) {
    case 0:
      return DtypeFromNumpy(descr + ((bits & 8) != 0 ? "i" : "u") + std::to_string(bytes));
    case 1: {
      window.Skip(5);  // Bit offset, precision, exponent location.
      const auto exponent_bits = window.Fixed<std::uint8_t>();
      if (bytes == 1) return DtypeFromName(exponent_bits == 4 ? "float8_e4m3fn" : "float8_e5m2");
      if (bytes == 2 && exponent_bits == 8) return DtypeFromName("bfloat16");
      return DtypeFromNumpy(descr + "f" + std::to_string(bytes));
    }
    case 8:  // An enumeration: of two members in a byte it is what h5py writes for bool.
      return bytes == 1 && (bits & 0xffff) == 2 ? DtypeFromName("bool") : DtypeFromNumpy("<i" + std::to_string(bytes));
    default:
      return std::nullopt;
  }
}

void ReadFilters(SourceWindow& window, Dataset& dataset) {
  const auto version = window.Fixed<std::uint8_t>();
  const int count = window.Fixed<std::uint8_t>();
  dataset.filtered = count > 0;
  if (version == 1) window.Skip(6);
  for (int i = 0; i < count && window.ok(); ++i) {
    const auto id = window.Fixed<std::uint16_t>();
    std::uint64_t name_bytes = version == 1 || id >= 256 ? window.Fixed<std::uint16_t>() : 0;
    window.Skip(2);
    const std::uint64_t values = window.Fixed<std::uint16_t>();
    if (version == 1) name_bytes = (name_bytes + 7) / 8 * 8;
    window.Skip(name_bytes + 4 * (version == 1 ? (values + 1) / 2 * 2 : values));
    if (const auto name = FilterName(id)) dataset.compressed_by = *name;
  }
}

// The chunked class of layout versions 3 and 4.
std::optional<Chunking> ReadChunking(SourceWindow& window, std::uint8_t version) {
  Chunking chunking;
  const std::uint8_t flags = version == 3 ? std::uint8_t{0} : window.Fixed<std::uint8_t>();
  const std::size_t rank = window.Fixed<std::uint8_t>();
  std::uint64_t size_bytes = 4;
  if (version == 3) chunking.address = window.Fixed<std::uint64_t>();
  if (version > 3) size_bytes = window.Fixed<std::uint8_t>();
  if (rank < 2 || rank > hdf5::kMaxRank + 1 || size_bytes == 0 || size_bytes > 8) return std::nullopt;
  for (std::size_t i = 0; i + 1 < rank; ++i) chunking.chunk.push_back(hdf5::Unsigned(window, size_bytes));
  hdf5::Unsigned(window, size_bytes);  // The element's own size.
  if (version == 3) return chunking;
  switch (window.Fixed<std::uint8_t>()) {
    case 1:
      chunking.index = Chunking::Index::kSingle;
      if ((flags & 2) != 0) window.Skip(12);
      break;
    case 2:
      chunking.index = Chunking::Index::kImplicit;
      break;
    case 3:
      chunking.index = Chunking::Index::kFixedArray;
      window.Skip(1);
      break;
    case 4:
      chunking.index = Chunking::Index::kExtensibleArray;
      window.Skip(5);
      break;
    case 5:
      chunking.index = Chunking::Index::kBtree2;
      window.Skip(6);
      break;
    default:
      return std::nullopt;
  }
  chunking.address = window.Fixed<std::uint64_t>();
  return chunking;
}

void ReadDataLayout(SourceWindow& window, Dataset& dataset) {
  const auto version = window.Fixed<std::uint8_t>();
  if (version < 3 || version > 5) return;  // What HDF5 wrote before 1.6.3.
  switch (window.Fixed<std::uint8_t>()) {
    case 0: {
      const std::uint64_t bytes = window.Fixed<std::uint16_t>();
      dataset.whole = {window.position(), bytes};
      break;
    }
    case 1: {
      const auto address = window.Fixed<std::uint64_t>();
      dataset.whole = {address, window.Fixed<std::uint64_t>()};
      break;
    }
    case 2:
      dataset.chunking = ReadChunking(window, version);
      break;
    default:
      break;
  }
}

class FileWalker {
 public:
  FileWalker(SourceWindow& window, Layout& layout) : window_(window), layout_(layout) {}

  // Objects are visited once, under the first path that leads to them.
  void Run(std::uint64_t root) {
    Push("", root);
    while (window_.ok() && !objects_.empty()) {
      const Link object = std::move(objects_.back());
      objects_.pop_back();
      path_bytes_ -= object.name.size();
      if (visited_.insert(object.header).second) Visit(object);
    }
    if (layout_.tensors.empty()) layout_.compressed_by = compressed_by_;
  }

 private:
  void Push(std::string path, std::uint64_t header) {
    path_bytes_ += path.size();
    if (path_bytes_ > kMaxTotalPathBytes || objects_.size() >= hdf5::kMaxItems) return window_.Fail();
    objects_.push_back({std::move(path), header});
  }

  void Visit(const Link& object) {
    std::vector<Link> links;
    Dataset dataset;
    for (const Message& message : HeaderReader(window_).Read(object.header)) {
      if (!window_.ok()) return;
      if (message.shared) continue;
      window_.Seek(message.offset);
      switch (message.type) {
        case kDataspace:
          ReadDataspace(window_, dataset);
          break;
        case kDatatype:
          dataset.dtype = ReadDatatype(window_);
          break;
        case kDataLayout:
          ReadDataLayout(window_, dataset);
          break;
        case kFilters:
          ReadFilters(window_, dataset);
          break;
        case kLink:
          hdf5::ReadLink(window_, links);
          break;
        case kLinkInfo:
          VisitLinkInfo(links);
          break;
        case kSymbolTable: {
          const auto btree = window_.Fixed<std::uint64_t>();
          hdf5::ReadSymbolTable(window_, btree, window_.Fixed<std::uint64_t>(), links);
          break;
        }
        default:
          break;
      }
    }
    if (!window_.ok()) return;
    AddTensor(object.name, dataset);
    for (auto link = links.rbegin(); link != links.rend() && window_.ok(); ++link) {
      if (object.name.size() + link->name.size() + 1 > kMaxPathBytes) continue;
      Push(object.name.empty() ? link->name : object.name + '/' + link->name, link->header);
    }
  }

  void VisitLinkInfo(std::vector<Link>& links) {
    if (window_.Fixed<std::uint8_t>() != 0) return window_.Fail();
    if ((window_.Fixed<std::uint8_t>() & 1) != 0) window_.Skip(8);
    const auto heap = window_.Fixed<std::uint64_t>();
    const auto name_index = window_.Fixed<std::uint64_t>();
    if (window_.ok() && heap != hdf5::kUndefined && name_index != hdf5::kUndefined) {
      hdf5::ReadDenseLinks(window_, heap, name_index, links);
    }
  }

  void AddTensor(const std::string& name, Dataset& dataset) {
    if (dataset.filtered) {
      if (!dataset.compressed_by.empty()) compressed_by_ = dataset.compressed_by;
      return;
    }
    if (!dataset.dtype || !dataset.has_space || layout_.tensors.size() >= hdf5::kMaxItems) return;
    const Dtype& dtype = *dataset.dtype;
    if (dataset.whole) {
      if (TensorBytes(dataset.dimensions, dtype.item_bytes) != dataset.whole->bytes) return;
      layout_.tensors.push_back(
          MakeTensor(name, dtype, std::move(dataset.dimensions), dataset.whole->offset, dataset.whole->bytes));
    } else if (dataset.chunking) {
      AddChunked(name, dataset);
    }
  }

  void AddChunked(const std::string& name, Dataset& dataset) {
    Chunking& chunking = *dataset.chunking;
    const bool empty_chunk = std::find(chunking.chunk.begin(), chunking.chunk.end(), 0u) != chunking.chunk.end();
    const auto chunk_bytes = TensorBytes(chunking.chunk, dataset.dtype->item_bytes);
    if (empty_chunk || !chunk_bytes || chunking.chunk.size() != dataset.dimensions.size()) return;
    chunking.chunk_bytes = *chunk_bytes;
    chunking.dimensions = dataset.dimensions;
    chunking.maximum = std::move(dataset.maximum);
    Tensor tensor = MakeTensor(name, *dataset.dtype, std::move(dataset.dimensions), 0, 0);
    tensor.extents = hdf5::ReadChunks(window_, chunking);
    if (window_.ok() && !tensor.extents.empty()) layout_.tensors.push_back(std::move(tensor));
  }

  SourceWindow& window_;
  Layout& layout_;
  std::vector<Link> objects_;
  std::size_t path_bytes_ = 0;
  std::unordered_set<std::uint64_t> visited_;
  std::string compressed_by_;
};

// Takes the superblock and returns the address of the root group's header.
std::uint64_t ReadSuperblock(SourceWindow& window) {
  const auto version = window.Fixed<std::uint8_t>();
  if (version > 3) window.Fail();
  if (version < 2) window.Skip(4);
  const auto offset_bytes = window.Fixed<std::uint8_t>();
  const auto length_bytes = window.Fixed<std::uint8_t>();
  if (version < 2) {
    window.Skip(version == 0 ? 9 : 13);
  } else {
    window.Skip(1);
  }
  if (offset_bytes != 8 || length_bytes != 8 || window.Fixed<std::uint64_t>() != 0) window.Fail();  // Base address.
  window.Skip(version < 2 ? 32 : 16);
  return window.Fixed<std::uint64_t>();
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "hdf5"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    if (AsText(window.Take(kSignature.size())) != kSignature) return NothingFrom<Layout>(window);
    const std::uint64_t root = ReadSuperblock(window);
    Layout layout;
    layout.format = format();
    FileWalker(window, layout).Run(root);
    if (!window.ok()) return NothingFrom<Layout>(window);
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& Hdf5Parser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
