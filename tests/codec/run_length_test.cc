// SPDX-License-Identifier: Apache-2.0
#include "codec/run_length.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "codec/cpu.h"

namespace stepfs::codec {
namespace {

using Octets = std::vector<std::uint8_t>;

struct Split {
  Octets tokens;
  Octets literals;
};

Split SplitRuns(CpuLevel level, const Octets& in, std::uint8_t run_byte) {
  const RunLengthKernels& kernels = level == CpuLevel::kAvx2 ? kRunLengthAvx2 : kRunLengthScalar;
  Split split{Octets(in.size()), Octets(in.size())};
  const RunCounts counts = kernels.split(in.data(), in.size(), run_byte, split.tokens.data(), split.literals.data());
  EXPECT_EQ(kernels.count(in.data(), in.size(), run_byte), in.size() - counts.literals);
  split.tokens.resize(counts.tokens);
  split.literals.resize(counts.literals);
  return split;
}

bool Merge(const Octets& tokens, const Octets& literals, Octets& out) {
  return MergeRuns(tokens.data(), literals.data(), {tokens.size(), literals.size()}, 0, out.data(), out.size());
}

TEST(RunLengthTest, WritesTheDocumentedTokens) {
  Octets in(5464, 0);
  in[5] = 1;
  in[6] = 2;
  in[6 + 1 + 247] = 3;
  in[6 + 1 + 247 + 1 + 248] = 4;
  in[5463] = 5;
  for (CpuLevel level : SupportedCpuLevels()) {
    const Split split = SplitRuns(level, in, 0);
    EXPECT_EQ(split.literals, (Octets{1, 2, 3, 4, 5}));
    // The last gap is 5463 - 503 - 1 = 4959 = 16 * 248 + 3 * 248 + 247.
    EXPECT_EQ(split.tokens, (Octets{5, 0, 247, 248, 0, 252, 249, 248, 247}));
  }
}

TEST(RunLengthTest, EveryDensityRoundTripsAlikeAtEveryLevel) {
  std::mt19937 random(1);
  for (unsigned interval : {1u, 2u, 3u, 10u, 100u, 3000u, 1'000'000u}) {
    for (std::size_t n : {1u, 63u, 64u, 65u, 4096u, 4097u, 65'535u, 65'536u}) {
      Octets in(n, 7);
      for (std::uint8_t& b : in) {
        if (random() % interval == 0) b = static_cast<std::uint8_t>(random());
      }
      const Split expected = SplitRuns(CpuLevel::kScalar, in, 7);
      for (CpuLevel level : SupportedCpuLevels()) {
        const Split split = SplitRuns(level, in, 7);
        EXPECT_EQ(split.tokens, expected.tokens);
        EXPECT_EQ(split.literals, expected.literals);
      }
      Octets out(n);
      ASSERT_TRUE(MergeRuns(expected.tokens.data(), expected.literals.data(),
                            {expected.tokens.size(), expected.literals.size()}, 7, out.data(), n));
      EXPECT_EQ(out, in);
    }
  }
}

TEST(RunLengthTest, RefusesTokensThatDoNotFit) {
  Octets out(10);
  EXPECT_TRUE(Merge({9}, {1}, out));
  EXPECT_FALSE(Merge({10}, {1}, out)) << "literal behind the end";
  EXPECT_FALSE(Merge({4, 5}, {1, 2}, out)) << "second literal behind the end";
  EXPECT_FALSE(Merge({248}, {}, out)) << "run beyond the end";
  EXPECT_FALSE(Merge({1}, {}, out)) << "no literal left";
  EXPECT_FALSE(Merge({1}, {1, 2}, out)) << "a literal too many";
  EXPECT_TRUE(Merge({}, {}, out));
}

}  // namespace
}  // namespace stepfs::codec
