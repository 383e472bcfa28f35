// SPDX-License-Identifier: Apache-2.0
#include "codec/huffman.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "codec/cpu.h"

namespace stepfs::codec {
namespace {

using Octets = std::vector<std::uint8_t>;

Octets Geometric(std::size_t n, double p, unsigned seed) {
  std::mt19937 random(seed);
  std::geometric_distribution<int> draw(p);
  Octets octets(n);
  for (std::uint8_t& b : octets) b = static_cast<std::uint8_t>(draw(random));
  octets[0] = 0;
  octets[n - 1] = 1;  // At least two symbols.
  return octets;
}

SymbolCounts Counts(const Octets& in) {
  SymbolCounts counts;
  CountSymbols(in.data(), in.size(), counts);
  return counts;
}

Octets Encode(const Octets& in) {
  const SymbolCounts counts = Counts(in);
  const CodeLengths lengths = BuildCodeLengths(counts);
  Octets body(HuffmanBodyBound(counts, lengths) + kHuffmanSlack);
  const std::size_t size = HuffmanEncode(in.data(), in.size(), lengths, body.data());
  EXPECT_LE(size, body.size() - kHuffmanSlack);
  body.resize(size);
  return body;
}

Status Decode(const Octets& body, Octets& out) {
  const HuffmanJob job = {body.data(), body.size(), out.data(), out.size()};
  return HuffmanDecode({&job, 1});
}

unsigned Kraft(const CodeLengths& lengths) {
  unsigned sum = 0;
  for (std::uint8_t length : lengths) {
    if (length != 0) sum += 1u << (kMaxCodeBits - length);
  }
  return sum;
}

TEST(HuffmanTest, RoundTripsAlikeAtEveryLevel) {
  for (double p : {0.01, 0.05, 0.3, 0.9}) {
    for (std::size_t n : {2u, 3u, 4u, 5u, 7u, 8u, 19u, 20u, 21u, 100u, 1000u, 65'535u, 65'536u}) {
      const Octets in = Geometric(n, p, 1);
      Octets expected;
      for (CpuLevel level : SupportedCpuLevels()) {
        SCOPED_TRACE(std::string(Name(level)) + ", " + std::to_string(n));
        const ScopedCpuLevel scope(level);
        const Octets body = Encode(in);
        if (level == CpuLevel::kScalar) expected = body;
        EXPECT_EQ(body, expected);
        Octets out(n);
        ASSERT_TRUE(Decode(body, out).ok());
        EXPECT_EQ(out, in);
      }
    }
  }
}

TEST(HuffmanTest, JobsOfUnlikeLengthDecodeTogether) {
  std::vector<Octets> inputs;
  for (std::size_t n : {65'536u, 10u, 30'000u, 65'536u, 2u}) {
    inputs.push_back(Geometric(n, 0.05, static_cast<unsigned>(n)));
  }
  std::vector<Octets> bodies;
  std::vector<Octets> outputs;
  for (const Octets& in : inputs) {
    bodies.push_back(Encode(in));
    outputs.emplace_back(in.size());
  }
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    std::vector<HuffmanJob> jobs;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      jobs.push_back({bodies[i].data(), bodies[i].size(), outputs[i].data(), outputs[i].size()});
    }
    ASSERT_TRUE(HuffmanDecode(jobs).ok());
    EXPECT_EQ(outputs, inputs);
  }
}

TEST(HuffmanTest, CodesAreCompleteAndWithinTheLimit) {
  SymbolCounts fibonacci = {};  // The deepest tree there is.
  std::uint32_t a = 1;
  std::uint32_t b = 1;
  for (std::size_t i = 0; a + b < 40'000; ++i) {
    fibonacci[i * 5] = a;
    a = std::exchange(b, a + b);
  }
  SymbolCounts two = {};
  two[3] = 1;
  two[200] = 65'535;
  SymbolCounts flat;
  flat.fill(256);
  SymbolCounts one_common;
  one_common.fill(1);
  one_common[77] = 65'000;
  for (const SymbolCounts& counts : {fibonacci, two, flat, one_common}) {
    const CodeLengths lengths = BuildCodeLengths(counts);
    EXPECT_EQ(Kraft(lengths), 1u << kMaxCodeBits);
    for (std::size_t s = 0; s < 256; ++s) EXPECT_EQ(lengths[s] != 0, counts[s] != 0) << s;
  }
  EXPECT_EQ(BuildCodeLengths(two)[200], 1);
  EXPECT_EQ(BuildCodeLengths(flat)[0], 8);
}

// The bits of the best code within the limit, by package-merge (L. Larmore, D. Hirschberg, 1990): the cheapest 2n - 2
// of leaves and packages.
std::uint64_t OptimalBits(const SymbolCounts& counts) {
  std::vector<std::uint64_t> leaves;
  for (std::uint32_t count : counts) {
    if (count != 0) leaves.push_back(count);
  }
  std::sort(leaves.begin(), leaves.end());
  std::vector<std::uint64_t> list = leaves;
  for (unsigned level = 1; level < kMaxCodeBits; ++level) {
    std::vector<std::uint64_t> next = leaves;
    for (std::size_t i = 0; i + 1 < list.size(); i += 2) next.push_back(list[i] + list[i + 1]);
    std::sort(next.begin(), next.end());
    list = next;
  }
  return std::accumulate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(2 * leaves.size() - 2),
                         std::uint64_t{0});
}

TEST(HuffmanTest, CodesAreOptimalOrNearlyWhereTheLimitBites) {
  for (double p : {0.02, 0.03, 0.05, 0.1, 0.2, 0.4}) {
    for (std::size_t n : {500u, 4096u, 65'536u}) {
      const SymbolCounts counts = Counts(Geometric(n, p, 3));
      const CodeLengths lengths = BuildCodeLengths(counts);
      std::uint64_t bits = 0;
      unsigned longest = 0;
      for (std::size_t s = 0; s < 256; ++s) {
        bits += std::uint64_t{counts[s]} * lengths[s];
        longest = std::max<unsigned>(longest, lengths[s]);
      }
      SCOPED_TRACE(std::to_string(p) + ", " + std::to_string(n));
      EXPECT_LE(static_cast<double>(bits), 1.003 * static_cast<double>(OptimalBits(counts)));
      if (longest < kMaxCodeBits) {
        EXPECT_EQ(bits, OptimalBits(counts));
      }
    }
  }
}

TEST(HuffmanTest, CodebooksRoundTrip) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SymbolCounts counts = {};
    const std::size_t symbols = 2 + random() % 255;
    for (std::size_t i = 0; i < symbols; ++i) counts[random() % 256] = static_cast<std::uint32_t>(1 + random() % 200);
    counts[0] = 1;
    counts[1 + random() % 255] = 2;
    const CodeLengths lengths = BuildCodeLengths(counts);
    std::uint8_t book[kMaxCodebookBytes];
    const std::size_t size = WriteCodebook(lengths, book);
    ASSERT_LE(size, kMaxCodebookBytes);
    CodeLengths read;
    ASSERT_EQ(ReadCodebook(book, size, read), size);
    EXPECT_EQ(read, lengths);
    for (std::size_t cut = 0; cut < size; ++cut) EXPECT_EQ(ReadCodebook(book, cut, read), 0u) << cut;
  }
}

TEST(HuffmanTest, RefusesMalformedCodebooks) {
  CodeLengths lengths;
  const auto read = [&](Octets book) { return ReadCodebook(book.data(), book.size(), lengths); };
  EXPECT_EQ(read({1, 0x11}), 2u);
  EXPECT_EQ(read({1, 0x21}), 0u) << "incomplete";
  EXPECT_EQ(read({2, 0x11, 0x01}), 0u) << "oversubscribed";
  EXPECT_EQ(read({0, 0x01}), 0u) << "one symbol";
  EXPECT_EQ(read({2, 0x21, 0x12}), 0u) << "padding";
  EXPECT_EQ(read({2, 0x21, 0x02}), 3u);
  EXPECT_EQ(read({1, 0x0e}), 0u) << "nothing to repeat";
  EXPECT_EQ(read({1, 0x1f}), 0u) << "nibble 15";
  EXPECT_EQ(read({4, 0xc1, 0x15}), 0u) << "run beyond the last symbol";
  EXPECT_EQ(read({1}), 0u) << "cut short";
}

TEST(HuffmanTest, RefusesStreamsThatDoNotEndWithTheirLastSymbol) {
  const Octets in = Geometric(997, 0.1, 7);
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    Octets body = Encode(in);
    Octets more(in.size() + 64);
    EXPECT_EQ(Decode(body, more).kind(), StatusKind::kCorruption);
    Octets fewer(in.size() - 64);
    EXPECT_EQ(Decode(body, fewer).kind(), StatusKind::kCorruption);
    body.push_back(0);
    Octets out(in.size());
    EXPECT_EQ(Decode(body, out).kind(), StatusKind::kCorruption);
    body.pop_back();
    for (std::size_t cut = 0; cut < body.size(); ++cut) {
      const Octets prefix(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(cut));
      EXPECT_EQ(Decode(prefix, out).kind(), StatusKind::kCorruption) << cut;
    }
  }
}

}  // namespace
}  // namespace stepfs::codec
