// SPDX-License-Identifier: Apache-2.0
#include "index/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/hash.h"
#include "base/serial.h"
#include "support/memory_file_ops.h"

namespace stepfs::index {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kDirectory = "/journal";

WriteBatch BatchOf(std::uint64_t sequence) {
  WriteBatch batch;
  batch.Put(Table::kInodes, "key" + std::to_string(sequence), std::string(sequence % 7 * 5, 'v'));
  if (sequence % 3 == 0) batch.Delete(Table::kDentries, "gone");
  return batch;
}

struct Opened {
  Status status;
  std::unique_ptr<Journal> journal;
  Recovery recovery;
  std::vector<std::uint64_t> sequences;  // What was replayed.
};

Opened OpenJournal(FileOps& files, std::uint64_t applied = 0) {
  Opened opened;
  auto journal = Journal::Open(
      files, kDirectory, applied,
      [&](std::uint64_t sequence, const WriteBatch& batch) -> Status {
        opened.sequences.push_back(sequence);
        const WriteBatch expected = BatchOf(sequence);
        EXPECT_EQ(batch.changes().size(), expected.changes().size());
        EXPECT_EQ(batch.changes()[0].key, expected.changes()[0].key);
        EXPECT_EQ(batch.changes()[0].value, expected.changes()[0].value);
        return {};
      },
      &opened.recovery);
  opened.status = journal.status();
  if (journal.ok()) opened.journal = std::move(journal).value();
  return opened;
}

void Append(Journal& journal, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t i = first; i <= last; ++i) ASSERT_TRUE(journal.Append(i, BatchOf(i)).ok());
}

std::vector<std::uint64_t> OneTo(std::uint64_t last) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 1; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

TEST(JournalTest, ReplaysInOrderWhatWasNotApplied) {
  testing::MemoryFileOps files;
  Append(*OpenJournal(files).journal, 1, 4);
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2, 3, 4));
  Append(*OpenJournal(files).journal, 5, 6);  // A new segment.
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(OpenJournal(files, 3).sequences, ElementsAre(4, 5, 6));
  EXPECT_EQ(files.Files().size(), 2u);
  EXPECT_THAT(OpenJournal(files, 4).sequences, ElementsAre(5, 6));
  EXPECT_EQ(files.Files().size(), 1u);
  EXPECT_THAT(OpenJournal(files, 6).sequences, IsEmpty());
  EXPECT_THAT(files.Files(), IsEmpty());
}

TEST(JournalTest, DropsATornTailWhereverItIsCut) {
  testing::MemoryFileOps files;
  std::vector<std::uint64_t> sizes;  // After each batch.
  {
    const auto journal = OpenJournal(files).journal;
    for (std::uint64_t i = 1; i <= 9; ++i) {
      Append(*journal, i, i);
      sizes.push_back(journal->bytes());
    }
  }
  const std::string path = files.Files().at(0);
  const std::string whole = files.Contents(path);
  ASSERT_EQ(whole.size(), sizes.back());
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    files.SetContents(path, whole.substr(0, cut));
    const Opened opened = OpenJournal(files);
    ASSERT_TRUE(opened.status.ok()) << cut;
    const auto complete = static_cast<std::uint64_t>(std::upper_bound(sizes.begin(), sizes.end(), cut) - sizes.begin());
    ASSERT_EQ(opened.sequences, OneTo(complete)) << cut;
    const std::uint64_t valid =
        complete == 0 ? (cut < kSegmentHeaderBytes ? 0 : kSegmentHeaderBytes) : sizes[complete - 1];
    ASSERT_EQ(opened.recovery.dropped_bytes, cut - valid) << cut;
    ASSERT_EQ(opened.recovery.dropped_batches, 0u);
    files.SetContents(path, whole);
  }
}

TEST(JournalTest, WritesOnAfterATornTail) {
  testing::MemoryFileOps files;
  Append(*OpenJournal(files).journal, 1, 3);
  const std::string path = files.Files().at(0);
  files.SetContents(path, files.Contents(path).substr(0, files.Contents(path).size() - 9));
  {
    const Opened opened = OpenJournal(files);
    ASSERT_EQ(opened.journal->last_sequence(), 2u);
    Append(*opened.journal, 3, 5);
    ASSERT_TRUE(opened.journal->Sync().ok());
  }
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2, 3, 4, 5));
}

TEST(JournalTest, BitFlipBehindASyncIsCorruption) {
  testing::MemoryFileOps files;
  {
    const auto journal = OpenJournal(files).journal;
    Append(*journal, 1, 6);
    ASSERT_TRUE(journal->Sync().ok());
  }
  const std::string path = files.Files().at(0);
  const std::string whole = files.Contents(path);
  const std::size_t mark_at = whole.size() - kRecordHeaderBytes;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    files.SetContents(path, damaged);
    const Opened opened = OpenJournal(files);
    if (bit / 8 < mark_at) {
      ASSERT_EQ(opened.status.kind(), StatusKind::kCorruption) << bit;
    } else {
      ASSERT_EQ(opened.sequences, OneTo(6)) << bit;  // Only the word of the sync is gone.
    }
  }
}

TEST(JournalTest, BitFlipInWhatWasNeverSyncedEndsTheReplayThere) {
  testing::MemoryFileOps files;
  std::vector<std::uint64_t> sizes;
  {
    const auto journal = OpenJournal(files).journal;
    for (std::uint64_t i = 1; i <= 6; ++i) {
      Append(*journal, i, i);
      sizes.push_back(journal->bytes());
    }
  }
  const std::string path = files.Files().at(0);
  const std::string whole = files.Contents(path);
  for (std::size_t bit = kSegmentHeaderBytes * 8; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    files.SetContents(path, damaged);
    const Opened opened = OpenJournal(files);
    const auto hit = static_cast<std::uint64_t>(std::upper_bound(sizes.begin(), sizes.end(), bit / 8) - sizes.begin());
    ASSERT_TRUE(opened.status.ok()) << bit;
    ASSERT_EQ(opened.sequences, OneTo(hit)) << bit;
    ASSERT_EQ(opened.recovery.dropped_batches, 6 - hit - 1) << bit;
    files.SetContents(path, whole);
  }
}

TEST(JournalTest, DamagedMarkBetweenBatchesLosesNothing) {
  testing::MemoryFileOps files;
  std::size_t mark_at = 0;
  {
    const auto journal = OpenJournal(files).journal;
    Append(*journal, 1, 2);
    mark_at = journal->bytes();
    ASSERT_TRUE(journal->Sync().ok());
    Append(*journal, 3, 4);
  }
  const std::string path = files.Files().at(0);
  std::string damaged = files.Contents(path);
  damaged[mark_at + 20] ^= 1;
  files.SetContents(path, damaged);
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2, 3, 4));
}

TEST(JournalTest, LostSegmentIsCorruptionOnceItWasDurable) {
  for (const bool synced : {false, true}) {
    testing::MemoryFileOps files;
    {
      const auto journal = OpenJournal(files).journal;
      Append(*journal, 1, 3);
      if (synced) {
        ASSERT_TRUE(journal->Sync().ok());
      }
      ASSERT_TRUE(journal->PrepareSegment().ok());
      journal->Rotate();
      Append(*journal, 4, 5);
    }
    ASSERT_EQ(files.Files().size(), 2u);
    ASSERT_TRUE(files.Unlink(files.Files()[0]).ok());
    const Opened opened = OpenJournal(files);
    EXPECT_THAT(opened.sequences, IsEmpty());
    EXPECT_EQ(opened.status.kind(), synced ? StatusKind::kCorruption : StatusKind::kOk);
  }
}

TEST(JournalTest, FullDiskLeavesNothingOfTheBatch) {
  testing::MemoryFileOps files;
  const Opened opened = OpenJournal(files);
  Append(*opened.journal, 1, 2);
  const std::uint64_t size = opened.journal->bytes();
  for (std::uint64_t free = 0; free < 48; ++free) {
    files.SetFreeBytes(free);
    ASSERT_EQ(opened.journal->Append(3, BatchOf(3)).kind(), StatusKind::kNoSpace);
    ASSERT_EQ(files.Contents(files.Files().at(0)).size(), size);
  }
  files.SetFreeBytes({});
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2));
  Append(*opened.journal, 3, 3);
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2, 3));
}

TEST(JournalTest, FirstAppendOnAFullDiskCanBeRepeated) {
  testing::MemoryFileOps files;
  const Opened opened = OpenJournal(files);
  for (const std::uint64_t free : {0, 20, 50, 70}) {
    files.SetFreeBytes(free);
    ASSERT_EQ(opened.journal->Append(1, BatchOf(1)).kind(), StatusKind::kNoSpace);
    ASSERT_THAT(OpenJournal(files).sequences, IsEmpty());
  }
  files.SetFreeBytes({});
  Append(*opened.journal, 1, 2);
}

// The write fails after half of its bytes, then cutting it off fails too.
TEST(JournalTest, SegmentThatCannotBeCutBackIsGivenUp) {
  for (const bool first : {true, false}) {
    testing::MemoryFileOps files;
    const Opened opened = OpenJournal(files);
    std::uint64_t next = 1;
    if (!first) Append(*opened.journal, next, next), ++next;
    files.FailCallsFrom(first ? 4 : 1, EIO);  // Creating the segment takes three calls.
    ASSERT_EQ(opened.journal->Append(next, BatchOf(next)).ToErrno(), EIO);
    ASSERT_EQ(opened.journal->Append(next, BatchOf(next)).ToErrno(), EIO) << "no new segment can be started";
    files.ClearFailures();
    EXPECT_EQ(OpenJournal(files).sequences, OneTo(next - 1));
    Append(*opened.journal, next, next + 2);
    EXPECT_EQ(OpenJournal(files).sequences, OneTo(next + 2));
  }
}

TEST(JournalTest, EntryOfAFailedAppendIsVoidEvenWhenItIsWhole) {
  testing::MemoryFileOps files;
  {
    const Opened opened = OpenJournal(files);
    Append(*opened.journal, 1, 2);
    files.FailCallsFrom(1, EIO);
    ASSERT_FALSE(opened.journal->Append(3, BatchOf(4)).ok());
    files.ClearFailures();
    Append(*opened.journal, 3, 3);
  }
  // As if everything of the failed write had reached the file.
  const std::string path = files.Files().at(0);
  std::string content = files.Contents(path);
  const std::uint64_t salt = LoadLittle<std::uint64_t>(AsBytes(content).data() + 32);
  content.resize(content.size() / 8 * 8);
  const WriteBatch failed = BatchOf(4);
  files.SetContents(path, content + EncodeRecord(salt, 3, 0, &failed));
  EXPECT_THAT(OpenJournal(files).sequences, ElementsAre(1, 2, 3));
}

TEST(JournalTest, SyncedEntriesSurviveAnyPowerCut) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    testing::MemoryFileOps files;
    {
      const auto journal = OpenJournal(files).journal;
      Append(*journal, 1, seed % 5);
      if (seed % 3 == 0) {
        ASSERT_TRUE(journal->PrepareSegment().ok());
        journal->Rotate();
      }
      Append(*journal, seed % 5 + 1, 5);
      ASSERT_TRUE(journal->Sync().ok());
      Append(*journal, 6, 40);
    }
    files.CutPower(seed);
    const Opened opened = OpenJournal(files);
    ASSERT_TRUE(opened.status.ok()) << seed << opened.status.ToString();
    ASSERT_GE(opened.sequences.size(), 5u);
    ASSERT_EQ(opened.sequences, OneTo(opened.sequences.size()));
  }
}

TEST(JournalTest, FailedSyncIsNotForgottenByTheNextOne) {
  testing::MemoryFileOps files;
  const auto journal = OpenJournal(files).journal;
  Append(*journal, 1, 3);
  files.FailCall(1, EIO);
  EXPECT_EQ(journal->Sync().ToErrno(), EIO);
  EXPECT_EQ(journal->Sync().ToErrno(), EIO);
  Append(*journal, 4, 4);
  EXPECT_EQ(files.Files().size(), 2u) << "the failed segment is left alone";
  EXPECT_EQ(journal->Sync().ToErrno(), EIO);
  journal->DropThrough(3);
  EXPECT_TRUE(journal->Sync().ok());
}

TEST(JournalTest, SyncOfNothingNewCostsNothing) {
  testing::MemoryFileOps files;
  const auto journal = OpenJournal(files).journal;
  Append(*journal, 1, 1);
  ASSERT_TRUE(journal->Sync().ok());
  const std::uint64_t calls = files.calls();
  ASSERT_TRUE(journal->Sync().ok());
  EXPECT_EQ(files.calls(), calls);
}

TEST(JournalTest, RefusesASegmentOfAnotherNumberOrVersion) {
  testing::MemoryFileOps files;
  Append(*OpenJournal(files).journal, 1, 1);
  const std::string path = files.Files().at(0);
  const std::string whole = files.Contents(path);
  files.SetContents(path, EncodeSegmentHeader(2, 1, 7));
  EXPECT_EQ(OpenJournal(files).status.kind(), StatusKind::kCorruption);
  std::string newer = whole.substr(0, kSegmentHeaderBytes - 8);
  newer[8] = 2;
  std::string checksum(8, '\0');
  StoreLittle(Hash64(newer), reinterpret_cast<std::byte*>(checksum.data()));
  files.SetContents(path, newer + checksum);
  EXPECT_EQ(OpenJournal(files).status.kind(), StatusKind::kUnsupported);
}

// The first block of hexadecimal digits in docs/index_schema.md is a segment with one batch and one mark.
TEST(JournalTest, WorkedExampleInTheDocumentHolds) {
  WriteBatch batch;
  batch.Put(Table::kDentries, "ab", "xyz");
  batch.Delete(Table::kInodes, "c");
  constexpr std::uint64_t kSalt = 0x0706050403020100;
  const std::string segment =
      EncodeSegmentHeader(1, 1, kSalt) + EncodeRecord(kSalt, 1, 0, &batch) + EncodeRecord(kSalt, 1, 1, nullptr);

  std::ifstream document(std::string(STEPFS_TEST_SOURCE_DIR) + "/../docs/index_schema.md");
  ASSERT_TRUE(document);
  std::string line;
  while (std::getline(document, line) && line != "```hex") {
  }
  std::string documented;
  while (std::getline(document, line) && line != "```") {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) documented += static_cast<char>(std::stoi(word, nullptr, 16));
  }
  EXPECT_EQ(documented, segment);
}

}  // namespace
}  // namespace stepfs::index
