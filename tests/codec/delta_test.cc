// SPDX-License-Identifier: Apache-2.0
#include "codec/delta.h"

#include <gtest/gtest.h>

#include <vector>

#include "codec/cpu.h"
#include "codec/lmc_samples.h"

namespace stepfs::codec {
namespace {

using Octets = std::vector<std::uint8_t>;

Octets RandomOctets(std::size_t n, unsigned seed) {
  const ByteVector bytes = RandomBytes(n, seed);
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {data, data + n};
}

// Digit by digit, with the borrow carried by hand.
Octets SlowSubtract(const Octets& target, const Octets& base, std::size_t width) {
  Octets delta(target.size());
  for (std::size_t i = 0; i < target.size(); i += width) {
    int borrow = 0;
    for (std::size_t p = i; p < i + width; ++p) {
      const int digit = target[p] - base[p] - borrow;
      borrow = digit < 0 ? 1 : 0;
      delta[p] = static_cast<std::uint8_t>(digit);
    }
  }
  return delta;
}

const DeltaKernels& KernelsOf(CpuLevel level) { return level == CpuLevel::kAvx2 ? kDeltaAvx2 : kDeltaScalar; }

TEST(DeltaTest, AppliesAndUndoesEveryKindAndWidth) {
  for (std::size_t w = 0; w < kWidthCount; ++w) {
    const std::size_t width = std::size_t{1} << w;
    for (std::size_t elements : {0, 1, 3, 31, 32, 33, 100, 257}) {
      const Octets target = RandomOctets(elements * width, 1);
      const Octets base = RandomOctets(elements * width, 2);
      Octets exclusive(target.size());
      for (std::size_t i = 0; i < target.size(); ++i) exclusive[i] = target[i] ^ base[i];
      const Octets expected[] = {target, exclusive, SlowSubtract(target, base, width)};
      for (CpuLevel level : SupportedCpuLevels()) {
        for (std::size_t kind = 0; kind < kDeltaKindCount; ++kind) {
          SCOPED_TRACE(std::string(Name(level)) + ", width " + std::to_string(width) + ", kind " +
                       std::to_string(kind));
          const std::uint8_t* const against = kind == 0 ? nullptr : base.data();
          Octets delta(target.size());
          KernelsOf(level).apply[kind][w](target.data(), against, elements, delta.data());
          EXPECT_EQ(delta, expected[kind]);
          KernelsOf(level).undo[kind][w](delta.data(), against, elements, delta.data());  // In place.
          EXPECT_EQ(delta, target);
        }
      }
    }
  }
}

TEST(DeltaTest, FindsTheBytesThatVary) {
  for (std::size_t w = 0; w < kWidthCount; ++w) {
    const std::size_t width = std::size_t{1} << w;
    for (std::size_t elements : {1, 2, 63, 64, 65, 1000}) {
      const Octets base = RandomOctets(elements * width, 2);
      for (std::size_t plane = 0; plane < width; ++plane) {
        Octets target = base;
        target[(elements - 1) * width + plane] ^= 0x10;
        for (CpuLevel level : SupportedCpuLevels()) {
          const auto varying = KernelsOf(level).varying[1][w];
          EXPECT_EQ(varying(base.data(), base.data(), elements), 0) << Name(level);
          // A single element does not differ from the others.
          EXPECT_EQ(varying(target.data(), base.data(), elements), elements == 1 ? 0 : 1u << plane) << Name(level);
        }
      }
    }
  }
}

TEST(CpuTest, ScopesForceALevelAndGiveItBack) {
  const CpuLevel before = ActiveCpuLevel();
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    EXPECT_EQ(ActiveCpuLevel(), level);
    EXPECT_EQ(&ActiveDeltaKernels(), &KernelsOf(level));
    EXPECT_EQ(CpuLevelFromName(Name(level)), level);
  }
  EXPECT_EQ(ActiveCpuLevel(), before);
  EXPECT_FALSE(CpuLevelFromName("mmx"));
}

}  // namespace
}  // namespace stepfs::codec
