// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent_model.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

#include "base/serial.h"
#include "codec/fixed_log2.h"

namespace stepfs::codec {
namespace {

constexpr unsigned kFrequencyMantissaBits = 3;  // More precision costs more in the table than it saves in the symbols.
constexpr std::uint64_t kTableEntryBits = 5;    // About what WriteFrequencies spends on a symbol that occurs,
constexpr std::uint64_t kTableBits = 20;        // and on a table as such.
constexpr std::uint32_t kTinyContext = 24;      // A context with fewer elements is never worth a look of its own.

constexpr std::uint64_t Fixed(std::uint64_t bits) { return bits << kLogFractionBits; }

using Row = std::span<std::uint32_t, kSymbols>;

// A run of contexts; its counts are in the row of its first context.
struct Group {
  std::uint32_t* row;
  std::uint8_t first_context;
  std::uint32_t total;
  std::uint64_t cost;       // In 2^-16 bit.
  std::int64_t merge_gain;  // What merging it with its right neighbour saves.
};

std::uint64_t CostOf(std::uint64_t sum_n_log_n, std::uint32_t total, std::uint64_t used) {
  return NLog2N(total) - sum_n_log_n + Fixed(used * kTableEntryBits + kTableBits);
}

std::uint64_t CostOf(const std::uint32_t* row, std::uint32_t total, std::size_t symbols) {
  std::uint64_t sum = 0;
  std::uint64_t used = 0;
  for (std::size_t s = 0; s < symbols; ++s) {
    if (row[s] == 0) continue;
    sum += NLog2N(row[s]);
    ++used;
  }
  return CostOf(sum, total, used);
}

std::uint64_t MergedCost(const Group& a, const Group& b, std::size_t symbols) {
  std::uint64_t sum = 0;
  std::uint64_t used = 0;
  for (std::size_t s = 0; s < symbols; ++s) {
    const std::uint32_t count = a.row[s] + b.row[s];
    if (count == 0) continue;
    sum += NLog2N(count);
    ++used;
  }
  return CostOf(sum, a.total + b.total, used);
}

void AddRow(const Group& from, Group& to, std::size_t symbols) {
  for (std::size_t s = 0; s < symbols; ++s) to.row[s] += from.row[s];
  to.total += from.total;
}

// The contexts that occur, with those of very few elements added to a neighbour. Returns how many groups there are.
std::size_t FindGroups(ContextCounts counts, std::size_t symbols, std::span<Group, kContexts> groups) {
  std::size_t found = 0;
  for (std::size_t context = 0; context < kContexts; ++context) {
    std::uint32_t* row = counts.data() + context * kSymbols;
    std::uint32_t total = 0;
    for (std::size_t s = 0; s < symbols; ++s) total += row[s];
    if (total == 0) continue;
    Group group = {row, static_cast<std::uint8_t>(context), total, 0, 0};
    if (found > 0 && (groups[found - 1].total < kTinyContext || total < kTinyContext)) {
      AddRow(group, groups[found - 1], symbols);
    } else {
      groups[found++] = group;
    }
  }
  return found;
}

// Greedy: the pair of neighbours that saves most is merged, until none saves and few enough are left.
std::size_t MergeGroups(std::span<Group, kContexts> groups, std::size_t count, std::size_t symbols) {
  const auto update_gain = [&](std::size_t i) {
    groups[i].merge_gain = static_cast<std::int64_t>(groups[i].cost + groups[i + 1].cost) -
                           static_cast<std::int64_t>(MergedCost(groups[i], groups[i + 1], symbols));
  };
  for (std::size_t i = 0; i < count; ++i) groups[i].cost = CostOf(groups[i].row, groups[i].total, symbols);
  for (std::size_t i = 0; i + 1 < count; ++i) update_gain(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (groups[i].merge_gain > groups[best].merge_gain) best = i;
    }
    if (groups[best].merge_gain < 0 && count <= kMaxClusters) break;
    AddRow(groups[best + 1], groups[best], symbols);
    groups[best].cost = CostOf(groups[best].row, groups[best].total, symbols);
    std::copy(groups.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              groups.begin() + static_cast<std::ptrdiff_t>(count),
              groups.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    if (best + 1 < count) update_gain(best);
    if (best > 0) update_gain(best - 1);
  }
  return count;
}

void Fold(Row row, unsigned from_keep, unsigned to_keep, std::size_t symbols, Row folded) {
  std::fill(folded.begin(), folded.end(), 0u);
  for (std::size_t s = 0; s < symbols; ++s) {
    if (row[s] != 0) folded[CoarserSymbol(static_cast<unsigned>(s), from_keep, to_keep)] += row[s];
  }
}

std::uint64_t RawBitsOf(const std::uint32_t* row, unsigned keep, std::size_t symbols) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < symbols; ++s) {
    bits += std::uint64_t{row[s]} * RawBitsOfSymbol(static_cast<unsigned>(s), keep);
  }
  return bits;
}

struct Grouping {
  std::array<Group, kContexts> groups;
  std::size_t count = 0;
  unsigned keep = 0;
};

// Groups with their counts folded to the `keep` that costs least.
void MakeGrouping(ElementForm form, ContextCounts counts, Grouping& grouping) {
  const std::size_t symbols = MaxSymbol(form.width, form.max_keep) + 1;
  grouping.count = MergeGroups(grouping.groups, FindGroups(counts, symbols, grouping.groups), symbols);
  std::array<std::uint32_t, kSymbols> folded;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (unsigned keep = 0; keep <= form.max_keep; ++keep) {
    std::uint64_t cost = 0;
    for (std::size_t g = 0; g < grouping.count; ++g) {
      Fold(Row(grouping.groups[g].row, kSymbols), form.max_keep, keep, symbols, folded);
      cost += CostOf(folded.data(), grouping.groups[g].total, symbols) + Fixed(RawBitsOf(folded.data(), keep, symbols));
    }
    if (cost > least) continue;
    least = cost;
    grouping.keep = keep;
  }
  for (std::size_t g = 0; g < grouping.count; ++g) {
    Group& group = grouping.groups[g];
    Fold(Row(group.row, kSymbols), form.max_keep, grouping.keep, symbols, folded);
    std::copy(folded.begin(), folded.end(), group.row);
    group.cost = CostOf(group.row, group.total, symbols);
  }
}

// Frequencies keep their leading one and kFrequencyMantissaBits more.
unsigned DroppedBits(unsigned bit_width) {
  return bit_width > kFrequencyMantissaBits + 1 ? bit_width - kFrequencyMantissaBits - 1 : 0;
}

std::uint32_t RoundFrequency(std::uint32_t frequency) {
  const unsigned dropped = DroppedBits(static_cast<unsigned>(std::bit_width(frequency)));
  if (dropped == 0) return frequency;
  return (frequency + (1u << (dropped - 1))) >> dropped << dropped;
}

// The bit width that symbol's frequency is predicted to have: that of the same sign's next smaller bucket.
unsigned PredictedWidth(const std::array<std::uint8_t, kSymbols>& widths, std::size_t symbol, unsigned table_log) {
  if (symbol == 0) return table_log;
  return widths[symbol < 3 ? symbol - 1 : symbol - 2];
}

}  // namespace

void NormalizeCounts(std::span<const std::uint32_t, kSymbols> counts, unsigned table_log, AnsFrequencies& frequencies) {
  std::uint64_t total = 0;
  std::size_t largest = 0;
  for (std::size_t s = 0; s < kSymbols; ++s) {
    total += counts[s];
    if (counts[s] > counts[largest]) largest = s;
  }
  assert(total > 0);
  const std::uint32_t slots = 1u << table_log;
  // The largest takes what the rounding of the others leaves; when they leave nothing, they are scaled down.
  for (std::uint64_t scale = slots;; scale -= scale / 16) {
    std::uint32_t others = 0;
    for (std::size_t s = 0; s < kSymbols; ++s) {
      if (counts[s] == 0 || s == largest) {
        frequencies[s] = 0;
        continue;
      }
      const auto exact = static_cast<std::uint32_t>((counts[s] * scale + total / 2) / total);
      frequencies[s] = static_cast<std::uint16_t>(RoundFrequency(std::max(exact, 1u)));
      others += frequencies[s];
    }
    if (others >= slots) continue;
    frequencies[largest] = static_cast<std::uint16_t>(slots - others);
    return;
  }
}

std::uint64_t CodedBits(std::span<const std::uint32_t, kSymbols> counts, const AnsFrequencies& frequencies,
                        unsigned table_log) {
  std::uint64_t cost = 0;
  for (std::size_t s = 0; s < kSymbols; ++s) {
    if (counts[s] != 0) cost += std::uint64_t{counts[s]} * (Fixed(table_log) - FixedLog2(frequencies[s]));
  }
  return (cost + Fixed(1) - 1) >> kLogFractionBits;
}

void WriteFrequencies(const AnsFrequencies& frequencies, unsigned table_log, BitWriter& out) {
  std::size_t largest = 0;
  std::size_t last = 0;
  for (std::size_t s = 0; s < kSymbols; ++s) {
    if (frequencies[s] != 0) last = s;
    if (frequencies[s] > frequencies[largest]) largest = s;
  }
  // The implied symbol must be one whose frequency need not be representable: any inexact one, else the largest.
  for (std::size_t s = 0; s <= last; ++s) {
    if (RoundFrequency(frequencies[s]) != frequencies[s]) largest = s;
  }
  out.Write(last, 8);
  out.Write(largest == 0 ? 0 : 1, 1);
  if (largest != 0) out.Write(largest, 8);
  std::array<std::uint8_t, kSymbols> widths;
  for (std::size_t s = 0; s <= last; ++s) {
    const auto width = static_cast<unsigned>(std::bit_width(frequencies[s]));
    if (s == largest) {
      widths[s] = static_cast<std::uint8_t>(table_log);
      continue;
    }
    widths[s] = static_cast<std::uint8_t>(width);
    const int difference = static_cast<int>(width) - static_cast<int>(PredictedWidth(widths, s, table_log));
    out.WriteUnary(ZigZag(difference));
    if (width > 1) {
      const unsigned dropped = DroppedBits(width);
      out.Write(frequencies[s] >> dropped, width - 1 - dropped);
    }
  }
}

bool ReadFrequencies(BitReader& in, unsigned table_log, unsigned max_symbol, AnsFrequencies& frequencies) {
  const auto last = static_cast<std::size_t>(in.Read(8));
  const std::size_t largest = in.Read(1) == 0 ? 0 : static_cast<std::size_t>(in.Read(8));
  if (!in.ok() || last > max_symbol || largest > last) return false;
  frequencies.fill(0);
  const std::uint32_t slots = 1u << table_log;
  std::uint32_t others = 0;
  std::array<std::uint8_t, kSymbols> widths;
  for (std::size_t s = 0; s <= last; ++s) {
    if (s == largest) {
      widths[s] = static_cast<std::uint8_t>(table_log);
      continue;
    }
    const std::int64_t width = static_cast<std::int64_t>(PredictedWidth(widths, s, table_log)) +
                               UnZigZag(in.ReadUnary(2 * kAnsMaxTableLog + 2));
    if (!in.ok() || width < 0 || width > static_cast<std::int64_t>(table_log)) return false;
    widths[s] = static_cast<std::uint8_t>(width);
    if (width == 0) continue;
    const auto bits = static_cast<unsigned>(width) - 1;
    const unsigned dropped = DroppedBits(bits + 1);
    const auto mantissa = static_cast<std::uint32_t>(in.Read(bits - dropped));
    const std::uint32_t frequency = 1u << bits | mantissa << dropped;
    others += frequency;
    if (others >= slots) return false;
    frequencies[s] = static_cast<std::uint16_t>(frequency);
  }
  frequencies[largest] = static_cast<std::uint16_t>(slots - others);
  return in.ok();
}

ModelPlan PlanModel(ElementForm form, ContextCounts counts, ExponentModel& model) {
  static thread_local Grouping grouping;
  MakeGrouping(form, counts, grouping);
  model.keep = grouping.keep;
  model.clusters = grouping.count;
  std::uint32_t total = 0;
  for (std::size_t g = 0; g < grouping.count; ++g) total += grouping.groups[g].total;
  model.table_log = total < 4096 ? 10 : 12;
  ModelPlan plan;
  const std::size_t symbols = MaxSymbol(form.width, model.keep) + 1;
  for (std::size_t g = 0; g < grouping.count; ++g) {
    const Group& group = grouping.groups[g];
    const Row row(group.row, kSymbols);
    model.first_context[g] = g == 0 ? std::uint8_t{0} : group.first_context;
    NormalizeCounts(row, model.table_log, model.frequencies[g]);
    plan.coded_bits += CodedBits(row, model.frequencies[g], model.table_log);
    plan.raw_bits += RawBitsOf(group.row, model.keep, symbols);
  }
  std::byte buffer[kMaxModelBytes + 8];
  BitWriter writer(buffer);
  WriteModel(model, writer);
  plan.model_bits = 8 * writer.Finish();
  return plan;
}

ModelPlan EstimateModel(ElementForm form, ContextCounts counts) {
  static thread_local Grouping grouping;
  MakeGrouping(form, counts, grouping);
  ModelPlan plan;
  for (std::size_t g = 0; g < grouping.count; ++g) {
    plan.coded_bits += grouping.groups[g].cost >> kLogFractionBits;
    plan.raw_bits += RawBitsOf(grouping.groups[g].row, grouping.keep, kSymbols);
  }
  return plan;
}

void WriteModel(const ExponentModel& model, BitWriter& out) {
  out.Write(model.clusters - 1, 4);
  for (std::size_t c = 1; c < model.clusters; ++c) out.Write(model.first_context[c], 8);
  for (std::size_t c = 0; c < model.clusters; ++c) WriteFrequencies(model.frequencies[c], model.table_log, out);
}

bool ReadModel(BitReader& in, unsigned max_symbol, ExponentModel& model) {
  model.clusters = static_cast<std::size_t>(in.Read(4)) + 1;
  model.first_context[0] = 0;
  for (std::size_t c = 1; c < model.clusters; ++c) {
    model.first_context[c] = static_cast<std::uint8_t>(in.Read(8));
    if (model.first_context[c] <= model.first_context[c - 1]) return false;
  }
  for (std::size_t c = 0; c < model.clusters; ++c) {
    if (!ReadFrequencies(in, model.table_log, max_symbol, model.frequencies[c])) return false;
  }
  return in.ok();
}

}  // namespace stepfs::codec
