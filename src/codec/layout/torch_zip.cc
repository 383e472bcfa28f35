// SPDX-License-Identifier: Apache-2.0
//
// What torch.save writes since 1.6: a zip of stored members under one root folder, of which data.pkl is the pickled
// object and data/<key> are its storages. And .distcp files of torch.distributed.checkpoint, which are such zips (one a
// tensor) or a safetensors file, one after another without padding.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/pickle.h"
#include "codec/layout/source_window.h"
#include "codec/layout/torch_tree.h"
#include "codec/layout/zip_directory.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::uint64_t kMaxSmallZip = std::uint64_t{1} << 20;  // Of a zip before a safetensors file.
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kEndRecord = 0x06054b50;
constexpr std::string_view kPickleName = "data.pkl";

// Appends the tensors of one archive, with offsets in `source`. False when it is not a torch zip.
Result<bool> AddArchive(const ByteSource& source, const ZipDirectory& directory, Layout& layout) {
  const auto pickle = std::find_if(directory.members.begin(), directory.members.end(), [](const ZipMember& member) {
    const auto slash = member.name.rfind('/');
    return member.method == 0 && slash != std::string::npos && member.name.find('/') == slash &&
           std::string_view(member.name).substr(slash + 1) == kPickleName;
  });
  if (pickle == directory.members.end()) return false;
  STEPFS_ASSIGN_OR_RETURN(const auto pickle_at, ZipDataOffset(source, *pickle));
  if (!pickle_at) return false;
  SourceWindow window(source, *pickle_at, *pickle_at + pickle->stored_bytes);
  const auto tree = ReadPickle(window);
  if (!window.failure().ok()) return window.failure();
  if (!tree) return false;

  const std::string prefix = pickle->name.substr(0, pickle->name.size() - kPickleName.size()) + "data/";
  std::unordered_map<std::string_view, const ZipMember*> members;
  for (const ZipMember& member : directory.members) {
    if (member.method == 0 && member.name.starts_with(prefix)) {
      members.emplace(std::string_view(member.name).substr(prefix.size()), &member);
    }
  }
  if (!layout.step) layout.step = PickledStep(*tree);
  for (TorchStorage& storage : CollectTorchStorages(*tree)) {
    const auto member = members.find(storage.key);
    if (member == members.end() || member->second->stored_bytes != storage.nbytes || storage.nbytes == 0) continue;
    STEPFS_ASSIGN_OR_RETURN(const auto offset, ZipDataOffset(source, *member->second));
    if (!offset || layout.tensors.size() >= kMaxTensors) continue;
    layout.tensors.push_back(
        MakeTensor(std::move(storage.name), storage.dtype, std::move(storage.shape), *offset, storage.nbytes));
  }
  return true;
}

Result<bool> Matches(const ByteSource& source, std::uint64_t offset, std::uint32_t signature) {
  std::byte raw[4];
  if (source.size() < sizeof raw || offset > source.size() - sizeof raw) return false;
  STEPFS_RETURN_IF_ERROR(source.ReadAt(offset, raw));
  return LoadLittle<std::uint32_t>(raw) == signature;
}

// The zips that fill source[0, end-1], found from the last to the first by their end records. Empty when they do not
// fill it.
Result<std::vector<ZipDirectory>> ZipsBackward(const ByteSource& source, std::uint64_t end) {
  std::vector<ZipDirectory> zips;
  std::size_t members = 0;
  while (end > 0) {
    STEPFS_ASSIGN_OR_RETURN(auto directory, ReadZipDirectory(source, end));
    if (!directory || directory->begin >= end) return std::vector<ZipDirectory>();
    members += directory->members.size() + 1;
    if (members > 8 * kMaxTensors) return std::vector<ZipDirectory>();
    end = directory->begin;
    zips.push_back(std::move(*directory));
  }
  std::reverse(zips.begin(), zips.end());
  return zips;
}

// The end of the zip that begins at `begin`, if it is a small one without comment; 0 if there is none.
Result<std::uint64_t> SmallZipEnd(const ByteSource& source, std::uint64_t begin) {
  ByteVector bytes(static_cast<std::size_t>(std::min(kMaxSmallZip, source.size() - begin)));
  for (std::uint64_t known = 0; known < bytes.size();) {
    const std::uint64_t grown = std::min<std::uint64_t>(bytes.size(), std::max<std::uint64_t>(4096, 2 * known));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(begin + known, MutableBytes(bytes).subspan(known, grown - known)));
    for (std::uint64_t at = known < 22 ? 0 : known - 21; at + 22 <= grown; ++at) {
      if (LoadLittle<std::uint32_t>(bytes.data() + at) == kEndRecord) return begin + at + 22;
    }
    known = grown;
  }
  return std::uint64_t{0};
}

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "torch-zip"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    STEPFS_ASSIGN_OR_RETURN(const bool zip, Matches(file, 0, kLocalHeader));
    if (!zip) return std::optional<Layout>();
    STEPFS_ASSIGN_OR_RETURN(const auto zips, ZipsBackward(file, file.size()));
    if (zips.empty()) return ParseUpToSafetensors(file);
    Layout layout;
    layout.format = zips.size() == 1 ? format() : "torch-distcp";
    for (const ZipDirectory& directory : zips) {
      STEPFS_ASSIGN_OR_RETURN(const bool torch, AddArchive(file, directory, layout));
      if (!torch) return std::optional<Layout>();
    }
    return std::optional(std::move(layout));
  }

 private:
  // Small zips, then a safetensors file to the end.
  static Result<std::optional<Layout>> ParseUpToSafetensors(const ByteSource& file) {
    Layout layout;
    layout.format = "torch-distcp";
    std::uint64_t at = 0;
    while (at < file.size()) {
      STEPFS_ASSIGN_OR_RETURN(const bool zip, Matches(file, at, kLocalHeader));
      if (!zip) break;
      STEPFS_ASSIGN_OR_RETURN(const std::uint64_t end, SmallZipEnd(file, at));
      if (end == 0) return std::optional<Layout>();
      STEPFS_ASSIGN_OR_RETURN(const auto directory, ReadZipDirectory(file, end));
      if (!directory || directory->begin != at || layout.tensors.size() >= kMaxTensors) return std::optional<Layout>();
      STEPFS_ASSIGN_OR_RETURN(const bool torch, AddArchive(file, *directory, layout));
      if (!torch) return std::optional<Layout>();
      at = end;
    }
    const SubSource rest(file, at, file.size() - at);
    STEPFS_ASSIGN_OR_RETURN(auto tensors, SafetensorsParser().Parse(rest));
    if (!tensors) return std::optional<Layout>();
    Relocate("", at, *tensors);
    layout.tensors.insert(layout.tensors.end(), std::make_move_iterator(tensors->tensors.begin()),
                          std::make_move_iterator(tensors->tensors.end()));
    if (!layout.step) layout.step = tensors->step;
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& TorchZipParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
