// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "index/index.h"
#include "support/memory_file_ops.h"
#include "support/temp_directory.h"

namespace stepfs::index {
namespace {

class IndexThreadsTest : public ::testing::Test {
 protected:
  IndexThreadsTest() {
    auto opened = Index::Open({directory_.path() + "/lmdb", "/journal", &files_, std::uint64_t{1} << 20});
    if (opened.ok()) index_ = std::move(opened).value();
  }
  void SetUp() override { ASSERT_NE(index_, nullptr); }

  testing::TempDirectory directory_;
  testing::MemoryFileOps files_;
  std::unique_ptr<Index> index_;
};

// Every commit writes its number under all keys. A reader must always see one number under all of them, and never an
// older one than it, or the committer, has seen before it asked.
TEST_F(IndexThreadsTest, ReadersSeeWholeCommitsOfOneMoment) {
  constexpr int kCommits = 1500;
  constexpr int kKeys = 5;
  std::atomic<int> committed{0};
  std::atomic<bool> done{false};
  const auto commit = [&](int number) {
    WriteBatch batch;
    for (int key = 0; key < kKeys; ++key) batch.Put(Table::kState, "key" + std::to_string(key), std::to_string(number));
    // Grows LMDB's map under the readers.
    batch.Put(Table::kContents, std::to_string(number), std::string(2000, 'x'));
    EXPECT_TRUE(index_->Commit(batch).ok());
    committed.store(number);
  };
  commit(1);

  const auto read = [&](bool backward) {
    int last = 0;
    while (!done.load()) {
      const int floor = std::max(last, committed.load());
      std::vector<int> numbers;
      const Index::Visitor visit = [&](std::string_view, std::string_view value) {
        numbers.push_back(std::stoi(std::string(value)));
        return true;
      };
      const Status status = backward ? index_->ScanBackward(Table::kState, "key", "", visit)
                                     : index_->Scan(Table::kState, "key", "", visit);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(numbers.size(), static_cast<std::size_t>(kKeys));
      ASSERT_EQ(numbers, std::vector<int>(kKeys, numbers[0])) << (backward ? "descending" : "ascending");
      ASSERT_GE(numbers[0], floor);
      last = numbers[0];
      const auto value = index_->Get(Table::kState, "key3");
      ASSERT_TRUE(value.ok() && value->has_value());
      ASSERT_GE(std::stoi(**value), last);
      last = std::stoi(**value);
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(read, false);
  threads.emplace_back(read, true);
  threads.emplace_back([&] {
    while (!done.load()) ASSERT_TRUE(index_->Checkpoint().ok());
  });
  threads.emplace_back([&] {
    while (!done.load()) {
      ASSERT_TRUE(index_->SyncJournal().ok());
      ASSERT_EQ(index_->Verify([](Table, std::string_view) {}).value_or(1), 0u);
    }
  });
  for (int number = 2; number <= kCommits; ++number) commit(number);
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(index_->lmdb_bytes(), std::uint64_t{1} << 20);
}

TEST_F(IndexThreadsTest, CommittersAndSyncersShareTheJournal) {
  constexpr int kThreads = 4;
  constexpr int kCommits = 200;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCommits; ++i) {
        WriteBatch batch;
        batch.Put(Table::kInodes, std::to_string(thread) + "/" + std::to_string(i), "v");
        ASSERT_TRUE(index_->Commit(batch).ok());
        ASSERT_TRUE(index_->SyncJournal().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  index_.reset();
  files_.CutPower();
  const auto reopened = Index::Open({directory_.path() + "/lmdb", "/journal", &files_, std::uint64_t{1} << 24});
  ASSERT_TRUE(reopened.ok());
  EXPECT_EQ((*reopened)->recovery().replayed_batches, static_cast<std::uint64_t>(kThreads * kCommits));
}

// More readers at once than LMDB has slots for.
TEST_F(IndexThreadsTest, ManyReadersWaitForEachOther) {
  WriteBatch batch;
  batch.Put(Table::kState, "a", "1");
  ASSERT_TRUE(index_->Commit(batch).ok());
  ASSERT_TRUE(index_->Checkpoint().ok());
  std::vector<std::thread> threads;
  std::atomic<int> answers{0};
  for (int thread = 0; thread < 200; ++thread) {
    threads.emplace_back([&] {
      const Status status = index_->Scan(Table::kState, "", "", [](std::string_view, std::string_view) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return true;
      });
      if (status.ok()) ++answers;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers.load(), 200);
}

}  // namespace
}  // namespace stepfs::index
