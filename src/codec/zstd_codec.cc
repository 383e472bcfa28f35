// SPDX-License-Identifier: Apache-2.0
#include "codec/zstd_codec.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <string>

#include "codec/buffer.h"

namespace stepfs::codec {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Contexts cost far more to make than to reuse (tables of a few hundred KiB), so each thread keeps its own.
ZSTD_CCtx* ThreadCompressor() {
  thread_local std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  return context.get();
}
ZSTD_DCtx* ThreadDecompressor() {
  thread_local std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

constexpr std::size_t kShortBase = 128 * 1024;

// A window that holds prefix and target at once: otherwise the beginning of the prefix could not be referred to.
int WindowLog(std::size_t bytes) {
  constexpr int kLeast = 10;  // ZSTD_WINDOWLOG_MIN
  constexpr int kMost = 27;   // What a decoder accepts without being asked (ZSTD_WINDOWLOG_LIMIT_DEFAULT).
  return std::clamp(static_cast<int>(std::bit_width(bytes)), kLeast, kMost);
}

Status CompressorFailure(std::size_t code) {
  return Status::NoMemory(std::string("zstd compressor: ") + ZSTD_getErrorName(code));
}

class ZstdCodec final : public ChunkCodec {
 public:
  explicit ZstdCodec(int level) : level_(level) {}

  CodecId id() const override { return CodecId::kZstd; }

  std::size_t MaxEncodedBytes(ElementType /*element*/, std::size_t target_bytes) const override {
    return ZSTD_compressBound(target_bytes);
  }

  Result<std::size_t> Encode(ElementType /*element*/, Bytes target, const References& references,
                             MutableBytes out) const override {
    ZSTD_CCtx* context = ThreadCompressor();
    if (context == nullptr) return Status::NoMemory("zstd compressor: no memory for a context");
    Bytes base = references.base;
    // zstd codes a prefix that ends where the data begins as one stretch of memory, with other bytes as its result.
    // Where buffers happen to lie must not show, so such a prefix is moved.
    Buffer moved;
    if (!base.empty() && base.data() + base.size() == target.data()) {
      moved.Resize(base.size());
      std::copy(base.begin(), base.end(), moved.span().begin());
      base = moved.bytes();
    }
    // The match finder's tables forget the beginning of a long prefix; long-distance matching has tables of its own.
    const bool long_base = base.size() > kShortBase;
    const std::pair<ZSTD_cParameter, int> parameters[] = {
        {ZSTD_c_compressionLevel, level_},
        {ZSTD_c_windowLog, WindowLog(target.size() + base.size())},
        {ZSTD_c_enableLongDistanceMatching, long_base ? 1 : 0},
        {ZSTD_c_contentSizeFlag, 0},  // The frame knows the size.
        {ZSTD_c_checksumFlag, 0},     // The frame has a checksum.
    };
    ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
    for (const auto& [parameter, value] : parameters) {
      if (const std::size_t code = ZSTD_CCtx_setParameter(context, parameter, value); ZSTD_isError(code)) {
        return CompressorFailure(code);
      }
    }
    if (!base.empty()) {
      if (const std::size_t code = ZSTD_CCtx_refPrefix(context, base.data(), base.size()); ZSTD_isError(code)) {
        return CompressorFailure(code);
      }
    }
    const std::size_t written = ZSTD_compress2(context, out.data(), out.size(), target.data(), target.size());
    if (ZSTD_isError(written)) return CompressorFailure(written);
    return written;
  }

  Status Decode(ElementType /*element*/, Bytes encoded, const References& references,
                MutableBytes target) const override {
    ZSTD_DCtx* context = ThreadDecompressor();
    if (context == nullptr) return Status::NoMemory("zstd decompressor: no memory for a context");
    if (ZSTD_findFrameCompressedSize(encoded.data(), encoded.size()) != encoded.size()) {
      return Status::Corruption("zstd: not exactly one zstd frame");
    }
    ZSTD_DCtx_reset(context, ZSTD_reset_session_and_parameters);
    if (!references.base.empty()) {
      const std::size_t code = ZSTD_DCtx_refPrefix(context, references.base.data(), references.base.size());
      if (ZSTD_isError(code)) return Status::NoMemory(std::string("zstd decompressor: ") + ZSTD_getErrorName(code));
    }
    const std::size_t got = ZSTD_decompressDCtx(context, target.data(), target.size(), encoded.data(), encoded.size());
    if (ZSTD_isError(got)) return Status::Corruption(std::string("zstd: ") + ZSTD_getErrorName(got));
    if (got != target.size()) {
      return Status::Corruption("zstd: decoded " + std::to_string(got) + " bytes, expected " +
                                std::to_string(target.size()));
    }
    return {};
  }

 private:
  const int level_;
};

}  // namespace

std::unique_ptr<ChunkCodec> NewZstdCodec(int level) { return std::make_unique<ZstdCodec>(level); }

}  // namespace stepfs::codec
