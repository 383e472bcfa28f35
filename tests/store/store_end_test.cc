// SPDX-License-Identifier: Apache-2.0
//
// How a store ends while files are open: a mount that goes away gives no RELEASE for them.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "store/store.h"
#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

using testing::Check;
using testing::StoreDriver;
using testing::Take;

class StoreEndTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> OpenStore() {
    StoreOptions options;
    options.root = directory_ / "store";
    options.start_threads = false;
    return Take(Store::Open(options));
  }
  testing::TempDirectory directory_;
};

TEST_F(StoreEndTest, WhatWasClosedButNotReleasedIsAVersion) {
  {
    const auto store = OpenStore();
    StoreDriver driver(*store);
    driver.Write("a", "first");
    const auto file = driver.Open("a", O_WRONLY | O_TRUNC);
    driver.WriteAt(*file, 0, "second");
    Check(store->tree().Flush(*file));
    Check(store->Close());
  }
  const auto store = OpenStore();
  EXPECT_TRUE(store->recovery().was_clean);
  StoreDriver driver(*store);
  EXPECT_EQ(driver.Story("a"), "1:first 2:second");
  EXPECT_EQ(driver.Versions("a")[1].record.flags & VersionRecord::kUnclosed, 0u);
}

TEST_F(StoreEndTest, WhatWasNotClosedIsAVersionThatSaysSo) {
  {
    const auto store = OpenStore();
    StoreDriver driver(*store);
    const auto file = driver.Open("a", O_WRONLY | O_CREAT);
    driver.WriteAt(*file, 0, "half");
    Check(store->Close());
  }
  const auto store = OpenStore();
  StoreDriver driver(*store);
  EXPECT_EQ(driver.Story("a"), "1:half");
  EXPECT_NE(driver.Versions("a")[0].record.flags & VersionRecord::kUnclosed, 0u);
}

TEST_F(StoreEndTest, SyncLeavesFilesThatAreBeingWrittenAlone) {
  const auto store = OpenStore();
  StoreDriver driver(*store);
  auto file = driver.Open("a", O_WRONLY | O_CREAT);
  driver.WriteAt(*file, 0, "half");
  Check(store->tree().CommitAll());
  EXPECT_EQ(driver.Story("a"), "");
  driver.WriteAt(*file, 4, " and all");
  driver.Close(std::move(file));
  EXPECT_EQ(driver.Story("a"), "1:half and all");
}

}  // namespace
}  // namespace stepfs::store
