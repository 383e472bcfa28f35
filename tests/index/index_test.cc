// SPDX-License-Identifier: Apache-2.0
#include "index/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <random>
#include <utility>

#include "index/lmdb.h"
#include "index/row.h"
#include "store/file_ops_posix.h"
#include "support/memory_file_ops.h"
#include "support/temp_directory.h"

namespace stepfs::index {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Rows = std::vector<std::pair<std::string, std::string>>;
using Model = std::map<std::string, std::string>;

class IndexTest : public ::testing::Test {
 protected:
  IndexTest() { Open(); }

  IndexOptions Options() {
    IndexOptions options;
    options.lmdb_directory = directory_.path() + "/lmdb";
    options.journal_directory = "/journal";
    options.files = &files_;
    options.map_bytes = std::uint64_t{1} << 20;  // Small, so that it has to grow.
    return options;
  }
  void Open() {
    index_.reset();
    files_.KillProcess();
    auto opened = Index::Open(Options());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    index_ = std::move(opened).value();
  }
  void Put(Table table, std::string_view key, std::string_view value) {
    WriteBatch batch;
    batch.Put(table, key, value);
    ASSERT_TRUE(index_->Commit(batch).ok());
  }
  void Delete(Table table, std::string_view key) {
    WriteBatch batch;
    batch.Delete(table, key);
    ASSERT_TRUE(index_->Commit(batch).ok());
  }
  std::optional<std::string> Get(Table table, std::string_view key) {
    auto value = index_->Get(table, key);
    EXPECT_TRUE(value.ok()) << value.status().ToString();
    return value.value_or({});
  }
  Rows Scan(Table table, std::string_view prefix = {}, std::string_view from = {}, std::size_t limit = SIZE_MAX) {
    Rows rows;
    EXPECT_TRUE(index_->Scan(table, prefix, from, Collect(rows, limit)).ok());
    return rows;
  }
  Rows ScanBackward(Table table, std::string_view prefix = {}, std::string_view from = {},
                    std::size_t limit = SIZE_MAX) {
    Rows rows;
    EXPECT_TRUE(index_->ScanBackward(table, prefix, from, Collect(rows, limit)).ok());
    return rows;
  }
  static Index::Visitor Collect(Rows& rows, std::size_t limit) {
    return [&rows, limit](std::string_view key, std::string_view value) {
      rows.emplace_back(key, value);
      return rows.size() < limit;
    };
  }

  testing::TempDirectory directory_;
  testing::MemoryFileOps files_;
  std::unique_ptr<Index> index_;
};

TEST_F(IndexTest, EmptyIndexHasNoRows) {
  EXPECT_EQ(Get(Table::kState, "a"), std::nullopt);
  EXPECT_THAT(Scan(Table::kState), IsEmpty());
  EXPECT_THAT(ScanBackward(Table::kState), IsEmpty());
  EXPECT_TRUE(index_->SyncJournal().ok());
  EXPECT_TRUE(index_->Checkpoint().ok());
  EXPECT_EQ(index_->journal_bytes(), 0u);
  EXPECT_EQ(index_->Commit(WriteBatch()).value(), 0u);
}

TEST_F(IndexTest, TablesAreApartAndEmptyValuesAreValues) {
  Put(Table::kInodes, "k", "1");
  Put(Table::kExtra, "k", "");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get(Table::kInodes, "k"), "1");
    EXPECT_EQ(Get(Table::kExtra, "k"), "");
    EXPECT_EQ(Get(Table::kDentries, "k"), std::nullopt);
    EXPECT_THAT(Scan(Table::kExtra), ElementsAre(std::pair("k", "")));
    EXPECT_THAT(ScanBackward(Table::kDentries), IsEmpty());
    ASSERT_TRUE(index_->Checkpoint().ok());
  }
}

TEST_F(IndexTest, LaterChangesInABatchWin) {
  WriteBatch batch;
  batch.Put(Table::kState, "a", "1");
  batch.Put(Table::kState, "a", "2");
  batch.Put(Table::kState, "b", "1");
  batch.Delete(Table::kState, "b");
  batch.Delete(Table::kState, "c");
  batch.Put(Table::kState, "c", "3");
  EXPECT_EQ(index_->Commit(batch).value(), 1u);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(Scan(Table::kState), ElementsAre(std::pair("a", "2"), std::pair("c", "3")));
    EXPECT_THAT(ScanBackward(Table::kState), ElementsAre(std::pair("c", "3"), std::pair("a", "2")));
    if (round == 0) Open();
    if (round == 1) {
      ASSERT_TRUE(index_->Checkpoint().ok());
    }
  }
}

TEST_F(IndexTest, PrefixesEndWhereTheyShould) {
  const std::string high("\xff\xff", 2);
  for (const std::string& key : {std::string("a"), std::string("ab"), std::string("ab\0", 3), std::string("ab\xff"),
                                 std::string("ac"), high, high + "x", std::string("\xff")}) {
    Put(Table::kState, key, "v");
  }
  const auto keys = [](const Rows& rows) {
    std::vector<std::string> names;
    for (const auto& row : rows) names.push_back(row.first);
    return names;
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(keys(Scan(Table::kState, "ab")), ElementsAre("ab", std::string("ab\0", 3), "ab\xff"));
    EXPECT_THAT(keys(ScanBackward(Table::kState, "ab")), ElementsAre("ab\xff", std::string("ab\0", 3), "ab"));
    EXPECT_THAT(keys(Scan(Table::kState, "ab", "ab\x01")), ElementsAre("ab\xff"));
    EXPECT_THAT(keys(Scan(Table::kState, "ab", "ac")), IsEmpty());
    EXPECT_THAT(keys(Scan(Table::kState, "ab", "a")), ElementsAre("ab", std::string("ab\0", 3), "ab\xff"));
    EXPECT_THAT(keys(ScanBackward(Table::kState, "ab", "ab")), ElementsAre("ab"));
    EXPECT_THAT(keys(ScanBackward(Table::kState, "ab", "zz", 1)), ElementsAre("ab\xff"));
    EXPECT_THAT(keys(ScanBackward(Table::kState, "ab", "aa")), IsEmpty());
    EXPECT_THAT(keys(ScanBackward(Table::kState, "\xff")), ElementsAre(high + "x", high, "\xff"));
    EXPECT_THAT(keys(ScanBackward(Table::kState, "", "ab")), ElementsAre("ab", "a"));
    EXPECT_THAT(keys(Scan(Table::kState, "nothing")), IsEmpty());
    ASSERT_TRUE(index_->Checkpoint().ok());
  }
}

TEST_F(IndexTest, RefusesImpossibleKeys) {
  for (const std::string& key : {std::string(), std::string(kMaxKeyBytes + 1, 'k')}) {
    WriteBatch batch;
    batch.Put(Table::kState, "fine", "v");
    batch.Put(Table::kState, key, "v");
    EXPECT_EQ(index_->Commit(batch).status().kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(Get(Table::kState, key), std::nullopt);
  }
  EXPECT_EQ(Get(Table::kState, "fine"), std::nullopt);
  Put(Table::kState, std::string(kMaxKeyBytes, 'k'), "v");
  ASSERT_TRUE(index_->Checkpoint().ok());
  EXPECT_EQ(Get(Table::kState, std::string(kMaxKeyBytes, 'k')), "v");
}

TEST_F(IndexTest, LargeValuesAndMoreOfThemThanTheMapHolds) {
  const auto value = [](int i) {
    return std::string(300'000 + static_cast<std::size_t>(i), static_cast<char>('a' + i));
  };
  for (int i = 0; i < 20; ++i) {
    Put(Table::kContents, "key" + std::to_string(i), value(i));
    if (i % 7 == 6) {
      ASSERT_TRUE(index_->Checkpoint().ok());
    }
  }
  ASSERT_TRUE(index_->Checkpoint().ok());
  EXPECT_GT(index_->lmdb_bytes(), 6'000'000u);
  EXPECT_EQ(index_->journal_bytes(), 0u);
  Open();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Get(Table::kContents, "key" + std::to_string(i)), value(i));
  EXPECT_EQ(index_->Verify([](Table, std::string_view) { FAIL(); }).value(), 0u);
}

// Random batches, checkpoints, failures and restarts against a std::map.
TEST_F(IndexTest, AgreesWithAMapOverThousandsOfRandomSteps) {
  std::mt19937_64 random(7);
  std::map<Table, Model> model;
  const auto key = [&] {
    std::string text(1 + random() % 3, '\0');
    for (char& c : text) c = "ab\xff"[random() % 3];
    return text;
  };
  for (int step = 0; step < 6000; ++step) {
    const auto table = static_cast<Table>(random() % 2 * 14);
    const std::uint64_t choice = random() % 100;
    if (choice < 55) {
      WriteBatch batch;
      std::map<Table, Model> next = model;
      for (std::uint64_t changes = 1 + random() % 5; changes > 0; --changes) {
        const std::string name = key();
        if (random() % 3 == 0) {
          batch.Delete(table, name);
          next[table].erase(name);
        } else {
          const std::string value = std::to_string(step) + std::string(random() % 50 == 0 ? 5000 : 0, 'x');
          batch.Put(table, name, value);
          next[table][name] = value;
        }
      }
      const bool fails = random() % 10 == 0;
      if (fails) files_.FailCall(1, ENOSPC);
      ASSERT_EQ(index_->Commit(batch).ok(), !fails) << step;
      files_.ClearFailures();
      if (!fails) model = next;
    } else if (choice < 58) {
      ASSERT_TRUE(index_->Checkpoint().ok());
    } else if (choice < 61) {
      ASSERT_TRUE(index_->SyncJournal().ok());
    } else if (choice < 64) {
      Open();
    }
    const Model& rows = model[table];
    const std::string name = key();
    const auto found = rows.find(name);
    ASSERT_EQ(Get(table, name), found == rows.end() ? std::nullopt : std::optional(found->second)) << step;
    const std::string prefix = random() % 2 ? key() : "";
    const std::string from = random() % 2 ? prefix + (random() % 2 ? key() : "") : "";
    const std::size_t limit = random() % 3 ? SIZE_MAX : 1 + random() % 3;
    Rows ascending, descending;
    for (const auto& row : rows) {
      if (!row.first.starts_with(prefix)) continue;
      if (row.first >= from && ascending.size() < limit) ascending.push_back(row);
    }
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      if (!row->first.starts_with(prefix) || (!from.empty() && row->first > from)) continue;
      if (descending.size() < limit) descending.push_back(*row);
    }
    ASSERT_EQ(Scan(table, prefix, from, limit), ascending) << step;
    ASSERT_EQ(ScanBackward(table, prefix, from, limit), descending) << step;
  }
  ASSERT_TRUE(index_->Checkpoint().ok());
  EXPECT_EQ(index_->Verify([](Table, std::string_view) { FAIL(); }).value(), 0u);
}

TEST_F(IndexTest, JournalShrinksAtCheckpointsAndGrowsOtherwise) {
  Put(Table::kState, "a", "1");
  const std::uint64_t once = index_->journal_bytes();
  Put(Table::kState, "a", "2");
  EXPECT_GT(index_->journal_bytes(), once);
  ASSERT_TRUE(index_->Checkpoint().ok());
  EXPECT_EQ(index_->journal_bytes(), 0u);
  EXPECT_EQ(Get(Table::kState, "a"), "2");
  Put(Table::kState, "a", "3");
  Open();
  EXPECT_EQ(index_->recovery().replayed_batches, 1u);
  EXPECT_EQ(Get(Table::kState, "a"), "3");
  WriteBatch batch;
  batch.Put(Table::kState, "b", "1");
  EXPECT_EQ(index_->Commit(batch).value(), 4u);
}

TEST_F(IndexTest, CheckpointWorksWithoutANewSegmentOnAFullDisk) {
  Put(Table::kState, "a", "1");
  files_.FailCall(1, ENOSPC);
  EXPECT_TRUE(index_->Checkpoint().ok());
  EXPECT_EQ(Get(Table::kState, "a"), "1");
  Put(Table::kState, "a", "2");
  Open();
  EXPECT_EQ(Get(Table::kState, "a"), "2");
}

TEST_F(IndexTest, SyncGoesThroughLmdbWhenTheJournalCannot) {
  Put(Table::kState, "a", "1");
  files_.FailCall(1, EIO);
  EXPECT_TRUE(index_->SyncJournal().ok());
  files_.CutPower();
  index_.reset();
  Open();
  EXPECT_EQ(Get(Table::kState, "a"), "1");
}

TEST_F(IndexTest, DamagedRowIsReportedAndOthersAreRead) {
  Put(Table::kState, "a", "first");
  Put(Table::kState, "b", "needle-in-the-page");
  Put(Table::kState, "c", "third");
  ASSERT_TRUE(index_->Checkpoint().ok());
  index_.reset();
  const std::string path = directory_.path() + "/lmdb/data.mdb";
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const std::size_t at = whole.find("needle-in-the-page");
  ASSERT_NE(at, std::string::npos);
  // The value and the checksum behind it.
  for (std::size_t bit = 0; bit < (18 + kRowChecksumBytes) * 8; bit += 5) {
    std::string damaged = whole;
    for (std::size_t copy = at; copy != std::string::npos; copy = whole.find("needle-in-the-page", copy + 1)) {
      damaged[copy + bit / 8] = static_cast<char>(damaged[copy + bit / 8] ^ 1 << bit % 8);
    }
    std::ofstream(path, std::ios::binary) << damaged;
    Open();
    EXPECT_EQ(index_->Get(Table::kState, "b").status().kind(), StatusKind::kCorruption);
    EXPECT_EQ(Get(Table::kState, "a"), "first");
    EXPECT_EQ(Get(Table::kState, "c"), "third");
    EXPECT_EQ(index_->Scan(Table::kState, "", "", [](auto, auto) { return true; }).kind(), StatusKind::kCorruption);
    std::vector<std::string> reported;
    EXPECT_EQ(index_->Verify([&](Table, std::string_view key) { reported.emplace_back(key); }).value(), 1u);
    EXPECT_THAT(reported, ElementsAre("b"));
    index_.reset();
  }
}

TEST_F(IndexTest, TruncatedLmdbFileIsCorruptionNotASignal) {
  for (int i = 0; i < 500; ++i) Put(Table::kState, "key" + std::to_string(i), std::string(100, 'x'));
  ASSERT_TRUE(index_->Checkpoint().ok());
  index_.reset();
  const std::string path = directory_.path() + "/lmdb/data.mdb";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_EQ(Index::Open(Options()).status().kind(), StatusKind::kCorruption);
}

TEST(IndexOnDiskTest, WorksOnRealFiles) {
  const testing::TempDirectory directory;
  IndexOptions options;
  options.lmdb_directory = directory.path() + "/index";
  options.journal_directory = directory.path() + "/journal";
  options.files = &store::PosixFileOps();
  for (int round = 0; round < 5; ++round) {
    auto opened = Index::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const std::unique_ptr<Index> index = std::move(opened).value();
    for (int i = 0; i < round; ++i) EXPECT_EQ(index->Get(Table::kState, std::to_string(i)).value(), "v");
    WriteBatch batch;
    batch.Put(Table::kState, std::to_string(round), "v");
    ASSERT_TRUE(index->Commit(batch).ok());
    if (round % 2) {
      ASSERT_TRUE(index->SyncJournal().ok());
    }
    if (round == 3) {
      ASSERT_TRUE(index->Checkpoint().ok());
    }
  }
}

}  // namespace
}  // namespace stepfs::index
