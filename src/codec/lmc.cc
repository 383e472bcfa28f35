// SPDX-License-Identifier: Apache-2.0
#include "codec/lmc.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>
#include <vector>

#include "codec/byte_group.h"
#include "codec/lmc_format.h"
#include "codec/lmc_section.h"

namespace stepfs::codec {
namespace {

using lmc::Geometry;

// Decoding takes this many blocks of each plane together, so that Huffman blocks meet in pairs.
constexpr std::size_t kStripesAtOnce = 2;

// Working memory of a thread, kept between chunks.
class Scratch {
 public:
  static Scratch& OfThread() {
    thread_local Scratch scratch;
    return scratch;
  }

  // At least `bytes` bytes, their content unspecified.
  std::uint8_t* Planes(std::size_t bytes) {
    if (planes_.size() < bytes) planes_.resize(bytes);
    return planes_.data();
  }
  lmc::RunScratch& runs() { return *runs_; }

 private:
  std::vector<std::uint8_t> planes_;
  std::unique_ptr<lmc::RunScratch> runs_ = std::make_unique<lmc::RunScratch>();
};

const std::uint8_t* Data(Bytes bytes) { return reinterpret_cast<const std::uint8_t*>(bytes.data()); }
std::uint8_t* Data(MutableBytes bytes) { return reinterpret_cast<std::uint8_t*>(bytes.data()); }

// What never changes within a chunk.
struct ChunkHeader {
  DeltaKind delta = DeltaKind::kNone;
  bool grouped = true;
  std::size_t block_bytes = lmc::kMaxBlockBytes;
  std::uint8_t constant_mask = 0;          // Bit p: plane p is constant,
  std::uint8_t constants[kMaxWidth] = {};  // and has this value.
  bool IsConstant(std::size_t plane) const { return (constant_mask >> plane & 1) != 0; }
};

void FindConstantPlanes(const std::uint8_t* target, const std::uint8_t* base, const Geometry& geometry,
                        ChunkHeader& header) {
  if (geometry.elements == 0) return;
  const auto kind = static_cast<std::size_t>(header.delta);
  const DeltaKernels& kernels = ActiveDeltaKernels();
  const unsigned varying = kernels.varying[kind][geometry.log2_width()](target, base, geometry.elements);
  kernels.apply[kind][geometry.log2_width()](target, base, 1, header.constants);
  const unsigned all = (1u << geometry.width) - 1;
  if (header.grouped) {
    header.constant_mask = static_cast<std::uint8_t>(all & ~varying);
  } else if (varying == 0) {
    const auto differs = [&](std::uint8_t byte) { return byte != header.constants[0]; };
    header.constant_mask = std::none_of(header.constants, header.constants + geometry.width, differs) ? 1 : 0;
  }
}

std::uint8_t* WriteHeader(const ChunkHeader& header, const Geometry& geometry, std::uint8_t* out) {
  *out++ =
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(header.delta) | (header.grouped ? lmc::kFlagGrouped : 0));
  *out++ = static_cast<std::uint8_t>(std::countr_zero(header.block_bytes));
  *out++ = header.constant_mask;
  for (std::size_t p = 0; p < geometry.planes; ++p) {
    if (header.IsConstant(p)) *out++ = header.constants[p];
  }
  return out;
}

Result<ChunkHeader> ReadHeader(ByteReader& reader, std::size_t width, bool has_base) {
  const auto flags = reader.Fixed<std::uint8_t>();
  const auto block_bits = reader.Fixed<std::uint8_t>();
  ChunkHeader header;
  header.constant_mask = reader.Fixed<std::uint8_t>();
  if (!reader.ok()) return Status::Corruption("lmc: chunk header is cut short");
  const unsigned delta = flags & lmc::kFlagDeltaMask;
  if ((flags & ~(lmc::kFlagDeltaMask | lmc::kFlagGrouped)) != 0 || delta >= kDeltaKindCount) {
    return Status::Unsupported("lmc: unknown flags " + std::to_string(flags));
  }
  header.delta = static_cast<DeltaKind>(delta);
  header.grouped = (flags & lmc::kFlagGrouped) != 0;
  if (header.delta != DeltaKind::kNone && !has_base)
    return Status::Corruption("lmc: chunk needs a base, none is given");
  if (block_bits < lmc::kMinBlockBits || block_bits > lmc::kMaxBlockBits) {
    return Status::Corruption("lmc: block size 2^" + std::to_string(block_bits) + " is out of range");
  }
  header.block_bytes = std::size_t{1} << block_bits;
  const std::size_t planes = header.grouped ? width : 1;
  if (header.constant_mask >> planes != 0) return Status::Corruption("lmc: constant plane beyond the element's width");
  for (std::size_t p = 0; p < planes; ++p) {
    if (header.IsConstant(p)) header.constants[p] = reader.Fixed<std::uint8_t>();
  }
  if (!reader.ok()) return Status::Corruption("lmc: chunk header is cut short");
  return header;
}

// `base` moved on by `bytes`; null stays null.
const std::uint8_t* BaseAt(const std::uint8_t* base, std::size_t bytes) {
  return base == nullptr ? base : base + bytes;
}

class LmcCodec final : public ChunkCodec {
 public:
  explicit LmcCodec(const LmcOptions& options) : options_(options) {
    options_.block_bytes =
        std::bit_floor(std::clamp(options.block_bytes, std::size_t{1} << lmc::kMinBlockBits, lmc::kMaxBlockBytes));
  }

  CodecId id() const override { return CodecId::kLmc; }

  std::size_t MaxEncodedBytes(ElementType element, std::size_t target_bytes) const override {
    const Geometry geometry(Width(element), target_bytes, options_.group);
    const std::size_t stripes = geometry.plane_bytes / options_.block_bytes + 1;
    return lmc::kHeaderBytes + geometry.planes + stripes * geometry.planes * lmc::kTagBytes + target_bytes +
           kHuffmanSlack;
  }

  Result<std::size_t> Encode(ElementType element, Bytes target, const References& references,
                             MutableBytes out) const override {
    assert(out.size() >= MaxEncodedBytes(element, target.size()));
    assert(references.base.empty() || references.base.size() == target.size());
    ChunkHeader header;
    header.grouped = options_.group;
    header.block_bytes = options_.block_bytes;
    if (!references.base.empty()) header.delta = options_.subtract ? DeltaKind::kSubtract : DeltaKind::kXor;
    const Geometry geometry(Width(element), target.size(), header.grouped);
    const std::uint8_t* const base = header.delta == DeltaKind::kNone ? nullptr : Data(references.base);
    FindConstantPlanes(Data(target), base, geometry, header);
    std::uint8_t* next = WriteHeader(header, geometry, Data(out));
    if (geometry.tail_bytes > 0)
      std::memcpy(next, Data(target) + target.size() - geometry.tail_bytes, geometry.tail_bytes);
    next += geometry.tail_bytes;
    next = WriteStripes(header, geometry, Data(target), base, next);
    return static_cast<std::size_t>(next - Data(out));
  }

  Status Decode(ElementType element, Bytes encoded, const References& references, MutableBytes target) const override {
    ByteReader reader(encoded);
    const bool has_base = !target.empty() && references.base.size() == target.size();
    STEPFS_ASSIGN_OR_RETURN(const ChunkHeader header, ReadHeader(reader, Width(element), has_base));
    const Geometry geometry(Width(element), target.size(), header.grouped);
    const std::uint8_t* const base = header.delta == DeltaKind::kNone ? nullptr : Data(references.base);
    const Bytes tail = reader.Raw(geometry.tail_bytes);
    if (!reader.ok()) return Status::Corruption("lmc: tail is cut short");
    std::copy(tail.begin(), tail.end(), target.end() - static_cast<std::ptrdiff_t>(tail.size()));
    STEPFS_RETURN_IF_ERROR(ReadStripes(header, geometry, reader, base, Data(target)));
    if (!reader.AtEnd()) {
      return Status::Corruption("lmc: " + std::to_string(reader.remaining()) + " bytes left over behind the chunk");
    }
    return Status::Ok();
  }

 private:
  std::uint8_t* WriteStripes(const ChunkHeader& header, const Geometry& geometry, const std::uint8_t* target,
                             const std::uint8_t* base, std::uint8_t* out) const {
    const unsigned all = (1u << geometry.planes) - 1;
    if (header.constant_mask == all) return out;
    const auto kind = static_cast<std::size_t>(header.delta);
    const bool copy_free = header.delta == DeltaKind::kNone && geometry.planes == 1;
    Scratch& scratch = Scratch::OfThread();
    const std::size_t slot_bytes = std::min(header.block_bytes, geometry.plane_bytes);
    std::uint8_t* const slots = copy_free ? nullptr : scratch.Planes(slot_bytes * geometry.planes);
    for (std::size_t begin = 0; begin < geometry.plane_bytes; begin += header.block_bytes) {
      const std::size_t bytes = std::min(header.block_bytes, geometry.plane_bytes - begin);
      const std::size_t offset = begin * geometry.planes;
      const std::size_t elements = geometry.ElementsIn(bytes);
      std::uint8_t* planes[kMaxWidth];
      for (std::size_t p = 0; p < geometry.planes; ++p) planes[p] = slots + p * slot_bytes;
      if (header.grouped && !copy_free) {
        ActiveByteGroupKernels().group[kind][geometry.log2_width()](target + offset, BaseAt(base, offset), elements,
                                                                    planes);
      } else if (!copy_free) {
        ActiveDeltaKernels().apply[kind][geometry.log2_width()](target + offset, BaseAt(base, offset), elements,
                                                                planes[0]);
      }
      for (std::size_t p = 0; p < geometry.planes; ++p) {
        if (header.IsConstant(p)) continue;
        const std::uint8_t* const block = copy_free ? target + offset : planes[p];
        out += lmc::EncodeSection(block, bytes, options_.run_length, scratch.runs(), out);
      }
    }
    return out;
  }

  static Status ReadStripes(const ChunkHeader& header, const Geometry& geometry, ByteReader& reader,
                            const std::uint8_t* base, std::uint8_t* target) {
    const auto kind = static_cast<std::size_t>(header.delta);
    const bool copy_free = header.delta == DeltaKind::kNone && geometry.planes == 1;
    Scratch& scratch = Scratch::OfThread();
    const std::size_t slot_bytes = std::min(header.block_bytes, geometry.plane_bytes);
    std::uint8_t* const slots = scratch.Planes(kStripesAtOnce * slot_bytes * geometry.planes);
    const std::uint8_t* planes[kStripesAtOnce][kMaxWidth];
    for (std::size_t p = 0; p < geometry.planes; ++p) {
      std::uint8_t* const slot = slots + p * slot_bytes;
      if (header.IsConstant(p)) std::memset(slot, header.constants[p], slot_bytes);
      for (auto& stripe : planes) stripe[p] = slot;
    }
    lmc::SectionDecoder sections(scratch.runs());
    for (std::size_t begin = 0; begin < geometry.plane_bytes;) {
      const std::size_t first = begin;
      for (std::size_t stripe = 0; stripe < kStripesAtOnce && begin < geometry.plane_bytes; ++stripe) {
        const std::size_t bytes = std::min(header.block_bytes, geometry.plane_bytes - begin);
        for (std::size_t p = 0; p < geometry.planes; ++p) {
          if (header.IsConstant(p)) continue;
          const bool direct = copy_free;
          std::uint8_t* const slot = direct ? target + begin : slots + (stripe * geometry.planes + p) * slot_bytes;
          STEPFS_RETURN_IF_ERROR(sections.Decode(reader, slot, bytes, direct ? nullptr : &planes[stripe][p]));
        }
        begin += bytes;
      }
      STEPFS_RETURN_IF_ERROR(sections.Flush());
      if (copy_free && !header.IsConstant(0)) continue;
      for (std::size_t at = first, stripe = 0; at < begin; at += header.block_bytes, ++stripe) {
        const std::size_t offset = at * geometry.planes;
        const std::size_t elements = geometry.ElementsIn(std::min(header.block_bytes, begin - at));
        if (header.grouped) {
          ActiveByteGroupKernels().ungroup[kind][geometry.log2_width()](planes[stripe], BaseAt(base, offset), elements,
                                                                        target + offset);
        } else {
          ActiveDeltaKernels().undo[kind][geometry.log2_width()](planes[stripe][0], BaseAt(base, offset), elements,
                                                                 target + offset);
        }
      }
    }
    return Status::Ok();
  }

  LmcOptions options_;
};

}  // namespace

std::unique_ptr<ChunkCodec> NewLmcCodec(const LmcOptions& options) { return std::make_unique<LmcCodec>(options); }

const ChunkCodec& LmcDecoder() {
  static const LmcCodec codec{LmcOptions{}};
  return codec;
}

}  // namespace stepfs::codec
