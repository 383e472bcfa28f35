// SPDX-License-Identifier: Apache-2.0
//
// Files that are compressed already, told by the magic of the compressor. They have no tensors to find.
#include <algorithm>
#include <array>
#include <cmath>

#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::uint64_t kSampleBytes = 4096;

struct Magic {
  std::string_view bytes;
  std::string_view name;
};
using namespace std::string_view_literals;
constexpr Magic kMagics[] = {
    {"\x1f\x8b\x08"sv, "gzip"},           {"\x28\xb5\x2f\xfd"sv, "zstd"}, {"\x04\x22\x4d\x18"sv, "lz4"},
    {"\xfd\x37\x7a\x58\x5a\x00"sv, "xz"}, {"BZh91AY&SY"sv, "bzip2"},
};

// A node or manifest of OCDBT (tensorstore) that fills the file: magic, u64 length, version, compression (1: zstd).
bool IsCompressedOcdbt(std::string_view head, std::uint64_t file_bytes) {
  if (head.size() < 14 || !(head.starts_with("\x0c\xdb\x20\xde"sv) || head.starts_with("\x0c\xdb\x3a\x2a"sv)))
    return false;
  return LoadLittle<std::uint64_t>(AsBytes(head).data() + 4) == file_bytes && head[13] == 1;
}

// A blosc 1 chunk, as zarr stores them: version 2, and the last of three sizes is that of the file.
bool IsBlosc(std::string_view head, std::uint64_t file_bytes) {
  return head.size() >= 16 && head[0] == 2 && LoadLittle<std::uint32_t>(AsBytes(head).data() + 12) == file_bytes;
}

// zlib has two bytes of header and no magic; its content must also look random.
bool IsZlib(std::string_view head) {
  if (head.size() < 512 || head[0] != 0x78) return false;
  const int check = 0x7800 + static_cast<unsigned char>(head[1]);
  if (check % 31 != 0 || (head[1] & 0x20) != 0) return false;
  std::array<double, 256> counts{};
  for (char c : head) ++counts[static_cast<unsigned char>(c)];
  double bits = 0;
  for (double count : counts) {
    if (count > 0) bits -= count * std::log2(count / static_cast<double>(head.size()));
  }
  return bits > 7.2 * static_cast<double>(head.size());
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "compressed"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    const std::string_view head = AsText(window.Take(std::min(kSampleBytes, file.size())));
    if (!window.ok()) return NothingFrom<Layout>(window);
    std::string_view name;
    for (const Magic& magic : kMagics) {
      if (head.starts_with(magic.bytes)) name = magic.name;
    }
    if (IsCompressedOcdbt(head, file.size())) name = "zstd";
    if (IsBlosc(head, file.size())) name = "blosc";
    if (IsZlib(head)) name = "zlib";
    if (name.empty()) return std::optional<Layout>();
    Layout layout;
    layout.format = format();
    layout.compressed_by = name;
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& CompressedParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
