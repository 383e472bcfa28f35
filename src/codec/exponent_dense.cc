// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/serial.h"
#include "codec/exponent_coder.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kBlock = 4096;  // Elements decoded at a time: contexts and symbols stay in the first-level cache.

}  // namespace

ModelPlan PlanDense(const ElementChunk& chunk, ExponentScratch& scratch) {
  const TransformKernels& kernels = ActiveTransformKernels(chunk.form.width);
  std::uint8_t* symbols = Reserve(scratch.symbols, chunk.count);
  std::uint8_t* contexts = Reserve(scratch.contexts, chunk.count);
  // Two tables, because an increment must not wait for the one before it, often of the same count.
  constexpr std::size_t kTable = kContexts * kSymbols;
  std::uint32_t* counts = Reserve(scratch.counts, 2 * kTable);
  std::uint32_t* more_counts = counts + kTable;
  std::fill_n(counts, 2 * kTable, 0u);
  for (std::size_t i = 0; i < chunk.count; i += kBlock) {
    const std::size_t n = std::min(kBlock, chunk.count - i);
    const std::size_t at = i * chunk.form.width;
    kernels.contexts(chunk.form, chunk.base + at, n, nullptr, contexts + i);
    kernels.symbols(chunk.form, chunk.target + at, chunk.base + at, n, symbols + i);
    std::size_t j = i;
    for (; j + 2 <= i + n; j += 2) {
      ++counts[contexts[j] * kSymbols + symbols[j]];
      ++more_counts[contexts[j + 1] * kSymbols + symbols[j + 1]];
    }
    if (j < i + n) ++counts[contexts[j] * kSymbols + symbols[j]];
  }
  for (std::size_t i = 0; i < kTable; ++i) counts[i] += more_counts[i];
  return PlanModel(chunk.form, ContextCounts(counts, kTable), scratch.model);
}

MaybeSize EncodeDense(const ElementChunk& chunk, const ModelPlan& plan, ExponentScratch& scratch, MutableBytes out) {
  const ExponentModel& model = scratch.model;
  const unsigned lane_code = LaneCodeFor(plan.coded_bits, chunk.count);
  const std::size_t lanes = kLaneCounts[lane_code];

  std::uint8_t* contexts = scratch.contexts.data();
  const ContextMap map = model.Map();
  if (model.clusters > 1) {
    ActiveTransformKernels(chunk.form.width).contexts(chunk.form, chunk.base, chunk.count, &map, contexts);
  }
  const std::size_t stream_bytes = 2 * chunk.count + 4 * lanes + kAnsEncodeSlack;
  std::uint8_t* stream_end = Reserve(scratch.stream, stream_bytes) + stream_bytes;
  const std::uint8_t* stream = AnsEncodeStream({.table = BuildModelEncodeTable(chunk.form, model, scratch),
                                                .table_log = model.table_log,
                                                .contexts = model.clusters > 1 ? contexts : nullptr,
                                                .symbols = scratch.symbols.data(),
                                                .count = chunk.count,
                                                .lanes = lanes},
                                               stream_end);
  const auto ans_bytes = static_cast<std::size_t>(stream_end - stream);

  std::byte head[kMaxModelBytes + 32];
  head[0] = static_cast<std::byte>(model.keep | lane_code << 3 | (model.table_log - kAnsMinTableLog) << 5);
  BitWriter model_bits(head + 1);
  WriteModel(model, model_bits);
  ByteWriter size;
  size.Varint(ans_bytes);
  const std::size_t model_end = 1 + model_bits.Finish();
  std::memcpy(head + model_end, size.bytes().data(), size.size());
  const std::size_t head_bytes = model_end + size.size();
  const std::size_t total = head_bytes + ans_bytes + static_cast<std::size_t>((plan.raw_bits + 7) / 8);
  if (total > out.size()) return std::nullopt;

  std::memcpy(out.data(), head, head_bytes);
  std::memcpy(out.data() + head_bytes, stream, ans_bytes);
  BitWriter raw(out.data() + head_bytes + ans_bytes);
  if (plan.raw_bits != 0) {
    ActiveTransformKernels(chunk.form.width).pack(chunk.form, model.keep, chunk.target, chunk.base, chunk.count, raw);
  }
  return total;
}

Status DecodeDense(const ElementChunk& chunk, Bytes encoded, std::byte* target) {
  if (chunk.base == nullptr) return Status::Corruption("exponent: dense chunk without a base");
  ExponentScratch& scratch = LocalScratch();
  ExponentModel& model = scratch.model;
  if (encoded.empty()) return Status::Corruption("exponent: empty dense chunk");
  const auto parameters = std::to_integer<unsigned>(encoded[0]);
  model.keep = parameters & 7;
  const unsigned lane_code = parameters >> 3 & 3;
  model.table_log = kAnsMinTableLog + (parameters >> 5 & 3);
  if ((parameters & 0x80) != 0) return Status::Unsupported("exponent: unknown dense parameter");
  if (model.keep > chunk.form.max_keep || lane_code > 2) return Status::Corruption("exponent: dense parameters");
  BitReader model_bits(encoded.subspan(1));
  if (!ReadModel(model_bits, MaxSymbol(chunk.form.width, model.keep), model)) {
    return Status::Corruption("exponent: malformed model");
  }
  ByteReader fields(encoded.subspan(1 + model_bits.BytesUsed()));
  const Bytes stream = fields.Raw(fields.Varint());
  if (!fields.ok()) return Status::Corruption("exponent: stream longer than the chunk");
  BitReader raw(fields.Raw(fields.remaining()));

  AnsStreamDecoder symbols_in;
  if (!symbols_in.Start({reinterpret_cast<const std::uint8_t*>(stream.data()), stream.size()},
                        kLaneCounts[lane_code])) {
    return Status::Corruption("exponent: malformed stream");
  }
  const TransformKernels& kernels = ActiveTransformKernels(chunk.form.width);
  const ContextMap map = model.Map();
  AnsDecodeArgs args = {.table = BuildModelDecodeTable(model, scratch),
                        .table_log = model.table_log,
                        .contexts = nullptr,
                        .symbols = nullptr,
                        .count = 0,
                        .lanes = 0};
  std::uint8_t symbols[kBlock];
  std::uint8_t contexts[kBlock];
  args.symbols = symbols;
  if (model.clusters > 1) args.contexts = contexts;
  for (std::size_t i = 0; i < chunk.count; i += kBlock) {
    const std::size_t n = std::min(kBlock, chunk.count - i);
    const std::byte* base = chunk.base + i * chunk.form.width;
    if (model.clusters > 1) kernels.contexts(chunk.form, base, n, &map, contexts);
    args.count = n;
    if (!symbols_in.Decode(args)) return Status::Corruption("exponent: truncated stream");
    kernels.restore(chunk.form, model.keep, base, symbols, n, raw, target + i * chunk.form.width);
  }
  if (!symbols_in.AtEnd() || !raw.AtEnd()) return Status::Corruption("exponent: stream does not end with the chunk");
  return {};
}

}  // namespace stepfs::codec
