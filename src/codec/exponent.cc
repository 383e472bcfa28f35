// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent.h"

#include <algorithm>
#include <cstring>

#include "codec/exponent_coder.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kPlanesSample = 8192;
constexpr std::size_t kEstimateSample = 16384;
constexpr std::size_t kEstimateRun = 256;  // Neighbouring elements of one sampled run.

// Up to one change in 64 elements the sparse form is taken without a look at the others, up to one in 8 it is compared.
constexpr std::size_t kSurelySparse = 64;
constexpr std::size_t kMaybeSparse = 8;

MutableBytes Limit(MutableBytes out, std::size_t size) { return out.first(std::min(out.size(), size)); }

class Encoder {
 public:
  Encoder(const ElementChunk& chunk, MutableBytes out) : chunk_(chunk), out_(out), scratch_(LocalScratch()) {}

  // The smallest body found; at most out.size() bytes, or nothing. `method` is set with it.
  MaybeSize Run(ExponentMethod* method) {
    if (chunk_.base == nullptr) return Planes(method, out_.size());
    if (std::memcmp(chunk_.target, chunk_.base, chunk_.count * chunk_.form.width) == 0) {
      *method = ExponentMethod::kEqual;
      return 0;
    }
    const auto changed = FindChanges(chunk_, chunk_.count / kMaybeSparse, scratch_);
    MaybeSize sparse;
    if (changed) {
      sparse = EncodeSparse(chunk_, *changed, scratch_, out_);
      *method = ExponentMethod::kSparse;
      if (sparse && changed->size() <= chunk_.count / kSurelySparse) return sparse;
    }
    return DenseOrPlanes(sparse, method);
  }

 private:
  MaybeSize Planes(ExponentMethod* method, std::size_t limit) {
    *method = ExponentMethod::kPlanes;
    return EncodePlanes(chunk_, scratch_, Limit(out_, limit));
  }

  // `sparse`: the size of a body that already stands in out_.
  MaybeSize DenseOrPlanes(MaybeSize sparse, ExponentMethod* method) {
    const std::uint64_t planes_bits = EstimatePlanesBits(chunk_, kPlanesSample, scratch_);
    ModelPlan plan = PlanDense(chunk_, scratch_);
    if (sparse && *sparse * 8 <= std::min(planes_bits, plan.total_bits())) return sparse;
    if (planes_bits < plan.total_bits()) {
      const MaybeSize planes = Planes(method, out_.size());
      if (planes) return planes;
      plan = PlanDense(chunk_, scratch_);  // Its symbols are gone from scratch_.
    }
    *method = ExponentMethod::kDense;
    return EncodeDense(chunk_, plan, scratch_, out_);
  }

  const ElementChunk& chunk_;
  MutableBytes out_;
  ExponentScratch& scratch_;
};

constexpr std::size_t kMaxElements = std::size_t{1} << 30;  // Counts are 32 bits; larger chunks are stored.

ElementChunk ChunkOf(ElementType element, Bytes target, Bytes base) {
  const ElementForm form = FormOf(element);
  return {form, target.data(), base.empty() ? nullptr : base.data(), target.size() / form.width};
}

class ExponentCodec final : public ChunkCodec {
 public:
  CodecId id() const override { return CodecId::kExponent; }

  std::size_t MaxEncodedBytes(ElementType, std::size_t target_bytes) const override {
    return 1 + target_bytes + kOutputSlack;
  }

  Result<std::size_t> Encode(ElementType element, Bytes target, const References& references,
                             MutableBytes out) const override {
    const ElementChunk chunk = ChunkOf(element, target, references.base);
    const Bytes tail = target.subspan(chunk.count * chunk.form.width);
    if (chunk.count > 0 && chunk.count <= kMaxElements) {
      auto method = ExponentMethod::kStored;
      const MutableBytes body = out.subspan(1, chunk.count * chunk.form.width);
      const MaybeSize size = Encoder(chunk, body).Run(&method);
      if (size && *size < body.size()) {
        out[0] = static_cast<std::byte>(method);
        std::copy(tail.begin(), tail.end(), out.begin() + 1 + static_cast<std::ptrdiff_t>(*size));
        return 1 + *size + tail.size();
      }
    }
    out[0] = static_cast<std::byte>(ExponentMethod::kStored);
    std::copy(target.begin(), target.end(), out.begin() + 1);
    return 1 + target.size();
  }

  Status Decode(ElementType element, Bytes encoded, const References& references, MutableBytes target) const override {
    if (encoded.empty()) return Status::Corruption("exponent: no method byte");
    const auto method = static_cast<ExponentMethod>(encoded[0]);
    Bytes body = encoded.subspan(1);
    if (method == ExponentMethod::kStored) {
      if (body.size() != target.size()) return Status::Corruption("exponent: stored chunk of another size");
      std::copy(body.begin(), body.end(), target.begin());
      return {};
    }
    ElementChunk chunk = ChunkOf(element, target, references.base);
    chunk.target = nullptr;
    const std::size_t tail = target.size() - chunk.count * chunk.form.width;
    if (body.size() < tail || chunk.count == 0 || chunk.count > kMaxElements)
      return Status::Corruption("exponent: chunk without elements");
    std::copy(body.end() - static_cast<std::ptrdiff_t>(tail), body.end(),
              target.end() - static_cast<std::ptrdiff_t>(tail));
    body = body.first(body.size() - tail);
    switch (method) {
      case ExponentMethod::kStored:
        break;
      case ExponentMethod::kEqual:
        if (chunk.base == nullptr || !body.empty()) return Status::Corruption("exponent: malformed equal chunk");
        std::memcpy(target.data(), chunk.base, chunk.count * chunk.form.width);
        return {};
      case ExponentMethod::kPlanes:
        return DecodePlanes(chunk, body, target.data());
      case ExponentMethod::kDense:
        return DecodeDense(chunk, body, target.data());
      case ExponentMethod::kSparse:
        return DecodeSparse(chunk, body, target.data());
    }
    return Status::Unsupported("exponent: unknown method");
  }
};

// `count` elements of `from` in runs spread evenly.
void GatherSample(const std::byte* from, std::size_t width, std::size_t total, std::size_t count, std::byte* to) {
  const std::size_t runs = count / kEstimateRun;
  for (std::size_t r = 0; r < runs; ++r) {
    const std::size_t first =
        static_cast<std::size_t>(std::uint64_t{total - kEstimateRun} * r / std::max<std::size_t>(runs - 1, 1));
    std::memcpy(to + r * kEstimateRun * width, from + first * width, kEstimateRun * width);
  }
}

std::uint64_t EstimateBits(const ElementChunk& chunk) {
  ExponentScratch& scratch = LocalScratch();
  const std::uint64_t planes = EstimatePlanesBits(chunk, chunk.count, scratch);
  if (chunk.base == nullptr) return planes;
  if (std::memcmp(chunk.target, chunk.base, chunk.count * chunk.form.width) == 0) return 0;
  return std::min(planes, PlanDense(chunk, scratch).total_bits());
}

}  // namespace

ExponentScratch& LocalScratch() {
  static thread_local ExponentScratch scratch;
  return scratch;
}

unsigned LaneCodeFor(std::uint64_t coded_bits, std::size_t count) {
  if (coded_bits >= 8 * 8192 || count >= 65536) return 2;
  return coded_bits >= 8 * 256 ? 1 : 0;
}

const AnsEncodeEntry* BuildModelEncodeTable(ElementForm form, const ExponentModel& model, ExponentScratch& scratch) {
  AnsEncodeEntry* table = Reserve(scratch.encode_table, model.clusters * kAnsSymbols);
  const unsigned symbols = MaxSymbol(form.width, form.max_keep) + 1;
  for (std::size_t c = 0; c < model.clusters; ++c) {
    AnsEncodeEntry* row = table + c * kAnsSymbols;
    BuildAnsEncodeTable(model.frequencies[c], model.table_log,
                        std::span<AnsEncodeEntry, kAnsSymbols>(row, kAnsSymbols));
    // A coarser symbol is never above the finer one: going down, sources are still what they were.
    for (unsigned s = symbols; s-- > 0;) row[s] = row[CoarserSymbol(s, form.max_keep, model.keep)];
  }
  return table;
}

const AnsDecodeEntry* BuildModelDecodeTable(const ExponentModel& model, ExponentScratch& scratch) {
  const std::size_t slots = std::size_t{1} << model.table_log;
  AnsDecodeEntry* table = Reserve(scratch.decode_table, model.clusters * slots);
  for (std::size_t c = 0; c < model.clusters; ++c) {
    BuildAnsDecodeTable(model.frequencies[c], model.table_log, {table + c * slots, slots});
  }
  return table;
}

std::unique_ptr<ChunkCodec> NewExponentCodec() { return std::make_unique<ExponentCodec>(); }

const ChunkCodec& ExponentDecoder() {
  static const ExponentCodec codec;
  return codec;
}

std::uint64_t EstimateExponentBits(ElementType element, Bytes target, Bytes base) {
  const ElementChunk whole = ChunkOf(element, target, base);
  if (whole.count <= kEstimateSample) return EstimateBits(whole);
  const std::size_t width = whole.form.width;
  static thread_local std::vector<std::byte> sample;
  std::byte* sampled_target = Reserve(sample, 2 * kEstimateSample * width);
  std::byte* sampled_base = sampled_target + kEstimateSample * width;
  GatherSample(whole.target, width, whole.count, kEstimateSample, sampled_target);
  if (whole.base != nullptr) GatherSample(whole.base, width, whole.count, kEstimateSample, sampled_base);
  const ElementChunk chunk = {whole.form, sampled_target, whole.base != nullptr ? sampled_base : nullptr,
                              kEstimateSample};
  return EstimateBits(chunk) * whole.count / kEstimateSample;
}

}  // namespace stepfs::codec
