// SPDX-License-Identifier: Apache-2.0
//
// Damages LMDB's file in every way a bit or a cut can, and asks that nothing but a Status comes out of opening and
// reading it whole. A signal would end this program.
#include "index/lmdb_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "index/index.h"
#include "support/memory_file_ops.h"
#include "support/temp_directory.h"

namespace stepfs::index {
namespace {

std::string Name(const char* stem, std::uint64_t number) { return std::string(stem).append(std::to_string(number)); }

class LmdbCheckTest : public ::testing::Test {
 protected:
  LmdbCheckTest() : path_(directory_.path() + "/lmdb/data.mdb") {
    // Two levels, overflow pages and free pages.
    const auto index = Open();
    std::mt19937_64 random(3);
    for (int round = 0; round < 4; ++round) {
      WriteBatch batch;
      for (int i = 0; i < 150; ++i) {
        const std::string key = Name("key", random() % 400);
        const std::string value(i % 60 == 0 ? 9000 : random() % 200, 'v');
        if (i % 5 == 4) {
          batch.Delete(Table::kInodes, key);
        } else {
          batch.Put(Table::kInodes, key, value);
        }
      }
      EXPECT_TRUE(index->Commit(batch).ok());
      EXPECT_TRUE(index->Checkpoint().ok());
    }
    rows_ = ReadAll(*index).value();
    std::ifstream in(path_, std::ios::binary);
    whole_.assign((std::istreambuf_iterator<char>(in)), {});
  }

  std::unique_ptr<Index> Open() {
    auto opened = Index::Open({directory_.path() + "/lmdb", "/journal", &files_, std::uint64_t{1} << 26});
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return std::move(opened).value();
  }
  static Result<std::map<std::string, std::string>> ReadAll(const Index& index) {
    std::map<std::string, std::string> rows;
    STEPFS_RETURN_IF_ERROR(index.Scan(Table::kInodes, "", "", [&](std::string_view key, std::string_view value) {
      rows.emplace(key, value);
      return true;
    }));
    return rows;
  }
  void Write(const std::string& content) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << content; }

  testing::TempDirectory directory_;
  testing::MemoryFileOps files_;
  const std::string path_;
  std::string whole_;
  std::map<std::string, std::string> rows_;
};

TEST_F(LmdbCheckTest, AcceptsWhatLmdbWrites) {
  EXPECT_TRUE(CheckLmdbFile(path_).ok()) << CheckLmdbFile(path_).ToString();
  EXPECT_TRUE(CheckLmdbFile(path_ + "-none").ok());
  Write("");
  EXPECT_TRUE(CheckLmdbFile(path_).ok());
}

TEST_F(LmdbCheckTest, AcceptsEveryStateOfALongRandomLife) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    const auto index = Open();
    for (int part = 0; part < 2; ++part) {
      WriteBatch batch;
      for (std::uint64_t i = 1 + random() % 300; i > 0; --i) {
        const std::string key = Name("k", random() % 3000);
        const auto table = static_cast<Table>(random() % kTableCount);
        const std::string value(random() % 40 == 0 ? random() % 40'000 : random() % 300, 'v');
        if (random() % (round % 10 < 5 ? 4 : 2) == 0) {
          batch.Delete(table, key);
        } else {
          batch.Put(table, key, value);
        }
      }
      if (round % 20 == 19) {  // Empty a table: trees shrink, pages come free.
        ASSERT_TRUE(index
                        ->Scan(Table::kInodes, "", "",
                               [&](std::string_view key, std::string_view) {
                                 batch.Delete(Table::kInodes, key);
                                 return true;
                               })
                        .ok());
      }
      ASSERT_TRUE(index->Commit(batch).ok());
      ASSERT_TRUE(index->Checkpoint().ok());
      const Status status = CheckLmdbFile(path_);
      ASSERT_TRUE(status.ok()) << round << status.ToString();
    }
  }
}

TEST_F(LmdbCheckTest, TruncationAtAnyPageIsCorruptionOrHarmless) {
  for (std::size_t size = 1; size < whole_.size(); size += size < 9000 ? 97 : 2048) {
    Write(whole_.substr(0, size));
    const Status status = CheckLmdbFile(path_);
    if (size < 8192) {
      ASSERT_EQ(status.kind(), StatusKind::kCorruption) << size;
    }
    if (!status.ok()) continue;
    const auto index = Open();  // Only free pages were lost.
    ASSERT_EQ(ReadAll(*index).value(), rows_) << size;
  }
}

TEST_F(LmdbCheckTest, BitFlipsNeverKillTheProcessNorChangeAValue) {
  std::mt19937_64 random(5);
  int refused = 0, reported = 0, harmless = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = whole_;
    // Half of the flips go where structure is: the first bytes of a page.
    std::size_t at = random() % damaged.size();
    if (round % 2) at = at / 4096 * 4096 + at % 64;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << random() % 8);
    Write(damaged);
    auto opened = Index::Open({directory_.path() + "/lmdb", "/journal", &files_, std::uint64_t{1} << 26});
    if (!opened.ok()) {
      ++refused;
      continue;
    }
    const auto rows = ReadAll(**opened);
    if (!rows.ok()) {
      ASSERT_EQ(rows.status().kind(), StatusKind::kCorruption);
      ++reported;
      continue;
    }
    ++harmless;
    ASSERT_EQ(*rows, rows_) << "byte " << at;
    // Writing must not trip over it either.
    WriteBatch batch;
    for (std::uint64_t i = 0; i < 50; ++i) batch.Put(Table::kInodes, Name("new", i), std::string(300, 'n'));
    ASSERT_TRUE((*opened)->Commit(batch).ok());
    const Status checkpoint = (*opened)->Checkpoint();
    files_.SetContents("/unused", "");
    for (const std::string& path : files_.Files()) ASSERT_TRUE(files_.Unlink(path).ok());
    if (!checkpoint.ok()) continue;
    ASSERT_EQ(ReadAll(**opened).value().size(), rows_.size() + 50) << "byte " << at;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(reported, 10);
  EXPECT_GT(harmless, 100);
}

}  // namespace
}  // namespace stepfs::index
