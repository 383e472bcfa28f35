// SPDX-License-Identifier: Apache-2.0
#include "store/store_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

using testing::Take;

TEST(StoreDirectoryTest, OneOwnerAtATime) {
  const testing::TempDirectory top;
  const auto first = Take(StoreDirectory::Open(top / "s", "", true));
  const auto second = StoreDirectory::Open(top / "s", "", true);
  EXPECT_EQ(second.status().kind(), StatusKind::kBusy);
  EXPECT_NE(second.status().message().find("pid "), std::string::npos);
}

TEST(StoreDirectoryTest, OnlyStoresAndEmptyDirectoriesAreOpened) {
  const testing::TempDirectory top;
  EXPECT_EQ(StoreDirectory::Open(top / "absent", "", false).status().kind(), StatusKind::kNotFound);
  ASSERT_EQ(mkdir((top / "full").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((top / "full/of").c_str(), 0700), 0);
  EXPECT_EQ(StoreDirectory::Open(top / "full", "", true).status().kind(), StatusKind::kUnsupported);
  EXPECT_FALSE(std::filesystem::exists(top / "full/format.json"));
  ASSERT_EQ(mkdir((top / "open").c_str(), 0700), 0);
  ASSERT_EQ(chmod((top / "open").c_str(), 0777), 0);
  EXPECT_EQ(StoreDirectory::Open(top / "open", "", true).status().kind(), StatusKind::kUnsupported);
}

TEST(StoreDirectoryTest, TheUuidStays) {
  const testing::TempDirectory top;
  const std::string uuid = Take(StoreDirectory::Open(top / "s", "", true)).uuid();
  EXPECT_EQ(uuid.size(), 36u);
  EXPECT_EQ(Take(StoreDirectory::Open(top / "s", "", false)).uuid(), uuid);
}

TEST(StoreDirectoryTest, AnIndexElsewhereIsRememberedAndNotMistaken) {
  const testing::TempDirectory top;
  const std::string index = top / "local";
  EXPECT_EQ(Take(StoreDirectory::Open(top / "s", index, true)).index_directory(), index);
  EXPECT_EQ(Take(StoreDirectory::Open(top / "s", "", false)).index_directory(), index);
  EXPECT_EQ(Take(StoreDirectory::Open(top / "s", index, false)).index_directory(), index);
  const auto other = StoreDirectory::Open(top / "s", top / "other", false);
  EXPECT_EQ(other.status().kind(), StatusKind::kUnsupported);
  EXPECT_NE(other.status().message().find(index), std::string::npos);
}

TEST(StoreDirectoryTest, AnIndexInTheStoreIsNotLeftBehind) {
  const testing::TempDirectory top;
  EXPECT_EQ(Take(StoreDirectory::Open(top / "s", "", true)).index_directory(), top / "s/index");
  ASSERT_EQ(mkdir((top / "s/index").c_str(), 0700), 0);
  EXPECT_EQ(StoreDirectory::Open(top / "s", top / "other", false).status().kind(), StatusKind::kUnsupported);
}

TEST(StoreDirectoryTest, FilesOfAStoreWithAnotherIndexDirectoryAreFoundWithoutNamingIt) {
  const testing::TempDirectory top;
  StoreOptions options;
  options.root = top / "s";
  options.index_directory = top / "local";
  options.start_threads = false;
  {
    const auto store = Take(Store::Open(options));
    testing::StoreDriver(*store).Write("a", "bytes");
  }
  options.index_directory.clear();
  const auto store = Take(Store::Open(options));
  EXPECT_EQ(testing::StoreDriver(*store).Read("a"), "bytes");
}

}  // namespace
}  // namespace stepfs::store
