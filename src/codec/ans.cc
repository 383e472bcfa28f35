// SPDX-License-Identifier: Apache-2.0
#include "codec/ans.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/cpu.h"

namespace stepfs::codec {
namespace {

// The reciprocal is exact for states below 2^31: Giesen's variant of Alverson's integer division, which needs one more
// bit for frequency 1 and therefore folds x - (x - 1) into the bias there.
AnsEncodeEntry MakeEncodeEntry(std::uint32_t start, std::uint32_t frequency, unsigned table_log) {
  std::uint32_t bias = start;
  std::uint32_t reciprocal = ~0u;
  unsigned shift = 0;
  if (frequency == 1) {
    bias += (1u << table_log) - 1;
  } else {
    shift = static_cast<unsigned>(std::bit_width(frequency - 1)) - 1;
    reciprocal = static_cast<std::uint32_t>(((std::uint64_t{1} << (shift + 32)) + frequency - 1) / frequency);
  }
  return {reciprocal, frequency | bias << 13 | shift << 26};
}

}  // namespace

void BuildAnsEncodeTable(const AnsFrequencies& frequencies, unsigned table_log,
                         std::span<AnsEncodeEntry, kAnsSymbols> table) {
  std::uint32_t start = 0;
  for (std::size_t symbol = 0; symbol < kAnsSymbols; ++symbol) {
    const std::uint32_t frequency = frequencies[symbol];
    table[symbol] = frequency == 0 ? AnsEncodeEntry{0, 0} : MakeEncodeEntry(start, frequency, table_log);
    start += frequency;
  }
}

void BuildAnsDecodeTable(const AnsFrequencies& frequencies, unsigned table_log, std::span<AnsDecodeEntry> table) {
  (void)table_log;
  std::size_t slot = 0;
  for (std::uint32_t symbol = 0; symbol < kAnsSymbols; ++symbol) {
    const std::uint32_t frequency = frequencies[symbol];
    if (frequency == 0) continue;
    const std::uint32_t entry = symbol | (frequency - 1) << 8;
    for (std::uint32_t i = 0; i < frequency; ++i) table[slot + i] = entry | i << 20;
    slot += frequency;
  }
}

const AnsKernels& ActiveAnsKernels() { return SelectKernels(kAnsScalar, kAnsAvx2); }

std::uint8_t* AnsEncodeStream(const AnsEncodeArgs& args, std::uint8_t* end) {
  std::uint32_t states[kAnsMaxLanes];
  std::fill_n(states, args.lanes, kAnsStateLow);
  std::uint8_t* first_word = ActiveAnsKernels().encode(args, states, end);
  const std::size_t bytes = args.lanes * sizeof states[0];
  std::memcpy(first_word - bytes, states, bytes);
  return first_word - bytes;
}

bool AnsStreamDecoder::Start(std::span<const std::uint8_t> stream, std::size_t lanes) {
  const std::size_t bytes = lanes * sizeof states_[0];
  if (stream.size() < bytes) return false;
  lanes_ = lanes;
  std::memcpy(states_, stream.data(), bytes);
  in_ = stream.data() + bytes;
  end_ = stream.data() + stream.size();
  return std::all_of(states_, states_ + lanes,
                     [](std::uint32_t x) { return x >= kAnsStateLow && x < (kAnsStateLow << 16); });
}

bool AnsStreamDecoder::Decode(AnsDecodeArgs args) {
  args.lanes = lanes_;
  return ActiveAnsKernels().decode(args, states_, &in_, end_);
}

bool AnsStreamDecoder::AtEnd() const {
  return in_ == end_ && std::all_of(states_, states_ + lanes_, [](std::uint32_t x) { return x == kAnsStateLow; });
}

}  // namespace stepfs::codec
