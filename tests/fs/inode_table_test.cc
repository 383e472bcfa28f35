// SPDX-License-Identifier: Apache-2.0
#include "fs/inode_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfs::fs {
namespace {

TEST(InodeTableTest, IsHeldUntilEveryMentionIsGivenBack) {
  InodeTable table;
  table.Hold(7);
  table.Hold(7);
  table.Hold(7);
  EXPECT_FALSE(table.Drop(7, 2));
  EXPECT_TRUE(table.IsHeld(7));
  EXPECT_TRUE(table.Drop(7, 1));
  EXPECT_FALSE(table.IsHeld(7));
}

TEST(InodeTableTest, DroppingWhatIsNotHeldIsNothing) {
  InodeTable table;
  EXPECT_FALSE(table.Drop(7, 1));
  table.Hold(7);
  EXPECT_TRUE(table.Drop(7, 100));
  EXPECT_FALSE(table.Drop(7, 1));
}

TEST(InodeTableTest, TakeAllEmptiesIt) {
  InodeTable table;
  for (const index::InodeNumber ino : {1, 2, 17, 1000}) table.Hold(ino);
  EXPECT_THAT(table.TakeAll(), testing::UnorderedElementsAre(1, 2, 17, 1000));
  EXPECT_FALSE(table.IsHeld(17));
  EXPECT_TRUE(table.TakeAll().empty());
}

}  // namespace
}  // namespace stepfs::fs
