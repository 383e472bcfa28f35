// SPDX-License-Identifier: Apache-2.0
//
// The statistics of one chunk: which contexts share a frequency table ("cluster"), and the tables. Clusters are runs of
// neighbouring contexts, merged while a table costs more than it saves, so that a small or quiet chunk gets by with
// one. Format: docs/codec_exponent.md, "Model". All decisions are made in integers. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/ans.h"
#include "codec/bit_stream.h"
#include "codec/exponent_transform.h"

namespace stepfs::codec {

inline constexpr std::size_t kMaxClusters = 16;
// What WriteModel writes at most.
inline constexpr std::size_t kMaxModelBytes = 16 * 1024;

struct ExponentModel {
  unsigned keep = 0;
  unsigned table_log = kAnsMinTableLog;
  std::size_t clusters = 1;
  // Cluster c holds the contexts from first_context[c] to before first_context[c + 1]; first_context[0] is 0.
  std::array<std::uint8_t, kMaxClusters> first_context{};
  std::array<AnsFrequencies, kMaxClusters> frequencies;

  ContextMap Map() const { return ContextMap::From({first_context.data(), clusters}); }
};

// counts[context * kSymbols + symbol].
using ContextCounts = std::span<std::uint32_t, kContexts * kSymbols>;

struct ModelPlan {
  std::uint64_t coded_bits = 0;  // Of the symbols under the model.
  std::uint64_t raw_bits = 0;
  std::uint64_t model_bits = 0;
  std::uint64_t total_bits() const { return coded_bits + raw_bits + model_bits; }
};

// Makes the cheapest model found for symbols taken with form.max_keep. Destroys the counts.
// REQUIRES: some count is not zero.
ModelPlan PlanModel(ElementForm form, ContextCounts counts, ExponentModel& model);

// The same without the model itself: what PlanModel would about cost. Destroys the counts.
ModelPlan EstimateModel(ElementForm form, ContextCounts counts);

// Frequencies out of 2^table_log, at least 1 for every symbol that occurs and exactly representable by
// WriteFrequencies. REQUIRES: some count is not zero.
void NormalizeCounts(std::span<const std::uint32_t, kSymbols> counts, unsigned table_log, AnsFrequencies& frequencies);
// Bits that the counted symbols take under `frequencies`, rounded up.
std::uint64_t CodedBits(std::span<const std::uint32_t, kSymbols> counts, const AnsFrequencies& frequencies,
                        unsigned table_log);

void WriteFrequencies(const AnsFrequencies& frequencies, unsigned table_log, BitWriter& out);
// False when they are malformed, do not sum to 2^table_log or name a symbol above max_symbol.
bool ReadFrequencies(BitReader& in, unsigned table_log, unsigned max_symbol, AnsFrequencies& frequencies);

// Everything but keep and table_log, which the caller stores.
void WriteModel(const ExponentModel& model, BitWriter& out);
bool ReadModel(BitReader& in, unsigned max_symbol, ExponentModel& model);

}  // namespace stepfs::codec
