// SPDX-License-Identifier: Apache-2.0
#include "fs/virtual_nodes.h"

#include <gtest/gtest.h>

#include <set>

namespace stepfs::fs {
namespace {

using Kind = VirtualNode::Kind;

TEST(VirtualNodesTest, NumbersAreStableAndOutsideTheRealOnes) {
  VirtualNodes nodes;
  const VirtualNode node{Kind::kVersion, 5, "last.pt", 3, 77, 1000};
  const std::uint64_t before = nodes.NumberOf(node);
  EXPECT_TRUE(IsVirtual(before));
  EXPECT_EQ(nodes.Hold(node), before);
  nodes.Drop(before, 1);
  EXPECT_EQ(nodes.Hold(node), before);
}

TEST(VirtualNodesTest, EveryFieldCounts) {
  const VirtualNodes nodes;
  const VirtualNode node{Kind::kVersion, 5, "last.pt", 3, 77, 1000};
  std::set<std::uint64_t> numbers{nodes.NumberOf(node)};
  const auto differs = [&](auto change) {
    VirtualNode other = node;
    change(other);
    return numbers.insert(nodes.NumberOf(other)).second;
  };
  EXPECT_TRUE(differs([](VirtualNode& other) { other.kind = Kind::kVersionsOf; }));
  EXPECT_TRUE(differs([](VirtualNode& other) { other.directory = 6; }));
  EXPECT_TRUE(differs([](VirtualNode& other) { other.name = "last.p"; }));
  EXPECT_TRUE(differs([](VirtualNode& other) { other.version = 4; }));
  EXPECT_TRUE(differs([](VirtualNode& other) { other.content = 78; }));
  EXPECT_TRUE(differs([](VirtualNode& other) { other.size = 1001; }));
}

TEST(VirtualNodesTest, IsFoundWhileHeld) {
  VirtualNodes nodes;
  const VirtualNode node{Kind::kGrave, 9};
  const std::uint64_t ino = nodes.Hold(node);
  nodes.Hold(node);
  nodes.Drop(ino, 1);
  ASSERT_NE(nodes.Find(ino), nullptr);
  EXPECT_EQ(*nodes.Find(ino), node);
  nodes.Drop(ino, 1);
  EXPECT_EQ(nodes.Find(ino), nullptr);
}

}  // namespace
}  // namespace stepfs::fs
