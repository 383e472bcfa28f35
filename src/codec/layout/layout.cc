// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/layout.h"

#include <algorithm>
#include <initializer_list>

#include "base/serial.h"
#include "codec/layout/parsers.h"
#include "codec/layout/siblings.h"
#include "codec/layout/statistics.h"

namespace stepfs::codec {
namespace {

constexpr std::uint64_t kMinGuessedGap = 4096;  // Between tensors.
constexpr std::uint64_t kMinGuessedFile = 512;  // Where there are none.

Digest Fingerprint(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return {};
  std::vector<std::string> entries;
  entries.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    ByteWriter writer;
    writer.String(tensor.name);
    writer.Fixed(static_cast<std::uint8_t>(tensor.element));
    writer.String(tensor.dtype);
    writer.Varint(tensor.shape.size());
    for (std::uint64_t dimension : tensor.shape) writer.Varint(dimension);
    entries.push_back(writer.Take());
  }
  std::sort(entries.begin(), entries.end());
  DigestBuilder builder;
  for (const std::string& entry : entries) builder.Update(AsBytes(entry));
  return builder.Finish();
}

// Keeps the tensors whose extents lie inside the file and do not overlap those of a tensor that was kept before.
void DropImpossible(std::uint64_t file_bytes, std::vector<Tensor>& tensors) {
  struct Place {
    std::uint64_t offset;
    std::uint64_t end;
    std::size_t tensor;
  };
  std::vector<Place> places;
  std::vector<bool> dropped(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    dropped[i] = tensors[i].extents.empty();
    for (const TensorExtent& extent : tensors[i].extents) {
      if (extent.nbytes == 0 || extent.offset > file_bytes || extent.nbytes > file_bytes - extent.offset) {
        dropped[i] = true;
        break;
      }
    }
    if (dropped[i]) continue;
    for (const TensorExtent& extent : tensors[i].extents)
      places.push_back({extent.offset, extent.offset + extent.nbytes, i});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
  std::uint64_t covered = 0;
  for (const Place& place : places) {
    if (dropped[place.tensor]) continue;
    if (place.offset < covered) {
      dropped[place.tensor] = true;
    } else {
      covered = place.end;
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (dropped[i]) continue;
    if (kept != i) tensors[kept] = std::move(tensors[i]);
    ++kept;
  }
  tensors.resize(kept);
}

bool ByFirstOffset(const Tensor& a, const Tensor& b) { return a.extents[0].offset < b.extents[0].offset; }

// Adds what statistics find in the stretches that no tensor covers.
Status GuessGaps(const ByteSource& file, Layout& layout) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (const Tensor& tensor : layout.tensors) {
    for (const TensorExtent& extent : tensor.extents) extents.emplace_back(extent.offset, extent.nbytes);
  }
  const std::uint64_t smallest = extents.empty() ? kMinGuessedFile : kMinGuessedGap;
  extents.emplace_back(file.size(), 0);
  std::sort(extents.begin(), extents.end());
  std::uint64_t at = 0;
  for (const auto& [offset, nbytes] : extents) {
    if (offset - at >= smallest) {
      STEPFS_ASSIGN_OR_RETURN(auto guessed, GuessTensors(file, at, offset));
      for (Tensor& tensor : guessed) layout.tensors.push_back(std::move(tensor));
    }
    at = offset + nbytes;
  }
  std::sort(layout.tensors.begin(), layout.tensors.end(), ByFirstOffset);
  return {};
}

}  // namespace

void Normalize(std::uint64_t file_bytes, Layout& layout) {
  for (Tensor& tensor : layout.tensors) {
    std::sort(tensor.extents.begin(), tensor.extents.end(),
              [](const TensorExtent& a, const TensorExtent& b) { return a.offset < b.offset; });
  }
  DropImpossible(file_bytes, layout.tensors);
  std::sort(layout.tensors.begin(), layout.tensors.end(), ByFirstOffset);
  layout.fingerprint = Fingerprint(layout.tensors);
}

void Relocate(std::string_view prefix, std::uint64_t offset, Layout& layout) {
  for (Tensor& tensor : layout.tensors) {
    if (!prefix.empty()) tensor.name.insert(0, tensor.name.empty() ? prefix : std::string(prefix) + '.');
    for (TensorExtent& extent : tensor.extents) {
      // An extent that does not fit 64 bits becomes one beyond any file, which Normalize drops.
      extent.offset = offset > ~extent.offset ? ~std::uint64_t{0} : extent.offset + offset;
    }
  }
}

namespace {

Result<std::optional<Layout>> TryEach(std::initializer_list<const LayoutParser*> parsers, const ByteSource& file) {
  for (const LayoutParser* parser : parsers) {
    STEPFS_ASSIGN_OR_RETURN(auto layout, parser->Parse(file));
    if (layout) return layout;
  }
  return std::optional<Layout>();
}

}  // namespace

Result<std::optional<Layout>> ParseTensorFile(const ByteSource& file) {
  return TryEach({&SafetensorsParser(), &TorchZipParser(), &TorchLegacyParser(), &NpyParser(), &Hdf5Parser(),
                  &GgufParser(), &PickleParser(), &MsgpackParser(), &OnnxParser()},
                 file);
}

namespace {

Result<Layout> Detect(const ByteSource& file, const Siblings* siblings) {
  STEPFS_ASSIGN_OR_RETURN(auto parsed, ParseTensorFile(file));
  if (!parsed && siblings != nullptr) parsed = OnnxDataLayout(*siblings);
  if (!parsed && siblings != nullptr) parsed = TensorFlowDataLayout(*siblings);
  if (!parsed) {
    STEPFS_ASSIGN_OR_RETURN(parsed, TryEach({&ZipParser(), &CompressedParser()}, file));
  }
  Layout layout;
  layout.format = "bytes";
  if (parsed) layout = std::move(*parsed);
  if (siblings != nullptr && layout.format == "torch-distcp") NameDistcpTensors(*siblings, layout);
  Normalize(file.size(), layout);
  if (layout.compressed_by.empty()) STEPFS_RETURN_IF_ERROR(GuessGaps(file, layout));
  return layout;
}

}  // namespace

Result<Layout> DetectLayout(const ByteSource& file) { return Detect(file, nullptr); }
Result<Layout> DetectLayout(const ByteSource& file, const Siblings& siblings) { return Detect(file, &siblings); }

}  // namespace stepfs::codec
