// SPDX-License-Identifier: Apache-2.0
#include "codec/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/frame_fixtures.h"

namespace stepfs::codec {
namespace {

using testing::AppendRandom;
using testing::Below;
using testing::File;
using testing::Random;

Tensor MakeTensor(std::string name, std::uint64_t offset, std::uint64_t bytes, std::vector<std::uint64_t> shape = {},
                  ElementType element = ElementType::kFloat32) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.element = element;
  tensor.shape = shape.empty() ? std::vector<std::uint64_t>{bytes / Width(element)} : std::move(shape);
  tensor.extents.push_back({offset, bytes, {}});
  return tensor;
}

std::vector<PlannedWindow> PlanAll(std::uint64_t target_bytes, const Layout& layout, const Alignment* base = nullptr,
                                   const PlanLimits& limits = {}) {
  Planner planner(target_bytes, layout, base, limits);
  std::vector<PlannedWindow> windows;
  while (auto window = planner.Next()) windows.push_back(std::move(*window));
  return windows;
}

// Pieces must tile each window, windows the target, and no chunk may exceed the limit.
void ExpectTiles(const std::vector<PlannedWindow>& windows, std::uint64_t target_bytes, const PlanLimits& limits) {
  std::uint64_t end = 0;
  for (const PlannedWindow& window : windows) {
    ASSERT_EQ(window.offset, end);
    EXPECT_LE(window.bytes, std::max(limits.window_bytes, limits.chunk_bytes));
    std::vector<PlannedPiece> pieces;
    for (const PlannedChunk& chunk : window.chunks) {
      EXPECT_LE(chunk.bytes, limits.chunk_bytes);
      std::uint64_t sum = 0;
      for (const PlannedPiece& piece : chunk.pieces) sum += piece.bytes;
      EXPECT_EQ(sum, chunk.bytes);
      EXPECT_TRUE(std::is_sorted(chunk.pieces.begin(), chunk.pieces.end(),
                                 [](const auto& a, const auto& b) { return a.offset < b.offset; }));
      pieces.insert(pieces.end(), chunk.pieces.begin(), chunk.pieces.end());
    }
    std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    for (const PlannedPiece& piece : pieces) {
      ASSERT_EQ(piece.offset, end);
      ASSERT_GT(piece.bytes, 0u);
      end += piece.bytes;
    }
    ASSERT_EQ(end, window.offset + window.bytes);
  }
  EXPECT_EQ(end, target_bytes);
}

TEST(AlignmentTest, PairsByNameWhereverTensorsLie) {
  Layout target;
  target.tensors = {MakeTensor("a", 164, 4000), MakeTensor("b", 5000, 8000)};
  Layout base;
  base.tensors = {MakeTensor("b", 100, 8000), MakeTensor("a", 9000, 4000)};
  const Alignment alignment = Alignment::Between(20000, target, 20000, &base);
  EXPECT_EQ(alignment.SourceOffset(164, 4000), 9000u);
  EXPECT_EQ(alignment.SourceOffset(5000, 8000), 100u);
  EXPECT_EQ(alignment.SourceOffset(5100, 10), 200u);
  EXPECT_EQ(alignment.SourceOffset(164, 4001), std::nullopt) << "beyond the tensor";
}

TEST(AlignmentTest, PairsBytesBeforeTensorsWithThoseBeforeTheirPartners) {
  Layout target;
  target.tensors = {MakeTensor("a", 64, 4000), MakeTensor("b", 4164, 4000)};
  Layout base;
  base.tensors = {MakeTensor("a", 128, 4000), MakeTensor("b", 4300, 4000)};
  const Alignment alignment = Alignment::Between(8200, target, 8400, &base);
  ASSERT_EQ(alignment.runs().size(), 5u);
  EXPECT_EQ(alignment.runs()[0].source_bytes, 128u);  // Header of 64 against header of 128.
  EXPECT_EQ(alignment.runs()[2].target_offset, 4064u);
  EXPECT_EQ(alignment.runs()[2].source_offset, 4128u);
  EXPECT_EQ(alignment.runs()[2].source_bytes, 172u);
  EXPECT_EQ(alignment.runs()[4].target_bytes, 36u);
  EXPECT_EQ(alignment.runs()[4].source_offset, 8300u);
  EXPECT_EQ(alignment.runs()[4].source_bytes, 100u);
}

TEST(AlignmentTest, PairsNamelessTensorsInOrderOfTheirShape) {
  Layout target;
  target.tensors = {MakeTensor("", 0, 4000, {10, 100}), MakeTensor("", 4000, 400, {100}),
                    MakeTensor("", 4400, 4000, {10, 100})};
  Layout base;
  base.tensors = {MakeTensor("", 0, 400, {100}), MakeTensor("", 400, 4000, {10, 100}),
                  MakeTensor("", 4400, 4000, {10, 100})};
  const Alignment alignment = Alignment::Between(8400, target, 8400, &base);
  EXPECT_EQ(alignment.SourceOffset(0, 4000), 400u);
  EXPECT_EQ(alignment.SourceOffset(4000, 400), 0u);
  EXPECT_EQ(alignment.SourceOffset(4400, 4000), 4400u);
}

TEST(AlignmentTest, RenamedTensorsFindEachOtherByShape) {
  Layout target;
  target.tensors = {MakeTensor("kept", 0, 4000, {1000}), MakeTensor("model.w", 4000, 8000, {40, 50})};
  Layout base;
  base.tensors = {MakeTensor("w", 0, 8000, {40, 50}), MakeTensor("kept", 8000, 4000, {1000})};
  const Alignment alignment = Alignment::Between(12000, target, 12000, &base);
  EXPECT_EQ(alignment.SourceOffset(4000, 8000), 0u);
  EXPECT_EQ(alignment.SourceOffset(0, 4000), 8000u);
}

TEST(AlignmentTest, GrownTensorSharesItsRows) {
  Layout target;
  target.tensors = {MakeTensor("embedding", 0, 12000, {30, 100})};
  Layout base;
  base.tensors = {MakeTensor("embedding", 500, 8000, {20, 100})};
  const Alignment alignment = Alignment::Between(12000, target, 9000, &base);
  EXPECT_EQ(alignment.SourceOffset(0, 8000), 500u);
  EXPECT_EQ(alignment.SourceOffset(8000, 100), std::nullopt);
}

TEST(AlignmentTest, ReshapedRowsAreNotAligned) {
  Layout target;
  target.tensors = {MakeTensor("w", 0, 12000, {30, 100})};
  Layout base;
  base.tensors = {MakeTensor("w", 0, 12120, {30, 101})};
  EXPECT_EQ(Alignment::Between(12000, target, 12120, &base).SourceOffset(0, 4), std::nullopt);
}

TEST(AlignmentTest, AnotherElementTypeIsNoPartner) {
  Layout target;
  target.tensors = {MakeTensor("w", 0, 4000, {2000}, ElementType::kBfloat16)};
  Layout base;
  base.tensors = {MakeTensor("w", 0, 4000, {1000}, ElementType::kFloat32)};
  EXPECT_EQ(Alignment::Between(4000, target, 4000, &base).SourceOffset(0, 4), std::nullopt);
}

TEST(AlignmentTest, ChunkedArraysArePairedByOrigin) {
  Tensor tensor = MakeTensor("w", 0, 1000, {500});
  tensor.extents = {{0, 1000, {0}}, {1000, 1000, {250}}};
  Layout target;
  target.tensors = {tensor};
  tensor.extents = {{0, 1000, {250}}, {1000, 1000, {0}}};
  Layout base;
  base.tensors = {tensor};
  const Alignment alignment = Alignment::Between(2000, target, 2000, &base);
  EXPECT_EQ(alignment.SourceOffset(0, 1000), 1000u);
  EXPECT_EQ(alignment.SourceOffset(1000, 1000), 0u);
}

TEST(AlignmentTest, WithoutTensorsRunsFromTheBeginning) {
  const Alignment alignment = Alignment::Between(1000, Layout(), 700, nullptr);
  EXPECT_EQ(alignment.SourceOffset(600, 100), 600u);
  EXPECT_EQ(alignment.SourceOffset(650, 100), std::nullopt);
}

TEST(AlignmentTest, IgnoresExtentsOutsideAndOverlapping) {
  Layout layout;
  layout.tensors = {MakeTensor("a", 0, 4000), MakeTensor("overlaps", 2000, 4000),
                    MakeTensor("outside", 9000, UINT64_MAX - 4000), MakeTensor("b", 4000, 4000)};
  const auto extents = KeptExtents(10000, layout);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0].tensor, 0u);
  EXPECT_EQ(extents[1].tensor, 3u);
}

TEST(PlannerTest, EmptyTargetHasNoWindow) { EXPECT_TRUE(PlanAll(0, Layout()).empty()); }

TEST(PlannerTest, LargeTensorsHaveEqualChunksOfTheirOwn) {
  Layout layout;
  layout.tensors = {MakeTensor("w", 0, 1200 * 1024)};
  const auto windows = PlanAll(1200 * 1024, layout);
  ASSERT_EQ(windows.size(), 1u);
  ASSERT_EQ(windows[0].chunks.size(), 3u);
  for (const PlannedChunk& chunk : windows[0].chunks) {
    EXPECT_EQ(chunk.bytes, 400u * 1024);
    EXPECT_EQ(chunk.group, windows[0].chunks[0].group);
    EXPECT_EQ(chunk.element, ElementType::kFloat32);
  }
}

TEST(PlannerTest, SmallTensorsOfOneRoleShareAChunk) {
  Layout layout;
  std::uint64_t offset = 0;
  for (int layer = 0; layer < 10; ++layer) {
    for (const char* role : {"weight", "bias"}) {
      layout.tensors.push_back(MakeTensor(std::to_string(layer) + "." + role, offset + 100, 3000));
      offset += 3100;
    }
  }
  const auto windows = PlanAll(offset, layout);
  ASSERT_EQ(windows.size(), 1u);
  ASSERT_EQ(windows[0].chunks.size(), 3u) << "bytes between tensors, weights, biases";
  for (const PlannedChunk& chunk : windows[0].chunks) {
    EXPECT_EQ(chunk.pieces.size(), chunk.element == ElementType::kBytes ? 20u : 10u);
  }
}

TEST(PlannerTest, NeighboursInTargetAndBaseBecomeOnePiece) {
  Layout layout;
  for (std::uint64_t i = 0; i < 10; ++i) layout.tensors.push_back(MakeTensor(std::to_string(i) + ".w", i * 1000, 1000));
  const Alignment same = Alignment::Between(10000, layout, 10000, &layout);
  const auto windows = PlanAll(10000, layout, &same);
  ASSERT_EQ(windows[0].chunks.size(), 1u);
  EXPECT_EQ(windows[0].chunks[0].pieces.size(), 1u);
  EXPECT_EQ(windows[0].chunks[0].pieces[0].base_offset, 0u);
}

TEST(PlannerTest, BytesOfAnotherLengthGetBaseRanges) {
  Layout target;
  target.tensors = {MakeTensor("w", 300, 100000)};
  Layout base;
  base.tensors = {MakeTensor("w", 364, 100000)};
  const Alignment alignment = Alignment::Between(100400, target, 100464, &base);
  const auto windows = PlanAll(100400, target, &alignment);
  ASSERT_EQ(windows[0].chunks.size(), 2u);
  const PlannedChunk& bytes = windows[0].chunks[0];
  EXPECT_EQ(bytes.element, ElementType::kBytes);
  ASSERT_EQ(bytes.base_ranges.size(), 2u);
  EXPECT_EQ(bytes.base_ranges[0].bytes, 364u);
  EXPECT_EQ(bytes.base_ranges[1].offset, 100364u);
  EXPECT_EQ(windows[0].chunks[1].pieces[0].base_offset, 364u);
}

TEST(PlannerTest, AppendedFileIsAlignedFromTheBeginning) {
  const Alignment alignment = Alignment::Between(3 << 20, Layout(), 1 << 20, nullptr);
  const auto windows = PlanAll(3 << 20, Layout(), &alignment);
  const auto& chunks = windows[0].chunks;
  ASSERT_EQ(chunks.size(), 6u);
  EXPECT_EQ(chunks[0].pieces[0].base_offset, 0u);
  EXPECT_EQ(chunks[1].pieces[0].base_offset, 512u * 1024);
  EXPECT_EQ(chunks[2].pieces[0].base_offset, kNoOffset);
  EXPECT_FALSE(chunks[5].base_ranges.empty());
}

TEST(PlannerTest, TilesRandomTargetsAgainstRandomBases) {
  Random random(42);
  for (int round = 0; round < 300; ++round) {
    Layout layouts[2];
    std::uint64_t sizes[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      const std::size_t count = Below(random, 30);
      for (std::size_t i = 0; i < count; ++i) {
        sizes[side] += Below(random, 3) == 0 ? 0 : Below(random, 5000);
        const std::uint64_t bytes = 1 + Below(random, Below(random, 5) == 0 ? 200000 : 3000);
        std::string name = std::to_string(Below(random, 20)) + ".w";
        if (Below(random, 3) == 0) name.clear();
        layouts[side].tensors.push_back(MakeTensor(std::move(name), sizes[side], bytes, {},
                                                   static_cast<ElementType>(Below(random, kElementTypeCount))));
        if (Below(random, 20) != 0) sizes[side] += bytes;  // Now and then the next one overlaps.
      }
      sizes[side] += Below(random, 1000);
    }
    const PlanLimits limits{512 + Below(random, 40000), 1 + Below(random, 200000)};
    const Alignment alignment =
        Alignment::Between(sizes[0], layouts[0], sizes[1], Below(random, 10) == 0 ? nullptr : &layouts[1]);
    const auto windows = PlanAll(sizes[0], layouts[0], Below(random, 5) == 0 ? nullptr : &alignment, limits);
    ASSERT_NO_FATAL_FAILURE(ExpectTiles(windows, sizes[0], limits)) << "round " << round;
    for (const PlannedWindow& window : windows) {
      for (const PlannedChunk& chunk : window.chunks) {
        for (const PlannedPiece& piece : chunk.pieces) {
          ASSERT_EQ(piece.base_offset == kNoOffset, !chunk.aligned()) << "all pieces of a chunk have a base or none";
          if (chunk.aligned()) {
            ASSERT_LE(piece.base_offset + piece.bytes, sizes[1]);
          }
        }
        for (const PlannedRange& range : chunk.base_ranges) ASSERT_LE(range.offset + range.bytes, sizes[1]);
      }
    }
  }
}

}  // namespace
}  // namespace stepfs::codec
