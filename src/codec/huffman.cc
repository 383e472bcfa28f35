// SPDX-License-Identifier: Apache-2.0
#include "codec/huffman.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "base/serial.h"
#include "codec/cpu.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kJumpTableBytes = 2 * (kHuffmanStreams - 1);

// Codebook nibbles (docs/codec_lmc.md, "Codebook").
constexpr unsigned kShortZeroRun = 12;
constexpr unsigned kLongZeroRun = 13;
constexpr unsigned kRepeat = 14;
constexpr unsigned kMinRun = 3;
constexpr unsigned kMinLongRun = 19;

// Symbols that occur, as count << 8 | symbol, by ascending count and then symbol. Returns how many.
std::size_t SortByCount(const SymbolCounts& counts, std::array<std::uint32_t, 256>& sorted) {
  std::array<std::uint32_t, 256> keys;
  std::size_t size = 0;
  std::array<std::array<std::uint16_t, 256>, 2> starts = {};
  for (std::uint32_t symbol = 0; symbol < 256; ++symbol) {
    if (counts[symbol] == 0) continue;
    const std::uint32_t count = std::min<std::uint32_t>(counts[symbol], 0xffff);
    keys[size++] = count << 8 | symbol;
    ++starts[0][count & 0xff];
    ++starts[1][count >> 8];
  }
  for (std::array<std::uint16_t, 256>& digit : starts) {
    std::uint16_t sum = 0;
    for (std::uint16_t& start : digit) sum = static_cast<std::uint16_t>(sum + std::exchange(start, sum));
  }
  std::array<std::uint32_t, 256> half;
  for (std::size_t i = 0; i < size; ++i) half[starts[0][(keys[i] >> 8) & 0xff]++] = keys[i];
  for (std::size_t i = 0; i < size; ++i) sorted[starts[1][half[i] >> 16]++] = half[i];
  return size;
}

// Depths of the Huffman tree over ascending weights, by the two-queue method (J. van Leeuwen, 1976): merged nodes come
// out in ascending order too, so no heap is needed. depths[i] never increases with i.
void TreeDepths(const std::array<std::uint32_t, 256>& sorted, std::size_t leaves, std::uint8_t* depths) {
  std::array<std::uint32_t, 512> weight;
  std::array<std::uint16_t, 512> parent;
  std::array<std::uint8_t, 512> depth;
  for (std::size_t i = 0; i < leaves; ++i) weight[i] = sorted[i] >> 8;
  const std::size_t root = 2 * leaves - 2;
  std::size_t leaf = 0;
  std::size_t merged = leaves;
  for (std::size_t node = leaves; node <= root; ++node) {
    std::uint32_t sum = 0;
    for (int child = 0; child < 2; ++child) {
      const bool take_leaf = leaf < leaves && (merged == node || weight[leaf] <= weight[merged]);
      const std::size_t taken = take_leaf ? leaf++ : merged++;
      parent[taken] = static_cast<std::uint16_t>(node);
      sum += weight[taken];
    }
    weight[node] = sum;
  }
  depth[root] = 0;
  for (std::size_t node = root; node-- > 0;) {
    // Depths beyond 255 cannot occur: weights would have to grow like Fibonacci numbers past the sum of counts.
    depth[node] = static_cast<std::uint8_t>(depth[parent[node]] + 1);
  }
  std::copy_n(depth.begin(), leaves, depths);
}

// How many codes have each length.
using LengthCounts = std::array<std::uint32_t, kMaxCodeBits + 1>;

// The place in ascending order of the lightest symbol of `length`: lighter ones have longer codes.
std::size_t LightestOf(const LengthCounts& codes, unsigned length) {
  std::size_t place = 0;
  for (unsigned longer = length + 1; longer <= kMaxCodeBits; ++longer) place += codes[longer];
  return place;
}

// Cuts depths to the limit and makes the code complete again, near the least cost. Space is counted in units of the
// longest code: first the symbols whose weight is least for the space they free get a bit more, until the code fits;
// then the space that is left over goes to the heaviest symbols that fit into it.
LengthCounts LimitedLengthCounts(const std::array<std::uint32_t, 256>& sorted, const std::uint8_t* depths,
                                 std::size_t leaves) {
  LengthCounts codes = {};
  std::int64_t excess = -(std::int64_t{1} << kMaxCodeBits);
  for (std::size_t i = 0; i < leaves; ++i) {
    const unsigned length = std::min<unsigned>(depths[i], kMaxCodeBits);
    ++codes[length];
    excess += std::int64_t{1} << (kMaxCodeBits - length);
  }
  while (excess > 0) {
    unsigned best = 0;
    std::int64_t best_weight = 0;
    std::int64_t best_freed = 0;
    std::size_t place = codes[kMaxCodeBits];
    for (unsigned length = kMaxCodeBits - 1; length > 0; place += codes[length--]) {
      if (codes[length] == 0) continue;
      const std::int64_t weight = sorted[place] >> 8;
      const std::int64_t freed = std::min(excess, std::int64_t{1} << (kMaxCodeBits - length - 1));
      if (best == 0 || weight * best_freed < best_weight * freed) {
        best = length;
        best_weight = weight;
        best_freed = freed;
      }
    }
    --codes[best];
    ++codes[best + 1];
    excess -= std::int64_t{1} << (kMaxCodeBits - best - 1);
  }
  while (excess < 0) {
    unsigned best = 0;
    std::uint32_t best_weight = 0;
    for (unsigned length = kMaxCodeBits; length > 1 && std::int64_t{1} << (kMaxCodeBits - length) <= -excess;
         --length) {
      if (codes[length] == 0) continue;
      const std::uint32_t weight = sorted[LightestOf(codes, length) + codes[length] - 1] >> 8;
      if (best == 0 || weight > best_weight) {
        best = length;
        best_weight = weight;
      }
    }
    --codes[best];
    ++codes[best - 1];
    excess += std::int64_t{1} << (kMaxCodeBits - best);
  }
  return codes;
}

// Symbols with a code by ascending (length, symbol); `counts[l]` of each length.
struct CanonicalOrder {
  std::array<std::uint8_t, 256> symbols;
  std::array<std::uint16_t, kMaxCodeBits + 1> counts;
};

CanonicalOrder OrderCanonically(const CodeLengths& lengths) {
  CanonicalOrder order;
  order.counts = {};
  for (std::uint8_t length : lengths) ++order.counts[length];
  std::array<std::uint16_t, kMaxCodeBits + 1> next = {};
  for (unsigned length = 1; length < kMaxCodeBits; ++length) {
    next[length + 1] = static_cast<std::uint16_t>(next[length] + order.counts[length]);
  }
  for (unsigned symbol = 0; symbol < 256; ++symbol) {
    const unsigned length = lengths[symbol];
    if (length != 0) order.symbols[next[length]++] = static_cast<std::uint8_t>(symbol);
  }
  order.counts[0] = 0;
  return order;
}

// The code after `code` of the same length in canonical order, both with their first bit lowest.
std::uint32_t NextReversed(std::uint32_t code, unsigned length) {
  const std::uint32_t zeros = code ^ ((1u << length) - 1);
  if (zeros == 0) return 0;  // That was the last one.
  const std::uint32_t highest = 1u << (std::bit_width(zeros) - 1);
  return (code & (highest - 1)) | highest;
}

// Calls visit(symbol, reversed code, length) for each code, in canonical order, and level(length) after each length.
template <typename Visit, typename Level>
void VisitCodes(const CanonicalOrder& order, Visit visit, Level level) {
  std::uint32_t code = 0;
  std::size_t i = 0;
  for (unsigned length = 1; length <= kMaxCodeBits; ++length) {
    for (unsigned left = order.counts[length]; left > 0; --left) {
      visit(order.symbols[i++], code, length);
      code = NextReversed(code, length);
    }
    // Growing by a bit appends a 0, the new highest bit of the reversed code.
    level(length);
  }
}

void BuildEncodeTable(const CodeLengths& lengths, EncodeTable& table) {
  VisitCodes(
      OrderCanonically(lengths),
      [&](std::uint8_t symbol, std::uint32_t code, unsigned length) {
        table[symbol] = std::uint64_t{code} << (64 - length) | length;
      },
      [](unsigned) {});
}

// Codes of l bits fill the first 2^l entries; doubling the table before the next length repeats them at every
// continuation (E. Biggers' libdeflate builds its tables so).
void BuildDecodeTable(const CodeLengths& lengths, DecodeTable& table) {
  table[0] = 0;
  table[1] = 0;
  VisitCodes(
      OrderCanonically(lengths),
      [&](std::uint8_t symbol, std::uint32_t code, unsigned length) {
        table[code] = static_cast<std::uint16_t>(symbol << 8 | length);
      },
      [&](unsigned length) {
        if (length == kMaxCodeBits) return;
        const std::size_t size = std::size_t{1} << length;
        std::memcpy(table.data() + size, table.data(), size * sizeof(table[0]));
      });
}

class NibbleWriter {
 public:
  explicit NibbleWriter(std::uint8_t* out) : out_(out) {}
  void Put(unsigned nibble) {
    if (count_ % 2 == 0) {
      out_[count_ / 2] = static_cast<std::uint8_t>(nibble);
    } else {
      out_[count_ / 2] = static_cast<std::uint8_t>(out_[count_ / 2] | nibble << 4);
    }
    ++count_;
  }
  std::size_t bytes() const { return (count_ + 1) / 2; }

 private:
  std::uint8_t* out_;
  std::size_t count_ = 0;
};

class NibbleReader {
 public:
  NibbleReader(const std::uint8_t* in, std::size_t size) : in_(in), nibbles_(2 * size) {}
  // After a read behind the end, ok() is false for good; such reads give 0.
  unsigned Get() {
    if (position_ == nibbles_) {
      ok_ = false;
      return 0;
    }
    const unsigned byte = in_[position_ / 2];
    return (position_++ % 2 == 0) ? byte & 15 : byte >> 4;
  }
  std::size_t bytes() const { return (position_ + 1) / 2; }
  // The upper half of a last byte that is half used.
  bool PaddingIsZero() const { return position_ % 2 == 0 || in_[position_ / 2] >> 4 == 0; }
  bool ok() const { return ok_; }

 private:
  const std::uint8_t* in_;
  std::size_t nibbles_;
  std::size_t position_ = 0;
  bool ok_ = true;
};

// Symbols of stream s: every fourth of n.
std::size_t StreamSymbols(std::size_t n, std::size_t s) { return (n + kHuffmanStreams - 1 - s) / kHuffmanStreams; }

// What decoding a job needs. False if the body is malformed so far.
bool Prepare(const HuffmanJob& job, HuffmanBlock& block) {
  CodeLengths lengths;
  const std::size_t codebook = ReadCodebook(job.body, job.body_bytes, lengths);
  if (codebook == 0 || job.body_bytes - codebook < kJumpTableBytes) return false;
  BuildDecodeTable(lengths, block.table);
  block.out = job.out;
  block.symbols = job.symbols;
  const std::uint8_t* jump = job.body + codebook;
  const std::uint8_t* next = jump + kJumpTableBytes;
  const std::uint8_t* const end = job.body + job.body_bytes;
  for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
    auto size = static_cast<std::size_t>(end - next);
    if (s + 1 < kHuffmanStreams) {
      const std::size_t stated = jump[2 * s] | std::size_t{jump[2 * s + 1]} << 8;
      if (stated > size) return false;
      size = stated;
    }
    block.begin[s] = next;
    next += size;
    block.end[s] = next;
  }
  return true;
}

}  // namespace

const HuffmanKernels& ActiveHuffmanKernels() { return SelectKernels(kHuffmanScalar, kHuffmanAvx2); }

void CountSymbols(const std::uint8_t* in, std::size_t n, SymbolCounts& counts) {
  ActiveHuffmanKernels().count(in, n, counts.data());
}

CodeLengths BuildCodeLengths(const SymbolCounts& counts) {
  std::array<std::uint32_t, 256> sorted;
  const std::size_t leaves = SortByCount(counts, sorted);
  assert(leaves >= 2);
  std::array<std::uint8_t, 256> depths;
  TreeDepths(sorted, leaves, depths.data());
  const LengthCounts codes = LimitedLengthCounts(sorted, depths.data(), leaves);
  CodeLengths lengths = {};
  std::size_t i = 0;
  for (unsigned length = kMaxCodeBits; length > 0; --length) {
    for (std::uint32_t left = codes[length]; left > 0; --left) {
      lengths[sorted[i++] & 0xff] = static_cast<std::uint8_t>(length);
    }
  }
  return lengths;
}

std::size_t WriteCodebook(const CodeLengths& lengths, std::uint8_t* out) {
  unsigned last = 255;
  while (last > 0 && lengths[last] == 0) --last;
  out[0] = static_cast<std::uint8_t>(last);
  NibbleWriter nibbles(out + 1);
  for (unsigned symbol = 0; symbol <= last;) {
    const unsigned length = lengths[symbol];
    unsigned run = 1;
    while (symbol + run <= last && lengths[symbol + run] == length) ++run;
    symbol += run;
    if (length != 0) {
      nibbles.Put(length);
      --run;
    }
    while (run >= kMinRun) {
      unsigned taken = std::min(run, kMinRun + 15);
      if (length == 0 && run >= kMinLongRun) {
        taken = run;
        nibbles.Put(kLongZeroRun);
        nibbles.Put((taken - kMinLongRun) & 15);
        nibbles.Put((taken - kMinLongRun) >> 4);
      } else {
        nibbles.Put(length == 0 ? kShortZeroRun : kRepeat);
        nibbles.Put(taken - kMinRun);
      }
      run -= taken;
    }
    for (; run > 0; --run) nibbles.Put(length);
  }
  return 1 + nibbles.bytes();
}

std::size_t ReadCodebook(const std::uint8_t* in, std::size_t size, CodeLengths& lengths) {
  if (size == 0) return 0;
  lengths = {};
  const unsigned end = in[0] + 1u;
  NibbleReader nibbles(in + 1, size - 1);
  unsigned kraft = 0;
  for (unsigned symbol = 0; symbol < end;) {
    unsigned length = nibbles.Get();
    unsigned run = 1;
    if (length == kShortZeroRun) {
      length = 0;
      run = kMinRun + nibbles.Get();
    } else if (length == kLongZeroRun) {
      length = 0;
      run = kMinLongRun + nibbles.Get();
      run += nibbles.Get() << 4;
    } else if (length == kRepeat) {
      if (symbol == 0) return 0;
      length = lengths[symbol - 1];
      run = kMinRun + nibbles.Get();
    }
    if (length > kMaxCodeBits || run > end - symbol) return 0;
    if (length == 0) {
      symbol += run;
      continue;
    }
    kraft += run << (kMaxCodeBits - length);
    std::memset(lengths.data() + symbol, static_cast<int>(length), run);
    symbol += run;
  }
  if (!nibbles.ok() || !nibbles.PaddingIsZero()) return 0;
  return kraft == 1u << kMaxCodeBits ? 1 + nibbles.bytes() : 0;
}

std::size_t HuffmanBodyBound(const SymbolCounts& counts, const CodeLengths& lengths) {
  std::uint8_t codebook[kMaxCodebookBytes];
  std::uint64_t bits = 0;
  for (std::size_t symbol = 0; symbol < 256; ++symbol) bits += std::uint64_t{counts[symbol]} * lengths[symbol];
  // Each stream is padded to a byte.
  return WriteCodebook(lengths, codebook) + kJumpTableBytes + static_cast<std::size_t>(bits / 8) + kHuffmanStreams;
}

std::size_t HuffmanEncode(const std::uint8_t* in, std::size_t n, const CodeLengths& lengths, std::uint8_t* out) {
  EncodeTable table = {};
  BuildEncodeTable(lengths, table);
  const HuffmanKernels& kernels = ActiveHuffmanKernels();
  std::uint8_t* const jump = out + WriteCodebook(lengths, out);
  std::uint8_t* next = jump + kJumpTableBytes;
  for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
    std::uint8_t* const end = kernels.encode(in + n - 1 - s, StreamSymbols(n, s), table.data(), next);
    // 16,384 symbols take at most 22,528 bytes.
    if (s + 1 < kHuffmanStreams) {
      StoreLittle(static_cast<std::uint16_t>(end - next), reinterpret_cast<std::byte*>(jump + 2 * s));
    }
    next = end;
  }
  return static_cast<std::size_t>(next - out);
}

Status HuffmanDecode(std::span<const HuffmanJob> jobs) {
  const HuffmanKernels& kernels = ActiveHuffmanKernels();
  while (!jobs.empty()) {
    const std::size_t count = std::min<std::size_t>(2, jobs.size());
    HuffmanBlock blocks[2];
    for (std::size_t i = 0; i < count; ++i) {
      if (!Prepare(jobs[i], blocks[i])) {
        return Status::Corruption("huffman: malformed codebook or stream sizes in a body of " +
                                  std::to_string(jobs[i].body_bytes) + " bytes");
      }
    }
    if (!kernels.decode(blocks, count)) {
      return Status::Corruption("huffman: a stream does not end with its last symbol");
    }
    jobs = jobs.subspan(count);
  }
  return Status::Ok();
}

}  // namespace stepfs::codec
