// SPDX-License-Identifier: Apache-2.0
//
// Zips of files that hold tensors: npz (npy files), Stable-Baselines3 (torch zips), Keras 3 (an HDF5 file). Members
// must be stored; what is deflated is compressed input.
#include <iterator>

#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"
#include "codec/layout/zip_directory.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::uint32_t kLocalHeader = 0x04034b50;

std::string_view MethodName(std::uint16_t method) {
  switch (method) {
    case 0:
      return {};
    case 12:
      return "bzip2";
    case 14:
      return "lzma";
    case 93:
      return "zstd";
    default:
      return "deflate";
  }
}

std::string_view WithoutExtension(std::string_view name) {
  const auto dot = name.rfind('.');
  const auto slash = name.rfind('/');
  const bool extension =
      dot != std::string_view::npos && dot != 0 && (slash == std::string_view::npos || dot > slash + 1);
  return extension ? name.substr(0, dot) : name;
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "zip"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    if (window.Fixed<std::uint32_t>() != kLocalHeader) return NothingFrom<Layout>(window);
    STEPFS_ASSIGN_OR_RETURN(const auto directory, ReadZipDirectory(file, file.size()));
    if (!directory || directory->begin != 0) return std::optional<Layout>();

    std::vector<Part> parts;
    Layout layout;
    layout.format = "npz";
    std::uint64_t compressed_bytes = 0;
    std::size_t tensors = 0;
    for (const ZipMember& member : directory->members) {
      if (member.method != 0) {
        compressed_bytes += std::min(member.stored_bytes, file.size());
        if (2 * compressed_bytes > file.size()) layout.compressed_by = MethodName(member.method);
        continue;
      }
      if (member.stored_bytes == 0) continue;
      STEPFS_ASSIGN_OR_RETURN(auto part, ParseMember(file, member));
      if (!part || tensors + part->layout.tensors.size() > kMaxTensors) continue;
      if (part->layout.format != "npy") layout.format = format();
      if (!layout.step) layout.step = part->layout.step;
      tensors += part->layout.tensors.size();
      if (!part->layout.tensors.empty()) parts.push_back(std::move(*part));
    }
    if (parts.empty() && layout.compressed_by.empty()) layout.format = format();
    Merge(std::move(parts), layout);
    return std::optional(std::move(layout));
  }

 private:
  struct Part {
    std::string_view name;
    Layout layout;
  };

  static Result<std::optional<Part>> ParseMember(const ByteSource& file, const ZipMember& member) {
    STEPFS_ASSIGN_OR_RETURN(const auto data, ZipDataOffset(file, member));
    if (!data) return std::optional<Part>();
    const SubSource content(file, *data, member.stored_bytes);
    STEPFS_ASSIGN_OR_RETURN(auto layout, ParseTensorFile(content));
    if (!layout) return std::optional<Part>();
    Normalize(content.size(), *layout);
    Relocate({}, *data, *layout);
    return std::optional(Part{WithoutExtension(member.name), std::move(*layout)});
  }

  // The member's name stands before its tensors' names where more than one member has tensors, or they have no names.
  static void Merge(std::vector<Part> parts, Layout& layout) {
    for (Part& part : parts) {
      const bool prefix = parts.size() > 1 || part.layout.tensors[0].name.empty();
      if (prefix) Relocate(part.name, 0, part.layout);
      layout.tensors.insert(layout.tensors.end(), std::make_move_iterator(part.layout.tensors.begin()),
                            std::make_move_iterator(part.layout.tensors.end()));
    }
  }
};

}  // namespace

const LayoutParser& ZipParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
