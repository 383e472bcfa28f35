// SPDX-License-Identifier: Apache-2.0
#include "codec/byte_group.h"

#include <gtest/gtest.h>

#include <vector>

#include "codec/cpu.h"
#include "codec/lmc_samples.h"

namespace stepfs::codec {
namespace {

TEST(ByteGroupTest, PlanesHoldTheBytesOfTheDeltasAndGiveThemBack) {
  for (std::size_t w = 0; w < kWidthCount; ++w) {
    const std::size_t width = std::size_t{1} << w;
    for (std::size_t elements : {0, 1, 7, 31, 32, 33, 64, 95, 1000}) {
      const ByteVector target_bytes = RandomBytes(elements * width, 1);
      const ByteVector base_bytes = RandomBytes(elements * width, 2);
      const auto* target = reinterpret_cast<const std::uint8_t*>(target_bytes.data());
      for (std::size_t kind = 0; kind < kDeltaKindCount; ++kind) {
        const auto* base = kind == 0 ? nullptr : reinterpret_cast<const std::uint8_t*>(base_bytes.data());
        std::vector<std::uint8_t> delta(elements * width);
        kDeltaScalar.apply[kind][w](target, base, elements, delta.data());
        for (CpuLevel level : SupportedCpuLevels()) {
          SCOPED_TRACE(std::string(Name(level)) + ", width " + std::to_string(width) + ", kind " +
                       std::to_string(kind) + ", elements " + std::to_string(elements));
          const ByteGroupKernels& kernels = level == CpuLevel::kAvx2 ? kByteGroupAvx2 : kByteGroupScalar;
          std::vector<std::vector<std::uint8_t>> planes(width, std::vector<std::uint8_t>(elements));
          std::uint8_t* out[kMaxWidth];
          const std::uint8_t* in[kMaxWidth];
          for (std::size_t p = 0; p < width; ++p) in[p] = out[p] = planes[p].data();
          kernels.group[kind][w](target, base, elements, out);
          for (std::size_t p = 0; p < width; ++p) {
            for (std::size_t i = 0; i < elements; ++i) ASSERT_EQ(planes[p][i], delta[i * width + p]) << p << ", " << i;
          }
          std::vector<std::uint8_t> back(elements * width);
          kernels.ungroup[kind][w](in, base, elements, back.data());
          EXPECT_TRUE(std::equal(back.begin(), back.end(), target));
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepfs::codec
