// SPDX-License-Identifier: Apache-2.0
#include "index/lmdb_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/serial.h"

namespace stepfs::index {
namespace {

// Names as in mdb.c of LMDB 0.9.
constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kDataVersion = 1;
constexpr std::uint16_t kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08;
constexpr std::uint16_t kBigData = 0x01, kSubData = 0x02;
constexpr std::uint16_t kIntegerKey = 0x08;
constexpr std::size_t kPageHeader = 16, kNodeHeader = 8, kTreeRecord = 48;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
constexpr unsigned kMaxDepth = 32;

// MDB_db: the root of one tree and what it should contain.
struct Tree {
  std::uint32_t pad;
  std::uint16_t flags, depth;
  std::uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;

  static Tree Parse(Bytes record) {
    ByteReader reader(record);
    Tree tree;
    tree.pad = reader.Fixed<std::uint32_t>();
    tree.flags = reader.Fixed<std::uint16_t>();
    tree.depth = reader.Fixed<std::uint16_t>();
    tree.branch_pages = reader.Fixed<std::uint64_t>();
    tree.leaf_pages = reader.Fixed<std::uint64_t>();
    tree.overflow_pages = reader.Fixed<std::uint64_t>();
    tree.entries = reader.Fixed<std::uint64_t>();
    tree.root = reader.Fixed<std::uint64_t>();
    return tree;
  }
};

struct Meta {
  Tree free, main;
  std::uint64_t last_page, transaction;
};

struct Node {
  std::uint32_t low;  // Leaf: size of the data. Branch: low half of the child's page number.
  std::uint16_t flags;
  std::string_view key;
  Bytes rest;  // From the end of the key to the end of the page.
};

class Checker {
 public:
  Checker(int fd, const std::string& path, std::uint64_t file_bytes) : fd_(fd), path_(path), file_bytes_(file_bytes) {}

  Status Run() {
    STEPFS_ASSIGN_OR_RETURN(const Meta meta, ReadMetas());
    last_page_ = meta.last_page;
    used_.assign(static_cast<std::size_t>(file_bytes_ / page_bytes_), false);
    // Free pages last: by then all pages in use are known.
    STEPFS_RETURN_IF_ERROR(CheckTree(meta.main, Kind::kMain));
    return CheckTree(meta.free, Kind::kFree);
  }

 private:
  enum class Kind { kMain, kTable, kFree };
  struct Counts {
    std::uint64_t branch_pages = 0, leaf_pages = 0, overflow_pages = 0, entries = 0;
  };
  using Bound = std::optional<std::string>;

  Status Bad(const std::string& what) const { return Status::Corruption(path_ + ": " + what); }
  Status BadPage(std::uint64_t page, const char* what) const {
    return Bad("page " + std::to_string(page) + ": " + what);
  }

  Status Read(std::uint64_t offset, MutableBytes out) const {
    while (!out.empty()) {
      const ssize_t count = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Status::FromErrno(errno, "read " + path_);
      if (count == 0) return Bad("shorter than its pages say");
      offset += static_cast<std::uint64_t>(count);
      out = out.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }

  Result<Meta> ReadMeta(std::uint64_t offset) {
    constexpr std::size_t kMetaBytes = kPageHeader + 24 + 2 * kTreeRecord + 16;
    std::byte raw[kMetaBytes];
    STEPFS_RETURN_IF_ERROR(Read(offset, raw));
    const Bytes bytes(raw);
    ByteReader reader(bytes);
    reader.Raw(10);
    const auto flags = reader.Fixed<std::uint16_t>();
    reader.Raw(4);
    if (!(flags & kMeta) || reader.Fixed<std::uint32_t>() != kMagic) return Bad("no LMDB meta page");
    if (const auto version = reader.Fixed<std::uint32_t>(); version != kDataVersion) {
      return Status::Unsupported(path_ + ": LMDB data version " + std::to_string(version) + ", expected 1");
    }
    reader.Raw(16);  // Address and size of the writer's map.
    Meta meta;
    meta.free = Tree::Parse(reader.Raw(kTreeRecord));
    meta.main = Tree::Parse(reader.Raw(kTreeRecord));
    meta.last_page = reader.Fixed<std::uint64_t>();
    meta.transaction = reader.Fixed<std::uint64_t>();
    return meta;
  }

  Result<Meta> ReadMetas() {
    STEPFS_ASSIGN_OR_RETURN(const Meta first, ReadMeta(0));
    page_bytes_ = first.free.pad;
    if (page_bytes_ < 512 || page_bytes_ > 65536 || (page_bytes_ & (page_bytes_ - 1)) != 0) {
      return Bad("impossible page size " + std::to_string(page_bytes_));
    }
    STEPFS_ASSIGN_OR_RETURN(const Meta second, ReadMeta(page_bytes_));
    if (second.free.pad != page_bytes_) return Bad("meta pages disagree about the page size");
    return first.transaction < second.transaction ? second : first;
  }

  // Notes that the run belongs to something. Refuses what is outside the file or taken already.
  Status Take(std::uint64_t page, std::uint64_t count) {
    if (page < 2 || page > last_page_ || page >= used_.size() || count > used_.size() - page ||
        count > last_page_ - page + 1) {
      return BadPage(page, "lies outside the file");
    }
    for (std::uint64_t i = page; i < page + count; ++i) {
      if (used_[i]) return BadPage(i, "is used twice");
      used_[i] = true;
    }
    return {};
  }

  Status CheckTree(const Tree& tree, Kind kind) {
    if (tree.depth > kMaxDepth || (tree.root == kNoPage) != (tree.depth == 0)) return Bad("impossible tree depth");
    const std::uint16_t expected_flags = kind == Kind::kFree ? kIntegerKey : 0;
    if ((tree.flags & 0x7f) != expected_flags) return Bad("unexpected tree flags");
    Counts counts;
    if (tree.root != kNoPage) STEPFS_RETURN_IF_ERROR(CheckPage(tree.root, tree.depth, kind, {}, {}, counts));
    if (counts.branch_pages != tree.branch_pages || counts.leaf_pages != tree.leaf_pages ||
        counts.overflow_pages != tree.overflow_pages || counts.entries != tree.entries) {
      return Bad("a tree has other page or entry counts than its record says");
    }
    return {};
  }

  static bool Less(Kind kind, std::string_view a, std::string_view b) {
    if (kind != Kind::kFree) return a < b;
    return LoadLittle<std::uint64_t>(AsBytes(a).data()) < LoadLittle<std::uint64_t>(AsBytes(b).data());
  }

  // Keys of the page must be in [lower, upper). `levels` is 1 at a leaf.
  Status CheckPage(std::uint64_t number, unsigned levels, Kind kind, const Bound& lower, const Bound& upper,
                   Counts& counts) {
    STEPFS_RETURN_IF_ERROR(Take(number, 1));
    ByteVector page(page_bytes_);
    STEPFS_RETURN_IF_ERROR(Read(number * page_bytes_, page));
    if (LoadLittle<std::uint64_t>(page.data()) != number) return BadPage(number, "carries another number");
    const auto flags = LoadLittle<std::uint16_t>(page.data() + 10);
    const std::size_t low = LoadLittle<std::uint16_t>(page.data() + 12);
    const std::size_t high = LoadLittle<std::uint16_t>(page.data() + 14);
    if (flags != (levels > 1 ? kBranch : kLeaf)) return BadPage(number, "has the wrong type");
    if (low < kPageHeader || low % 2 != 0 || low > high || high > page_bytes_) return BadPage(number, "has bad bounds");
    const std::size_t node_count = (low - kPageHeader) / 2;
    if (node_count == 0 || (levels > 1 && node_count < 2)) return BadPage(number, "has too few nodes");
    ++(levels > 1 ? counts.branch_pages : counts.leaf_pages);

    std::vector<Node> nodes(node_count);
    for (std::size_t i = 0; i < node_count; ++i) {
      STEPFS_RETURN_IF_ERROR(ParseNode(page, i, high, number, nodes[i]));
      if (levels > 1 && i == 0) continue;  // The first key of a branch is not used.
      const std::string_view key = nodes[i].key;
      if (key.empty() || (kind == Kind::kFree && key.size() != 8)) return BadPage(number, "has a bad key");
      const bool has_previous = i > (levels > 1 ? 1u : 0u);
      if ((has_previous && !Less(kind, nodes[i - 1].key, key)) || (lower && Less(kind, key, *lower)) ||
          (upper && !Less(kind, key, *upper))) {
        return BadPage(number, "has keys out of order");
      }
    }
    for (std::size_t i = 0; i < node_count; ++i) {
      if (levels > 1) {
        const std::uint64_t child = nodes[i].low | static_cast<std::uint64_t>(nodes[i].flags) << 32;
        const Bound child_lower = i == 0 ? lower : Bound(nodes[i].key);
        const Bound child_upper = i + 1 == node_count ? upper : Bound(nodes[i + 1].key);
        STEPFS_RETURN_IF_ERROR(CheckPage(child, levels - 1, kind, child_lower, child_upper, counts));
      } else {
        ++counts.entries;
        STEPFS_RETURN_IF_ERROR(CheckData(nodes[i], kind, number, counts));
      }
    }
    return {};
  }

  Status ParseNode(Bytes page, std::size_t index, std::size_t high, std::uint64_t number, Node& node) const {
    const std::size_t offset = LoadLittle<std::uint16_t>(page.data() + kPageHeader + 2 * index);
    if (offset < high || offset % 2 != 0 || offset + kNodeHeader > page.size()) {
      return BadPage(number, "has a node outside itself");
    }
    node.low = LoadLittle<std::uint32_t>(page.data() + offset);
    node.flags = LoadLittle<std::uint16_t>(page.data() + offset + 4);
    const std::size_t key_bytes = LoadLittle<std::uint16_t>(page.data() + offset + 6);
    if (key_bytes > page.size() - offset - kNodeHeader) return BadPage(number, "has a key outside itself");
    node.key = AsText(page.subspan(offset + kNodeHeader, key_bytes));
    node.rest = page.subspan(offset + kNodeHeader + key_bytes);
    return {};
  }

  Status CheckData(const Node& node, Kind kind, std::uint64_t number, Counts& counts) {
    if (node.flags != 0 && node.flags != kBigData && node.flags != kSubData) return BadPage(number, "has a bad node");
    if ((node.flags == kSubData) != (kind == Kind::kMain)) return BadPage(number, "has a node of the wrong kind");
    if (node.flags == kBigData) return CheckOverflow(node, kind, number, counts);
    if (node.low > node.rest.size()) return BadPage(number, "has data outside itself");
    const Bytes data = node.rest.first(node.low);
    if (kind == Kind::kMain) {
      if (data.size() != kTreeRecord) return BadPage(number, "has a bad tree record");
      return CheckTree(Tree::Parse(data), Kind::kTable);
    }
    return kind == Kind::kFree ? CheckFreeList(data, number) : Status();
  }

  Status CheckOverflow(const Node& node, Kind kind, std::uint64_t number, Counts& counts) {
    if (node.rest.size() < 8) return BadPage(number, "has data outside itself");
    const auto first = LoadLittle<std::uint64_t>(node.rest.data());
    const std::uint64_t needed = (kPageHeader + std::uint64_t{node.low} + page_bytes_ - 1) / page_bytes_;
    STEPFS_RETURN_IF_ERROR(Take(first, 1));
    std::byte header[kPageHeader];
    STEPFS_RETURN_IF_ERROR(Read(first * page_bytes_, header));
    const auto pages = LoadLittle<std::uint32_t>(header + 12);
    if (LoadLittle<std::uint64_t>(header) != first || LoadLittle<std::uint16_t>(header + 10) != kOverflow ||
        pages < needed) {
      return BadPage(first, "is not the overflow page it should be");
    }
    if (pages > 1) STEPFS_RETURN_IF_ERROR(Take(first + 1, pages - 1));
    counts.overflow_pages += pages;
    if (kind != Kind::kFree) return {};
    ByteVector data(node.low);  // Inside the file: Take has seen all its pages.
    STEPFS_RETURN_IF_ERROR(Read(first * page_bytes_ + kPageHeader, data));
    return CheckFreeList(data, first);
  }

  // A count, then that many page numbers. Pages at the end that were never written may lie outside the file.
  Status CheckFreeList(Bytes data, std::uint64_t number) {
    ByteReader reader(data);
    const auto count = reader.Fixed<std::uint64_t>();
    if (!reader.ok() || count > reader.remaining() / 8) return BadPage(number, "has a bad list of free pages");
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto page = reader.Fixed<std::uint64_t>();
      if (page < 2 || page > last_page_) return BadPage(page, "is free but outside the file");
      if (page < used_.size()) STEPFS_RETURN_IF_ERROR(Take(page, 1));
    }
    return {};
  }

  const int fd_;
  const std::string& path_;
  const std::uint64_t file_bytes_;
  std::uint64_t page_bytes_ = 0;
  std::uint64_t last_page_ = 0;
  std::vector<bool> used_;  // One bit for each page that the file really has.
};

}  // namespace

Status CheckLmdbFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? Status() : Status::FromErrno(errno, "open " + path);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } const closer{fd};
  struct stat attributes;
  if (::fstat(fd, &attributes) < 0) return Status::FromErrno(errno, "fstat " + path);
  if (attributes.st_size == 0) return {};
  // The pages are visited in tree order; have the kernel fetch them in file order meanwhile.
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  return Checker(fd, path, static_cast<std::uint64_t>(attributes.st_size)).Run();
}

}  // namespace stepfs::index
