// SPDX-License-Identifier: Apache-2.0
#include "store/tree.h"

#include <linux/fs.h>
#include <sys/stat.h>

#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

using testing::Check;
using testing::Take;

class TreeTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  // Ends cleanly and starts again.
  void Reopen() {
    driver_.reset();
    if (store_) Check(store_->Close());
    store_.reset();
    StoreOptions options;
    options.root = directory_.path() + "/store";
    options.encode_threads = 1;
    store_ = Take(Store::Open(options));
    driver_ = std::make_unique<testing::StoreDriver>(*store_);
  }
  // The process dies: nothing is said good-bye to.
  void Crash() {
    driver_.reset();
    store_->AbandonForTesting();
    store_.reset();
    Reopen();
  }
  Status Drain() { return store_->SyncAndDrain(nullptr); }
  Tree& tree() { return store_->tree(); }
  testing::StoreDriver& fs() { return *driver_; }

  testing::TempDirectory directory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<testing::StoreDriver> driver_;
};

std::string Blob(std::size_t bytes, unsigned seed) {
  std::string blob(bytes, '\0');
  std::uint64_t state = seed * 2654435761u + 1;
  for (char& c : blob) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return blob;
}

TEST_F(TreeTest, EachOverwriteIsAVersion) {
  fs().Write("a", "one");
  fs().Write("a", "two");
  fs().Write("a", "three");
  EXPECT_EQ(fs().Story("a"), "1:one 2:two 3:three");
  EXPECT_EQ(fs().Read("a"), "three");
  Check(Drain());
  EXPECT_EQ(fs().Story("a"), "1:one 2:two 3:three");
  Reopen();
  EXPECT_EQ(fs().Story("a"), "1:one 2:two 3:three");
  EXPECT_EQ(fs().Read("a"), "three");
}

TEST_F(TreeTest, EqualBytesAddNoVersion) {
  const std::string big = Blob(6 << 20, 1);
  fs().Write("small", "same");
  fs().Write("small", "same");
  fs().Write("big", big);
  fs().Write("big", big);
  Check(Drain());
  EXPECT_EQ(fs().Story("small"), "1:same");
  EXPECT_EQ(fs().Versions("big").size(), 1u);
  EXPECT_EQ(fs().Read("big"), big);
  fs().Write("small", "other");
  EXPECT_EQ(fs().Versions("small").back().record.size, 5u);
}

TEST_F(TreeTest, RenameOverBecomesTheNextVersion) {
  fs().Write("model", "old");
  fs().Write("tmp123", "new");
  fs().Rename("tmp123", "model");
  EXPECT_EQ(fs().Story("model"), "1:old 2:new");
  EXPECT_TRUE(Take(store_->history().DeletedNames(index::kRootInode)).empty());
  EXPECT_EQ(fs().Read("model"), "new");
}

TEST_F(TreeTest, RenameWhileTheWriterIsOpenCommitsAtItsRelease) {
  fs().Write("model", "old");
  auto file = fs().Open("tmp", O_WRONLY | O_CREAT | O_EXCL);
  fs().WriteAt(*file, 0, "new");
  fs().Rename("tmp", "model");
  EXPECT_EQ(fs().Story("model"), "1:old");
  EXPECT_EQ(fs().Read("model"), "new");
  fs().Close(std::move(file));
  EXPECT_EQ(fs().Story("model"), "1:old 2:new");
}

TEST_F(TreeTest, HistoryFollowsARenamedDirectory) {
  fs().MakeDirectory("run");
  fs().Write("run/a", "1");
  fs().Write("run/a", "2");
  fs().Rename("run", "moved");
  EXPECT_EQ(fs().Story("moved/a"), "1:1 2:2");
}

TEST_F(TreeTest, ExchangeGivesBothPlacesANextVersion) {
  fs().Write("a", "A");
  fs().Write("b", "B");
  fs().Rename("a", "b", RENAME_EXCHANGE);
  EXPECT_EQ(fs().Story("a"), "1:A 2:B");
  EXPECT_EQ(fs().Story("b"), "1:B 2:A");
}

TEST_F(TreeTest, UnlinkKeepsTheContentUnderDeleted) {
  fs().Write("a", "one");
  fs().Write("a", "two");
  fs().Unlink("a");
  EXPECT_FALSE(fs().Exists("a"));
  const Place place{index::kRootInode, "a"};
  ASSERT_EQ(Take(store_->history().DeletedNames(index::kRootInode)), std::vector<std::string>{"a"});
  const auto deleted = Take(store_->history().DeletedVersions(place));
  ASSERT_EQ(deleted.size(), 2u);
  Check(Drain());
  EXPECT_EQ(fs().ReadVersion(deleted[1]), "two");
  fs().Write("a", "three");
  EXPECT_EQ(fs().Story("a"), "1:one 2:two 3:three");
}

TEST_F(TreeTest, ARemovedDirectoryIsAGraveEachTime) {
  for (const char* content : {"first", "second"}) {
    fs().MakeDirectory("ckpt");
    fs().Write("ckpt/w", content);
    fs().Unlink("ckpt/w");
    fs().RemoveDirectory("ckpt");
  }
  const auto graves = Take(store_->history().Graves({index::kRootInode, "ckpt"}));
  ASSERT_EQ(graves.size(), 2u);
  const auto versions = Take(store_->history().DeletedVersions({graves[1].ino, "w"}));
  ASSERT_EQ(versions.size(), 1u);
  EXPECT_EQ(fs().ReadVersion(versions[0]), "second");
}

TEST_F(TreeTest, HardLinksShareContentAndBothGetVersions) {
  fs().Write("a", "one");
  Take(tree().Link(fs().InodeOf("a"), index::kRootInode, "b"));
  EXPECT_EQ(Take(tree().GetAttributes(fs().InodeOf("a"))).nlink, 2u);
  fs().Write("b", "two");
  EXPECT_EQ(fs().Story("a"), "1:one 2:two");
  EXPECT_EQ(fs().Story("b"), "1:one 2:two");
  fs().Unlink("a");
  EXPECT_EQ(fs().Read("b"), "two");
}

TEST_F(TreeTest, AppendsReplaceEachOther) {
  fs().Write("log", "a\n");
  for (int i = 0; i < 20; ++i) fs().Append("log", "line\n");
  EXPECT_EQ(fs().Versions("log").size(), 1u);
  EXPECT_EQ(fs().Read("log").size(), 2u + 20 * 5);
  EXPECT_EQ(fs().ReadVersion(fs().Versions("log")[0]), fs().Read("log"));
}

TEST_F(TreeTest, AnFsyncedVersionIsNeverReplaced) {
  auto file = fs().Open("log", O_WRONLY | O_CREAT);
  fs().WriteAt(*file, 0, "durable\n");
  Check(tree().Fsync(*file));
  fs().Close(std::move(file));
  fs().Append("log", "more\n");
  EXPECT_EQ(fs().Story("log"), "1:durable\n 2:durable\nmore\n");
}

TEST_F(TreeTest, WritingInPlaceKeepsTheFormerVersion) {
  const std::string first = Blob(300'000, 2);
  fs().Write("data", first);
  for (const bool sealed : {false, true}) {
    if (sealed) Check(Drain());
    const std::string before = fs().Read("data");
    const std::size_t count = fs().Versions("data").size();
    auto file = fs().Open("data", O_RDWR);
    fs().WriteAt(*file, 100'000, sealed ? "SEALED" : "staged");
    fs().Close(std::move(file));
    std::string after = before;
    after.replace(100'000, 6, sealed ? "SEALED" : "staged");
    EXPECT_EQ(fs().Read("data"), after);
    const auto versions = fs().Versions("data");
    ASSERT_EQ(versions.size(), count + 1);
    EXPECT_EQ(fs().ReadVersion(versions[count - 1]), before);
    EXPECT_EQ(fs().ReadVersion(versions[count]), after);
  }
  Check(Drain());
  EXPECT_EQ(fs().ReadVersion(fs().Versions("data")[0]), first);
}

TEST_F(TreeTest, TruncationKeepsTheFormerVersion) {
  fs().Write("t", "0123456789");
  AttributeChange change;
  change.size = 4;
  Take(tree().SetAttributes(fs().InodeOf("t"), change));
  EXPECT_EQ(fs().Read("t"), "0123");
  change.size = 8;
  Take(tree().SetAttributes(fs().InodeOf("t"), change));
  EXPECT_EQ(fs().Read("t"), std::string("0123\0\0\0\0", 8));
  const auto versions = fs().Versions("t");
  EXPECT_EQ(fs().ReadVersion(versions.front()), "0123456789");
  EXPECT_EQ(fs().ReadVersion(versions.back()), std::string("0123\0\0\0\0", 8));
}

TEST_F(TreeTest, OpenForWritingWithoutAWriteCopiesNothing) {
  fs().Write("h5", Blob(200'000, 3));
  Check(Drain());
  fs().Close(fs().Open("h5", O_RDWR));
  EXPECT_EQ(fs().Versions("h5").size(), 1u);
  EXPECT_TRUE(Take(store_->contents().ListStaging()).empty());
}

TEST_F(TreeTest, EmptyingAFileKeepsItsContentInHistory) {
  fs().Write("f", "content");
  fs().Close(fs().Open("f", O_WRONLY | O_TRUNC));
  EXPECT_EQ(fs().Story("f"), "1:content 2:");
}

TEST_F(TreeTest, ReadersSeeStagedBytesAtOnce) {
  auto writer = fs().Open("f", O_WRONLY | O_CREAT);
  fs().WriteAt(*writer, 0, "half");
  EXPECT_EQ(fs().Read("f"), "half");
  fs().WriteAt(*writer, 4, "done");
  EXPECT_EQ(fs().Read("f"), "halfdone");
  fs().Close(std::move(writer));
}

TEST_F(TreeTest, AnUnlinkedOpenFileStaysReadable) {
  fs().Write("f", "bytes");
  auto file = fs().Open("f", O_RDONLY);
  const InodeNumber ino = fs().InodeOf("f");
  Check(tree().Unlink(index::kRootInode, "f"));
  std::string bytes(5, '\0');
  EXPECT_EQ(Take(tree().Read(*file, 0, std::as_writable_bytes(std::span(bytes)))), 5u);
  EXPECT_EQ(bytes, "bytes");
  Check(tree().Release(std::move(file)));
  tree().Forget(ino);
  EXPECT_FALSE(tree().GetAttributes(ino).ok());
}

TEST_F(TreeTest, BackgroundWorkLeavesAttributesAlone) {
  fs().MakeDirectory("d");
  fs().Write("d/f", Blob(500'000, 4));
  const auto file = Take(tree().GetAttributes(fs().InodeOf("d/f")));
  const auto directory = Take(tree().GetAttributes(fs().InodeOf("d")));
  Check(Drain());
  Reopen();
  const auto file_after = Take(tree().GetAttributes(fs().InodeOf("d/f")));
  const auto directory_after = Take(tree().GetAttributes(fs().InodeOf("d")));
  EXPECT_EQ(file.ino, file_after.ino);
  EXPECT_EQ(file.mtime, file_after.mtime);
  EXPECT_EQ(file.ctime, file_after.ctime);
  EXPECT_EQ(file.size, file_after.size);
  EXPECT_EQ(file.mode, file_after.mode);
  EXPECT_EQ(directory.mtime, directory_after.mtime);
  EXPECT_EQ(directory.ctime, directory_after.ctime);
}

TEST_F(TreeTest, NamesAnswerAsPosixSays) {
  fs().MakeDirectory("d");
  fs().Write("d/f", "x");
  fs().Write("g", "y");
  const auto root = index::kRootInode;
  EXPECT_EQ(tree().RemoveDirectory(root, "d").ToErrno(), ENOTEMPTY);
  EXPECT_EQ(tree().RemoveDirectory(root, "g").ToErrno(), ENOTDIR);
  EXPECT_EQ(tree().Unlink(root, "d").ToErrno(), EISDIR);
  EXPECT_EQ(tree().Unlink(root, "none").ToErrno(), ENOENT);
  EXPECT_EQ(tree().MakeDirectory(root, "d", 0755, {}).status().ToErrno(), EEXIST);
  EXPECT_EQ(tree().MakeDirectory(root, ".stepfs", 0755, {}).status().ToErrno(), EEXIST);
  EXPECT_EQ(tree().Lookup(root, std::string(256, 'x')).status().ToErrno(), ENAMETOOLONG);
  EXPECT_EQ(tree().Rename(root, "g", root, "d", 0).ToErrno(), EISDIR);
  EXPECT_EQ(tree().Rename(root, "d", root, "g", 0).ToErrno(), ENOTDIR);
  EXPECT_EQ(tree().Rename(root, "g", fs().InodeOf("d"), "f", RENAME_NOREPLACE).ToErrno(), EEXIST);
  EXPECT_EQ(tree().Rename(root, "d", fs().InodeOf("d"), "sub", 0).ToErrno(), EINVAL);
  EXPECT_EQ(tree().Link(fs().InodeOf("d"), root, "e").status().ToErrno(), EPERM);
}

TEST_F(TreeTest, DirectoryLinkCountsFollowSubdirectories) {
  fs().MakeDirectory("a");
  fs().MakeDirectory("b");
  fs().MakeDirectory("a/s");
  EXPECT_EQ(Take(tree().GetAttributes(fs().InodeOf("a"))).nlink, 3u);
  fs().Rename("a/s", "b/s");
  EXPECT_EQ(Take(tree().GetAttributes(fs().InodeOf("a"))).nlink, 2u);
  EXPECT_EQ(Take(tree().GetAttributes(fs().InodeOf("b"))).nlink, 3u);
  EXPECT_EQ(Take(tree().GetAttributes(index::kRootInode)).nlink, 4u);
}

TEST_F(TreeTest, DyingLosesNothingThatWasWritten) {
  fs().Write("closed", "closed");
  auto open = fs().Open("open", O_WRONLY | O_CREAT);
  fs().WriteAt(*open, 0, "not closed");
  fs().Write("again", "first");
  auto rewrite = fs().Open("again", O_WRONLY | O_TRUNC);
  fs().WriteAt(*rewrite, 0, "sec");
  open.reset();
  rewrite.reset();
  Crash();
  EXPECT_EQ(fs().Read("closed"), "closed");
  EXPECT_EQ(fs().Read("open"), "not closed");
  EXPECT_EQ(fs().Story("again"), "1:first 2:sec");
  EXPECT_TRUE(fs().Versions("again").back().record.flags & VersionRecord::kUnclosed);
  EXPECT_FALSE(fs().Versions("closed").back().record.flags & VersionRecord::kUnclosed);
}

TEST_F(TreeTest, ProvisionalCommitIsTakenBackByALaterWrite) {
  auto file = fs().Open("f", O_WRONLY | O_CREAT);
  fs().WriteAt(*file, 0, "part");
  Check(tree().Flush(*file));
  for (int i = 0; i < 80 && fs().Versions("f").empty(); ++i) usleep(100'000);
  ASSERT_EQ(fs().Versions("f").size(), 1u);
  fs().WriteAt(*file, 4, "ial");
  EXPECT_TRUE(fs().Versions("f").empty());
  fs().Close(std::move(file));
  ASSERT_EQ(fs().Versions("f").size(), 1u);
  EXPECT_EQ(fs().ReadVersion(fs().Versions("f")[0]), "partial");
}

TEST_F(TreeTest, AReaderOfAnOldVersionNeverSeesANewerWrite) {
  // The version is opened while its file is staged, and read after the raw file could have become the next one's.
  const std::string first = Blob(200'000, 7);
  fs().Write("f", first);
  const auto source = Take(store_->history().Open(fs().Versions("f")[0]));
  Check(Drain());
  auto file = fs().Open("f", O_RDWR);
  fs().WriteAt(*file, 0, std::string(100'000, 'x'));
  fs().Close(std::move(file));
  std::string bytes(first.size(), '\0');
  Check(source->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  EXPECT_EQ(bytes, first);
}

}  // namespace
}  // namespace stepfs::store
