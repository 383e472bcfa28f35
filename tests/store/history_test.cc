// SPDX-License-Identifier: Apache-2.0
#include "store/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

using index::Table;
using testing::Check;
using testing::Take;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A store without threads, in which rows are made by hand.
class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() {
    StoreOptions options;
    options.root = directory_.path() + "/store";
    options.start_threads = false;
    store_ = Take(Store::Open(options));
  }

  History& history() { return store_->history(); }

  // Adds an inline content and gives it `version` at `place`.
  ContentId PutVersion(const Place& place, VersionNumber version, const std::string& bytes, std::uint32_t flags = 0) {
    Transaction transaction(store_->catalog());
    const ContentId content = Take(transaction.NewContent());
    ContentRecord row;
    row.state = ContentState::kInline;
    row.size = bytes.size();
    row.inline_bytes = bytes;
    row.stored_bytes = bytes.size();
    row.codec = "raw";
    row.references = 1;
    row.digest = Hash128(AsBytes(bytes));
    row.origin = place;
    row.origin_version = version;
    transaction.PutContent(content, row);
    VersionRecord record;
    record.content = content;
    record.size = bytes.size();
    record.mode = S_IFREG | 0644;
    record.flags = flags;
    transaction.PutVersion(place, version, record);
    Check(transaction.Commit());
    return content;
  }

  InodeNumber PutDirectory(const Place& place, bool removed = false) {
    Transaction transaction(store_->catalog());
    const InodeNumber ino = Take(transaction.NewInode());
    InodeRecord record;
    record.mode = S_IFDIR | 0755;
    record.nlink = removed ? 0 : 2;
    record.parent = place.parent;
    record.target = removed ? place.name : "";
    transaction.PutInode(ino, record);
    if (!removed) transaction.PutDentry(place, {ino, S_IFDIR});
    Check(transaction.Commit());
    return ino;
  }

  void PutFile(const Place& place) {
    Transaction transaction(store_->catalog());
    const InodeNumber ino = Take(transaction.NewInode());
    InodeRecord record;
    record.mode = S_IFREG | 0644;
    record.nlink = 1;
    transaction.PutInode(ino, record);
    transaction.PutDentry(place, {ino, S_IFREG});
    Check(transaction.Commit());
  }

  void PutPlace(const Place& place, const index::PlaceRecord& record) {
    Transaction transaction(store_->catalog());
    transaction.PutPlace(place, record);
    Check(transaction.Commit());
  }

  void PutGrave(const Place& place, std::uint64_t number, InodeNumber ino) {
    Transaction transaction(store_->catalog());
    transaction.Put(Table::kGraves, index::VersionKey(place, number), index::GraveRecord{ino, 5}.Encode());
    Check(transaction.Commit());
  }

  static std::vector<VersionNumber> NumbersOf(const std::vector<VersionInfo>& infos) {
    std::vector<VersionNumber> numbers;
    for (const auto& info : infos) numbers.push_back(info.version);
    return numbers;
  }

  std::string ReadAll(const VersionInfo& info) {
    const auto source = Take(history().Open(info));
    std::string bytes(source->size(), '\0');
    Check(source->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  testing::TempDirectory directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(HistoryTest, ListsVersionsInOrderOfTheirNumbers) {
  const Place place{index::kRootInode, "last.pt"};
  for (const VersionNumber version : {2, 300, 1, 10}) PutVersion(place, version, "bytes " + std::to_string(version));
  PutVersion({index::kRootInode, "last.pt2"}, 7, "another name");
  const auto versions = Take(history().Versions(place));
  EXPECT_THAT(NumbersOf(versions), ElementsAre(1, 2, 10, 300));
  EXPECT_EQ(ReadAll(versions[3]), "bytes 300");
  EXPECT_EQ(Take(history().Version(place, 10)).record.size, 8u);
  EXPECT_EQ(history().Version(place, 11).status().kind(), StatusKind::kNotFound);
}

TEST_F(HistoryTest, KeepsPartialsApartFromVersions) {
  const Place place{index::kRootInode, "model.bin"};
  PutVersion(place, 1, "whole");
  PutVersion(place, index::kPartialNumbers + 3, "torn", VersionRecord::kPartial);
  EXPECT_THAT(NumbersOf(Take(history().Versions(place))), ElementsAre(1));
  const auto partials = Take(history().Partials(place));
  EXPECT_THAT(NumbersOf(partials), ElementsAre(3));
  EXPECT_EQ(StateName(partials[0]), "partial");
  EXPECT_EQ(ReadAll(partials[0]), "torn");
}

TEST_F(HistoryTest, SeparatesDeletedVersionsFromThoseOfTheNameMadeAgain) {
  const Place place{index::kRootInode, "a.pt"};
  for (VersionNumber version = 1; version <= 3; ++version) PutVersion(place, version, std::to_string(version));
  index::PlaceRecord record;
  record.next_version = 4;
  record.deleted_through = 2;
  PutPlace(place, record);
  EXPECT_THAT(NumbersOf(Take(history().DeletedVersions(place))), ElementsAre(1, 2));
  EXPECT_THAT(Take(history().LiveNames(index::kRootInode)), IsEmpty());
  PutFile(place);
  EXPECT_THAT(Take(history().LiveNames(index::kRootInode)), ElementsAre("a.pt"));
  EXPECT_THAT(Take(history().DeletedNames(index::kRootInode)), ElementsAre("a.pt"));
}

TEST_F(HistoryTest, NamesOfLivingFilesAreNotDeleted) {
  const Place place{index::kRootInode, "a.pt"};
  PutVersion(place, 1, "x");
  PutFile(place);
  EXPECT_THAT(Take(history().DeletedNames(index::kRootInode)), IsEmpty());
}

TEST_F(HistoryTest, DescribesADuplicateByWhatItIsStoredAs) {
  const Place place{index::kRootInode, "best.pt"};
  const ContentId first = PutVersion({index::kRootInode, "last.pt"}, 1, "same bytes");
  {
    Transaction transaction(store_->catalog());
    const ContentId content = Take(transaction.NewContent());
    ContentRecord alias;
    alias.state = ContentState::kAlias;
    alias.alias_of = first;
    alias.size = 10;
    alias.references = 1;
    transaction.PutContent(content, alias);
    VersionRecord record;
    record.content = content;
    record.size = 10;
    transaction.PutVersion(place, 1, record);
    Check(transaction.Commit());
  }
  const auto info = Take(history().Version(place, 1));
  EXPECT_TRUE(info.alias);
  EXPECT_EQ(info.stored_bytes, 0u);
  EXPECT_EQ(info.content.codec, "raw");
  EXPECT_EQ(StateName(info), "sealed");
  EXPECT_EQ(ReadAll(info), "same bytes");
}

TEST_F(HistoryTest, NamesTheBaseOfADelta) {
  const Place place{index::kRootInode, "last.pt"};
  const ContentId base = PutVersion(place, 4, "the base");
  const ContentId delta = PutVersion(place, 5, "the target");
  {
    Transaction transaction(store_->catalog());
    ContentRecord record = Take(transaction.GetContent(delta));
    record.sources = {base};
    record.depth = 1;
    transaction.PutContent(delta, record);
    Check(transaction.Commit());
  }
  const auto info = Take(history().Version(place, 5));
  EXPECT_EQ(info.base_place, place);
  EXPECT_EQ(info.base_version, 4u);
  EXPECT_EQ(info.base_digest, Hash128(AsBytes("the base")));
  EXPECT_FALSE(Take(history().Version(place, 4)).base_place);
}

TEST_F(HistoryTest, AVersionOfAGrownContentIsItsBeginning) {
  const Place place{index::kRootInode, "log.txt"};
  const ContentId content = PutVersion(place, 1, "one line\nanother\n");
  {
    Transaction transaction(store_->catalog());
    VersionRecord record;
    record.content = content;
    record.size = 9;
    transaction.PutVersion(place, 2, record);
    Check(transaction.Commit());
  }
  const auto info = Take(history().Version(place, 2));
  EXPECT_EQ(ReadAll(info), "one line\n");
  std::byte beyond[2];
  EXPECT_FALSE(Take(history().Open(info))->ReadAt(8, beyond).ok());
}

TEST_F(HistoryTest, TakesTheStepFromThePathWhenTheContentHasNone) {
  const InodeNumber run = PutDirectory({index::kRootInode, "checkpoint-500"});
  PutVersion({run, "optimizer.pt"}, 1, "x");
  EXPECT_EQ(Take(history().Version({run, "optimizer.pt"}, 1)).step, 500);
  PutVersion({index::kRootInode, "last.pt"}, 1, "x");
  EXPECT_FALSE(Take(history().Version({index::kRootInode, "last.pt"}, 1)).step);
}

TEST_F(HistoryTest, ListsEverythingBelowAlsoInRemovedDirectories) {
  const InodeNumber run = PutDirectory({index::kRootInode, "run"});
  PutVersion({run, "a"}, 1, "a");
  const Place removed{run, "checkpoint-1"};
  const InodeNumber grave = PutDirectory(removed, true);
  PutVersion({grave, "b"}, 1, "b");
  PutGrave(removed, 1, grave);
  PutVersion({run, "a"}, index::kPartialNumbers + 1, "c", VersionRecord::kPartial);
  std::vector<std::string> found;
  for (const auto& info : Take(history().Below(index::kRootInode))) {
    found.push_back(Take(history().PathOf(info.place)) + " " + std::string(StateName(info)));
  }
  EXPECT_THAT(found, ::testing::UnorderedElementsAre("run/a sealed", "run/a partial", "run/checkpoint-1/b sealed"));
  EXPECT_THAT(Take(history().DeletedNames(run)), ::testing::Contains("checkpoint-1"));
}

TEST_F(HistoryTest, ResolvesLivingAndRemovedNames) {
  const InodeNumber run = PutDirectory({index::kRootInode, "run"});
  PutVersion({run, "gone.pt"}, 1, "x");
  const Place removed{run, "checkpoint-1"};
  const InodeNumber grave = PutDirectory(removed, true);
  PutVersion({grave, "b"}, 1, "b");
  PutGrave(removed, 1, grave);

  EXPECT_EQ(Take(history().Resolve("")).directory, index::kRootInode);
  EXPECT_EQ(Take(history().Resolve("run/")).directory, run);
  const auto file = Take(history().Resolve("run/gone.pt"));
  EXPECT_FALSE(file.directory);
  EXPECT_EQ(file.place, (Place{run, "gone.pt"}));
  EXPECT_EQ(Take(history().Resolve("run/checkpoint-1/b")).place, (Place{grave, "b"}));
  EXPECT_EQ(Take(history().Resolve("run/checkpoint-1")).directory, grave);
  EXPECT_EQ(history().Resolve("run/never").status().kind(), StatusKind::kNotFound);
  EXPECT_EQ(history().Resolve("run/gone.pt/below").status().ToErrno(), ENOTDIR);
}

}  // namespace
}  // namespace stepfs::store
