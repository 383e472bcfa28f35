// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/layout/pickle.h"
#include "codec/layout/torch_tree.h"
#include "layout_test_util.h"

namespace stepfs::codec {
namespace {

using namespace std::string_literals;

std::optional<PickleTree> Read(std::string_view bytes) {
  const MemorySource source(AsBytes(bytes));
  SourceWindow window(source);
  return ReadPickle(window);
}

// The names under which objects and persistent ids are met.
std::vector<std::string> Walk(const PickleTree& tree) {
  struct Names final : PickleVisitor {
    bool Visit(PickleId, const std::string& name) override {
      names.push_back(name);
      return true;
    }
    std::vector<std::string> names;
  } visitor;
  WalkPickle(tree, visitor);
  return visitor.names;
}

std::string Repeat(std::string_view piece, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += piece;
  return bytes;
}

TEST(PickleTest, IntegersOfEveryOpcode) {
  const auto integer = [](const std::string& bytes) {
    const auto tree = Read(bytes + ".");
    return tree ? tree->Int(tree->root()) : std::nullopt;
  };
  EXPECT_EQ(integer("K\xff"), 255);
  EXPECT_EQ(integer("M\xff\xff"), 65'535);
  EXPECT_EQ(integer("J\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(integer("\x8a\x00"s), 0);
  EXPECT_EQ(integer("\x8a\x01\xff"), -1);
  EXPECT_EQ(integer("\x8a\x05\x00\x00\x00\x00\x01"s), std::int64_t{1} << 32);
  EXPECT_EQ(integer("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(integer("I-12\n"), -12);
  EXPECT_EQ(integer("L34L\n"), 34);
  EXPECT_EQ(integer("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01"s), std::nullopt);  // Beyond 64 bits.
}

TEST(PickleTest, LaterKeysWinAndStepHasItsOrder) {
  const auto tree = Read(
      "}(X\x05\x00\x00\x00"
      "epochK\x07X\x04\x00\x00\x00stepK\x01X\x04\x00\x00\x00stepK\x02u."s);
  ASSERT_TRUE(tree);
  EXPECT_EQ(PickledStep(*tree), 2);
  EXPECT_EQ(PickledStep(*Read("}X\x05\x00\x00\x00"
                              "epochK\x07s."s)),
            7);
  EXPECT_EQ(PickledStep(*Read("}X\x04\x00\x00\x00stepNs."s)), std::nullopt);
  EXPECT_EQ(PickledStep(*Read("]."s)), std::nullopt);
}

TEST(PickleTest, NamesFollowDictsListsArgumentsAndState) {
  // {"a": [obj, obj], 3: F(obj2) with state {"s": obj3}}, each obj a persistent id.
  const auto tree = Read(
      "}(X\x01\x00\x00\x00"
      "a](NQNQeK\x03"
      "cmod\nF\nNQ\x85R}X\x01\x00\x00\x00sNQsbu."s);
  ASSERT_TRUE(tree);
  EXPECT_THAT(Walk(*tree), testing::ElementsAre("a.0", "a.1", "3", "3", "3.s"));
}

TEST(PickleTest, MalformedProgramsAreRefused) {
  for (const std::string& bytes : {""s,
                                   "."s,
                                   "N"s,
                                   "0."s,
                                   "t."s,
                                   "(K\x01s."s,
                                   "}K\x01s."s,
                                   "K\x01K\x02s."s,
                                   "}(K\x01u."s,
                                   "h\x00."s,
                                   "R."s,
                                   "NR."s,
                                   "a."s,
                                   "Na."s,
                                   "b."s,
                                   "Nb."s,
                                   "\x93."s,
                                   "q\x00."s,
                                   "\x82\x01."s,
                                   "\x97."s,
                                   "\xff."s,
                                   "o."s,
                                   "(o."s,
                                   "Q."s,
                                   "e."s,
                                   "(K\x01"
                                   "d."s,
                                   "X\xff\xff\xff\xff."s,
                                   "B\xff\xff\xff\x7f."s,
                                   "Ixx"s,
                                   "c\n"s,
                                   "(0N1."s}) {
    EXPECT_FALSE(Read(bytes)) << testing::PrintToString(bytes);
  }
}

TEST(PickleTest, PopStopsAtTheMark) {
  EXPECT_FALSE(Read("N(a."));
  EXPECT_FALSE(Read("](\x85."));
  EXPECT_TRUE(Read("N(0."));  // POP takes a mark that is on top.
  EXPECT_TRUE(Read("N(NN1."));
}

TEST(PickleTest, DepthAndSharingAreBounded) {
  // 100,000 nested lists, and the same as tuples.
  const auto lists = Read(Repeat("]", 100'000) + "NQ" + Repeat("a", 100'000) + ".");
  ASSERT_TRUE(lists);
  EXPECT_TRUE(Walk(*lists).empty());
  const auto tuples = Read("NQ" + Repeat("\x85", 100'000) + ".");
  ASSERT_TRUE(tuples);
  EXPECT_TRUE(Walk(*tuples).empty());
  // Each list holds the one before it twice: 2^60 paths, 60 containers.
  std::string laughs = "]NQaq\x00"s;
  for (char i = 0; i < 60; ++i) laughs += "]h"s + i + "ah" + i + "aq" + static_cast<char>(i + 1);
  const auto shared = Read(laughs + ".");
  ASSERT_TRUE(shared);
  EXPECT_EQ(Walk(*shared).size(), 1u);
  // A list in itself.
  const auto cycle = Read(
      "]q\x00h\x00"
      "aNQa."s);
  ASSERT_TRUE(cycle);
  EXPECT_THAT(Walk(*cycle), testing::ElementsAre("1"));
}

TEST(PickleTest, HugeClaimsAllocateNothing) {
  EXPECT_FALSE(Read("Nr\xff\xff\xff\xff."s));  // Memo index 2^32 - 1.
  EXPECT_FALSE(Read("p999999999999\n."s));
  EXPECT_FALSE(Read("\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s));  // Bytes of 2^64 - 1.
  EXPECT_FALSE(Read("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f."s));
  EXPECT_FALSE(Read(Repeat("N", (4 << 20) + 1) + "."));  // Too many values.
  // Names doubled from the memo: 5 bytes of pickle for 8 KiB of text each, above what a tree may hold.
  const std::string name = "X\x00\x10\x00\x00"s + std::string(4096, 'n') + "q\x00"s;
  EXPECT_FALSE(Read(name + Repeat("h\x00h\x00\x93"s, 20'000) + "."));
}

TEST(TorchTreeTest, HostileStorageIdsAreLeftOut) {
  const auto storage = [](const std::string& key, const std::string& count) {
    return "(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"s + key +
           "X\x03\x00\x00\x00"
           "cpu"s +
           count + "tQ";
  };
  const std::string key =
      "X\x01\x00\x00\x00"
      "0"s;
  const auto collect = [](const std::string& body) { return CollectTorchStorages(*Read("](" + body + "e.")); };
  ASSERT_EQ(collect(storage(key, "K\x05")).size(), 1u);
  EXPECT_EQ(collect(storage(key, "K\x05"))[0].nbytes, 20u);
  EXPECT_EQ(collect(storage(key, "K\x05") + storage(key, "K\x05")).size(), 1u);
  EXPECT_TRUE(collect(storage(key, "J\xff\xff\xff\xff")).empty());                          // Negative.
  EXPECT_TRUE(collect(storage(key, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s)).empty());  // Overflows.
  EXPECT_TRUE(collect(storage("K\x00"s, "K\x05")).empty());                                 // Key is no text.
  EXPECT_TRUE(collect(storage(key, "N")).empty());
}

}  // namespace
}  // namespace stepfs::codec
