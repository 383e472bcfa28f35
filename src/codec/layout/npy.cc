// SPDX-License-Identifier: Apache-2.0
//
// npy (numpy.lib.format, versions 1 to 3): magic, version, header length, a Python dict literal with descr,
// fortran_order and shape, then the array.
#include <charconv>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeader = 64 * 1024;
constexpr std::size_t kMaxRank = 64;

// What follows `'key':` and any spaces; empty when the key is not there.
std::string_view ValueOf(std::string_view header, std::string_view key) {
  const auto at = header.find(key);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size());
  const auto begin = header.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : header.substr(begin);
}

// "(128, 32), ..." or "(5,), ..." or "()".
std::optional<std::vector<std::uint64_t>> ParseTuple(std::string_view text) {
  std::vector<std::uint64_t> shape;
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  while (true) {
    const auto begin = text.find_first_not_of(", ");
    if (begin == std::string_view::npos || shape.size() > kMaxRank) return std::nullopt;
    text.remove_prefix(begin);
    if (text.starts_with(')')) return shape;
    std::uint64_t dimension = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), dimension);
    if (parsed.ec != std::errc()) return std::nullopt;
    shape.push_back(dimension);
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  }
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "npy"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    const bool magic = AsText(window.Take(kMagic.size())) == kMagic;
    const auto version = window.Fixed<std::uint16_t>() & 0xff;
    if (!magic || !window.ok()) return NothingFrom<Layout>(window);
    const std::uint64_t header_bytes = version == 1 ? window.Fixed<std::uint16_t>() : window.Fixed<std::uint32_t>();
    if (header_bytes > kMaxHeader) return std::optional<Layout>();
    const std::string_view header = AsText(window.Take(header_bytes));
    if (!window.ok()) return NothingFrom<Layout>(window);

    std::string_view descr = ValueOf(header, "'descr':");
    if (!descr.starts_with('\'')) return std::optional<Layout>();  // Records have a list here.
    descr.remove_prefix(1);
    const auto dtype = DtypeFromNumpy(descr.substr(0, descr.find('\'')));
    auto shape = ParseTuple(ValueOf(header, "'shape':"));
    if (!dtype || !shape) return std::optional<Layout>();
    const auto nbytes = TensorBytes(*shape, dtype->item_bytes);
    if (!nbytes) return std::optional<Layout>();
    Layout layout;
    layout.format = format();
    layout.tensors.push_back(MakeTensor({}, *dtype, std::move(*shape), window.position(), *nbytes));
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& NpyParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
