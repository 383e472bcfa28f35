// SPDX-License-Identifier: Apache-2.0
#include "codec/lmc_section.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/result.h"
#include "codec/run_length.h"

namespace stepfs::codec::lmc {
namespace {

const std::uint8_t* Data(Bytes bytes) { return reinterpret_cast<const std::uint8_t*>(bytes.data()); }

void StoreSize(std::size_t size, std::uint8_t* out) {
  StoreLittle(static_cast<std::uint16_t>(size), reinterpret_cast<std::byte*>(out));
}

std::size_t WriteRaw(const std::uint8_t* in, std::size_t n, std::uint8_t* out) {
  out[0] = static_cast<std::uint8_t>(SectionTag::kRaw);
  std::memcpy(out + kTagBytes, in, n);
  return kTagBytes + n;
}

std::size_t WriteConstant(std::uint8_t value, std::uint8_t* out) {
  out[0] = static_cast<std::uint8_t>(SectionTag::kConstant);
  out[1] = value;
  return kTagBytes + 1;
}

// The cheapest section without runs for bytes of known counts, worked out before it is written.
struct Plan {
  SectionTag tag = SectionTag::kRaw;
  std::size_t bytes = 0;  // Of the whole section; for kHuffman an upper bound.
  std::uint8_t commonest = 0;
  std::uint32_t commonest_count = 0;
  CodeLengths lengths;
};

// A Huffman block that saves less than this share of its bytes is stored raw: raw blocks cost a copy.
constexpr std::size_t kMinSaving = 64;

Plan MakePlan(const std::uint8_t* in, std::size_t n) {
  SymbolCounts counts;
  CountSymbols(in, n, counts);
  Plan plan;
  for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] > plan.commonest_count) {
      plan.commonest_count = counts[symbol];
      plan.commonest = static_cast<std::uint8_t>(symbol);
    }
  }
  plan.bytes = kTagBytes + n;
  if (plan.commonest_count == n) {
    plan.tag = SectionTag::kConstant;
    plan.bytes = kTagBytes + 1;
    return plan;
  }
  plan.lengths = BuildCodeLengths(counts);
  const std::size_t huffman = kTagBytes + kSizeBytes + HuffmanBodyBound(counts, plan.lengths);
  if (huffman + n / kMinSaving < plan.bytes) {
    plan.tag = SectionTag::kHuffman;
    plan.bytes = huffman;
  }
  return plan;
}

std::size_t WritePlanned(const Plan& plan, const std::uint8_t* in, std::size_t n, std::uint8_t* out) {
  if (plan.tag == SectionTag::kConstant) return WriteConstant(plan.commonest, out);
  if (plan.tag == SectionTag::kRaw) return WriteRaw(in, n, out);
  out[0] = static_cast<std::uint8_t>(SectionTag::kHuffman);
  const std::size_t body = HuffmanEncode(in, n, plan.lengths, out + kTagBytes + kSizeBytes);
  StoreSize(body, out + kTagBytes);
  return kTagBytes + kSizeBytes + body;
}

// Writes a run section if it is smaller than `limit` bytes, else returns 0.
std::size_t WriteRuns(const std::uint8_t* in, std::size_t n, std::uint8_t run_byte, std::size_t limit,
                      RunScratch& scratch, std::uint8_t* out) {
  std::uint8_t* const tokens = scratch.tokens.data();
  std::uint8_t* const literals = scratch.literals.data();
  const RunCounts counts = ActiveRunLengthKernels().split(in, n, run_byte, tokens, literals);
  const Plan token_plan = MakePlan(tokens, counts.tokens);
  const Plan literal_plan = MakePlan(literals, counts.literals);
  if (kTagBytes + kSizeBytes + kRunsHeaderBytes + token_plan.bytes + literal_plan.bytes >= limit) return 0;
  std::uint8_t* next = out + kTagBytes + kSizeBytes;
  next[0] = run_byte;
  StoreSize(counts.tokens, next + 1);
  StoreSize(counts.literals, next + 3);
  next += kRunsHeaderBytes;
  next += WritePlanned(token_plan, tokens, counts.tokens, next);
  next += WritePlanned(literal_plan, literals, counts.literals, next);
  out[0] = static_cast<std::uint8_t>(SectionTag::kRuns);
  const auto size = static_cast<std::size_t>(next - out);
  StoreSize(size - kTagBytes - kSizeBytes, out + kTagBytes);
  return size;
}

}  // namespace

std::size_t EncodeSection(const std::uint8_t* in, std::size_t n, bool run_length, RunScratch& scratch,
                          std::uint8_t* out) {
  if (run_length) {
    // Zero is what unchanged bytes give. From three quarters on, runs never lose to Huffman codes: skip counting
    // symbols.
    const std::size_t zeros = ActiveRunLengthKernels().count(in, n, 0);
    if (zeros == n) return WriteConstant(0, out);
    if (zeros >= n - n / 4) {
      const std::size_t size = WriteRuns(in, n, 0, kTagBytes + n, scratch, out);
      if (size != 0) return size;
    }
  }
  const Plan plan = MakePlan(in, n);
  // Below five eighths the commonest byte's Huffman code loses little, and runs are slower on both sides.
  if (run_length && plan.tag != SectionTag::kConstant && plan.commonest_count >= n - n / 8 * 3) {
    const std::size_t size = WriteRuns(in, n, plan.commonest, plan.bytes, scratch, out);
    if (size != 0) return size;
  }
  return WritePlanned(plan, in, n, out);
}

Status SectionDecoder::Decode(ByteReader& reader, std::uint8_t* out, std::size_t n, const std::uint8_t** in_place) {
  if (in_place != nullptr) *in_place = out;
  const auto tag = reader.Fixed<std::uint8_t>();
  switch (static_cast<SectionTag>(tag)) {
    case SectionTag::kRaw: {
      const Bytes raw = reader.Raw(n);
      if (!reader.ok()) break;
      if (in_place != nullptr) {
        *in_place = Data(raw);
      } else {
        std::memcpy(out, raw.data(), n);
      }
      return Status::Ok();
    }
    case SectionTag::kConstant:
      std::memset(out, reader.Fixed<std::uint8_t>(), n);
      if (!reader.ok()) break;
      return Status::Ok();
    case SectionTag::kHuffman: {
      const Bytes body = reader.Raw(reader.Fixed<std::uint16_t>());
      if (!reader.ok()) break;
      jobs_[job_count_++] = {Data(body), body.size(), out, n};
      return job_count_ == jobs_.size() ? Flush() : Status::Ok();
    }
    case SectionTag::kRuns: {
      if (!allow_runs_) return Status::Corruption("lmc: run section inside a run section");
      const Bytes body = reader.Raw(reader.Fixed<std::uint16_t>());
      if (!reader.ok()) break;
      ByteReader inner(body);
      STEPFS_RETURN_IF_ERROR(DecodeRuns(inner, out, n));
      if (!inner.AtEnd()) return Status::Corruption("lmc: bytes left over behind a run section");
      return Status::Ok();
    }
    default:
      return Status::Corruption("lmc: unknown section tag " + std::to_string(tag));
  }
  return Status::Corruption("lmc: section of " + std::to_string(n) + " bytes is cut short");
}

Status SectionDecoder::DecodeRuns(ByteReader& reader, std::uint8_t* out, std::size_t n) {
  const auto run_byte = reader.Fixed<std::uint8_t>();
  RunCounts counts;
  counts.tokens = reader.Fixed<std::uint16_t>();
  counts.literals = reader.Fixed<std::uint16_t>();
  // Each token stands for at least one byte of the block, each literal has one token.
  if (!reader.ok() || counts.tokens > n || counts.literals > counts.tokens || counts.literals == 0) {
    return Status::Corruption("lmc: impossible counts in a run section of " + std::to_string(n) + " bytes");
  }
  SectionDecoder inner(scratch_);
  inner.allow_runs_ = false;
  std::uint8_t* const strings[] = {scratch_.tokens.data(), scratch_.literals.data()};
  const std::size_t sizes[] = {counts.tokens, counts.literals};
  for (std::size_t i = 0; i < 2; ++i) {
    STEPFS_RETURN_IF_ERROR(inner.Decode(reader, strings[i], sizes[i]));
  }
  STEPFS_RETURN_IF_ERROR(inner.Flush());
  if (!MergeRuns(strings[0], strings[1], counts, run_byte, out, n)) {
    return Status::Corruption("lmc: run tokens do not fit their block of " + std::to_string(n) + " bytes");
  }
  return Status::Ok();
}

Status SectionDecoder::Flush() {
  const std::size_t count = std::exchange(job_count_, 0);
  return HuffmanDecode(std::span(jobs_).first(count));
}

}  // namespace stepfs::codec::lmc
