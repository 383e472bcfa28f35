// SPDX-License-Identifier: Apache-2.0
#include "codec/codec.h"

#include "codec/exponent.h"
#include "codec/lmc.h"
#include "codec/zstd_codec.h"

namespace stepfs::codec {

std::string_view Name(CodecId id) {
  switch (id) {
    case CodecId::kRaw:
      return "raw";
    case CodecId::kEqual:
      return "equal";
    case CodecId::kZstd:
      return "zstd";
    case CodecId::kLmc:
      return "lmc";
    case CodecId::kExponent:
      return "exponent";
    case CodecId::kMix:
      return "mix";
    case CodecId::kLstm:
      return "lstm";
    case CodecId::kExcp:
      return "excp";
    case CodecId::kFill:
      return "fill";
  }
  return "unknown";
}

const ChunkCodec* DecoderOf(CodecId id) {
  static const std::unique_ptr<ChunkCodec> zstd = NewZstdCodec();
  switch (id) {
    case CodecId::kZstd:
      return zstd.get();
    case CodecId::kLmc:
      return &LmcDecoder();
    case CodecId::kExponent:
      return &ExponentDecoder();
    default:
      return nullptr;
  }
}

}  // namespace stepfs::codec
