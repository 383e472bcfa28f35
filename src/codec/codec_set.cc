// SPDX-License-Identifier: Apache-2.0
#include "codec/codec_set.h"

#include <array>

#include "codec/exponent.h"
#include "codec/lmc.h"
#include "codec/zstd_codec.h"

namespace stepfs::codec {
namespace {

// There is about one small chunk of plain bytes in a window of 32 MiB: at this level it takes a few milliseconds.
constexpr int kSmallPlainLevel = 12;
constexpr std::size_t kSmallPlainBytes = 64 * 1024;

constexpr int kBulkLevel = 3;

struct NamedChoice {
  CodecChoice choice;
  std::string_view name;
  bool encodes;  // In this build.
};
constexpr std::array<NamedChoice, 7> kChoices = {{
    {CodecChoice::kDefault, "default", true},
    {CodecChoice::kLmc, "lmc", true},
    {CodecChoice::kZstd, "zstd", true},
    {CodecChoice::kRaw, "raw", true},
    {CodecChoice::kMax, "max", false},
    {CodecChoice::kLstm, "lstm", false},
    {CodecChoice::kExcp, "excp", false},
}};

bool IsFloat(ElementType element) {
  switch (element) {
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
    case ElementType::kFloat32:
    case ElementType::kFloat64:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
    case ElementType::kComplex64:
    case ElementType::kComplex128:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<CodecChoice> CodecChoiceFromName(std::string_view name) {
  for (const NamedChoice& known : kChoices) {
    if (known.name == name && known.encodes) return known.choice;
  }
  return std::nullopt;
}

std::string_view Name(CodecChoice choice) { return kChoices[static_cast<std::size_t>(choice)].name; }

const ChunkCodec* CodecSet::Own(std::unique_ptr<ChunkCodec> codec) {
  return owned_.emplace_back(std::move(codec)).get();
}

CodecSet CodecSet::Of(const EncodeOptions& options) {
  CodecSet set;
  if (options.codec == CodecChoice::kRaw) return set;
  const ChunkCodec* zstd = set.Own(NewZstdCodec(kBulkLevel));
  set.plain_ = {zstd};
  set.small_plain_ = {set.Own(NewZstdCodec(kSmallPlainLevel))};
  if (options.codec == CodecChoice::kZstd) {
    set.floats_ = {zstd};
    set.integers_ = {zstd};
    return set;
  }
  const ChunkCodec* tensors = set.Own(
      options.codec == CodecChoice::kLmc ? NewLmcCodec({.subtract = options.lmc_subtract}) : NewExponentCodec());
  set.floats_ = {tensors};
  set.integers_ = {tensors, zstd};  // Indices, masks and token ids repeat in ways that only a match finder sees.
  return set;
}

CodecSet CodecSet::Single(std::unique_ptr<ChunkCodec> codec, bool wants_context) {
  CodecSet set;
  set.floats_ = {set.Own(std::move(codec))};
  set.integers_ = set.plain_ = set.small_plain_ = set.floats_;
  set.wants_context_ = wants_context;
  return set;
}

const std::vector<const ChunkCodec*>& CodecSet::CandidatesFor(ElementType element, std::size_t chunk_bytes) const {
  if (element == ElementType::kBytes) return chunk_bytes <= kSmallPlainBytes ? small_plain_ : plain_;
  return IsFloat(element) ? floats_ : integers_;
}

}  // namespace stepfs::codec
