// SPDX-License-Identifier: Apache-2.0
//
// What FileOps promises, asked of real files and of the ones in memory; then what the ones in memory do at a fault.
#include "base/file_ops.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "store/file_ops_posix.h"
#include "support/memory_file_ops.h"
#include "support/temp_directory.h"

namespace stepfs {
namespace {

using ::testing::UnorderedElementsAre;

std::string ReadAll(FileOps& files, const std::string& path) {
  auto file = files.Open(path, FileOps::Mode::kRead);
  if (!file.ok()) return "unreadable: " + file.status().ToString();
  std::string text(static_cast<std::size_t>((*file)->Size().value()), '\0');
  const auto bytes = (*file)->ReadAt(0, std::as_writable_bytes(std::span(text)));
  return bytes.ok() && *bytes == text.size() ? text : "short";
}

Status WriteNew(FileOps& files, const std::string& path, std::string_view text) {
  STEPFS_ASSIGN_OR_RETURN(const auto file, files.Open(path, FileOps::Mode::kCreateNew));
  return file->WriteAt(0, AsBytes(text));
}

class FileOpsTest : public ::testing::TestWithParam<bool> {
 protected:
  FileOpsTest()
      : files_(GetParam() ? store::PosixFileOps() : memory_), root_(GetParam() ? directory_.path() : "/root") {
    EXPECT_TRUE(files_.MakeDirectory(root_).ok());
  }
  testing::TempDirectory directory_;
  testing::MemoryFileOps memory_;
  FileOps& files_;
  const std::string root_;
};

TEST_P(FileOpsTest, ModesDecideAboutExistence) {
  const std::string path = root_ + "/a";
  EXPECT_EQ(files_.Open(path, FileOps::Mode::kRead).status().ToErrno(), ENOENT);
  EXPECT_EQ(files_.Open(path, FileOps::Mode::kReadWrite).status().kind(), StatusKind::kNotFound);
  EXPECT_TRUE(files_.Open(path, FileOps::Mode::kCreate).ok());
  EXPECT_EQ(files_.Open(path, FileOps::Mode::kCreateNew).status().ToErrno(), EEXIST);
  EXPECT_TRUE(files_.Open(path, FileOps::Mode::kCreate).ok());
  EXPECT_EQ(files_.Open(root_ + "/none/a", FileOps::Mode::kCreate).status().ToErrno(), ENOENT);
}

TEST_P(FileOpsTest, WritesAnywhereAndReadsShortAtTheEnd) {
  const auto opened = files_.Open(root_ + "/a", FileOps::Mode::kCreateNew);
  ASSERT_TRUE(opened.ok());
  File& file = **opened;
  ASSERT_TRUE(file.WriteAt(4, AsBytes("efgh")).ok());
  ASSERT_TRUE(file.WriteAt(0, AsBytes("abcd")).ok());
  ASSERT_TRUE(file.Sync().ok());
  std::byte buffer[8];
  EXPECT_EQ(file.ReadAt(0, buffer).value(), 8u);
  EXPECT_EQ(AsText(buffer), "abcdefgh");
  EXPECT_EQ(file.ReadAt(5, buffer).value(), 3u);
  EXPECT_EQ(file.ReadAt(8, buffer).value(), 0u);
  EXPECT_EQ(file.ReadAt(800, buffer).value(), 0u);
  ASSERT_TRUE(file.Truncate(3).ok());
  ASSERT_TRUE(file.Truncate(5).ok());
  EXPECT_EQ(ReadAll(files_, root_ + "/a"), std::string("abc\0\0", 5));
}

TEST_P(FileOpsTest, NamesMoveAndGo) {
  ASSERT_TRUE(files_.MakeDirectory(root_ + "/d").ok());
  ASSERT_TRUE(files_.MakeDirectory(root_ + "/d").ok());
  ASSERT_TRUE(WriteNew(files_, root_ + "/d/a", "1").ok());
  ASSERT_TRUE(WriteNew(files_, root_ + "/d/b", "2").ok());
  ASSERT_TRUE(WriteNew(files_, root_ + "/c", "3").ok());
  EXPECT_THAT(files_.List(root_ + "/d").value(), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(files_.List(root_).value(), UnorderedElementsAre("c", "d"));
  ASSERT_TRUE(files_.Rename(root_ + "/d/a", root_ + "/c").ok());
  EXPECT_EQ(ReadAll(files_, root_ + "/c"), "1");
  ASSERT_TRUE(files_.Unlink(root_ + "/d/b").ok());
  EXPECT_EQ(files_.Unlink(root_ + "/d/b").kind(), StatusKind::kNotFound);
  EXPECT_EQ(files_.Rename(root_ + "/d/b", root_ + "/x").kind(), StatusKind::kNotFound);
  EXPECT_TRUE(files_.List(root_ + "/d").value().empty());
  EXPECT_TRUE(files_.SyncDirectory(root_ + "/d").ok());
  EXPECT_EQ(files_.SyncDirectory(root_ + "/nowhere").kind(), StatusKind::kNotFound);
  EXPECT_EQ(files_.MakeDirectory(root_ + "/c").ToErrno(), EEXIST);
}

INSTANTIATE_TEST_SUITE_P(Both, FileOpsTest, ::testing::Values(true, false),
                         [](const auto& suite) { return suite.param ? "Posix" : "Memory"; });

TEST(PosixFileOpsTest, DescriptorsAreNotInherited) {
  const testing::TempDirectory directory;
  const auto file = store::PosixFileOps().Open(directory.path() + "/a", FileOps::Mode::kCreateNew);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(::fcntl((*file)->fd(), F_GETFD) & FD_CLOEXEC);
}

TEST(PosixFileOpsTest, FullDeviceIsNoSpace) {
  const auto file = store::PosixFileOps().Open("/dev/full", FileOps::Mode::kReadWrite);
  if (!file.ok()) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ((*file)->WriteAt(0, AsBytes("x")).kind(), StatusKind::kNoSpace);
}

class MemoryFileOpsTest : public ::testing::Test {
 protected:
  MemoryFileOpsTest() {
    EXPECT_TRUE(files_.MakeDirectory("/d").ok());
    EXPECT_TRUE(files_.SyncDirectory("/").ok());
  }
  testing::MemoryFileOps files_;
};

TEST_F(MemoryFileOpsTest, PowerCutKeepsExactlyWhatWasSynced) {
  auto file = files_.Open("/d/a", FileOps::Mode::kCreateNew).value();
  ASSERT_TRUE(file->WriteAt(0, AsBytes("old")).ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(WriteNew(files_, "/d/b", "b").ok());
  ASSERT_TRUE(files_.SyncDirectory("/d").ok());
  ASSERT_TRUE(file->WriteAt(0, AsBytes("newer")).ok());
  ASSERT_TRUE(files_.Unlink("/d/b").ok());
  ASSERT_TRUE(WriteNew(files_, "/d/c", "c").ok());
  files_.KillProcess();
  EXPECT_EQ(file->Sync().ToErrno(), EBADF);
  EXPECT_EQ(ReadAll(files_, "/d/a"), "newer");
  EXPECT_EQ(ReadAll(files_, "/d/c"), "c");
  files_.CutPower();
  EXPECT_EQ(ReadAll(files_, "/d/a"), "old");
  EXPECT_EQ(ReadAll(files_, "/d/b"), "");  // Its name was synced, its data never.
  EXPECT_THAT(files_.List("/d").value(), UnorderedElementsAre("a", "b"));
}

TEST_F(MemoryFileOpsTest, SeededPowerCutLeavesVariousParts) {
  const std::string text(2000, 'x');
  bool none = false, all = false, some = false, name_lost = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    testing::MemoryFileOps files;
    auto file = files.Open("/a", FileOps::Mode::kCreateNew).value();
    ASSERT_TRUE(file->WriteAt(0, AsBytes(text)).ok());
    files.CutPower(seed);
    if (files.Files().empty()) {
      name_lost = true;
      continue;
    }
    const std::string left = files.Contents("/a");
    none |= left.empty();
    all |= left == text;
    some |= !left.empty() && left != text;
  }
  EXPECT_TRUE(none && all && some && name_lost);
}

TEST_F(MemoryFileOpsTest, FailsTheChosenCallOnly) {
  files_.FailCall(2, EIO);
  ASSERT_TRUE(WriteNew(files_, "/d/a", "").ToErrno() == EIO);
  EXPECT_TRUE(files_.Unlink("/d/a").ok());
  files_.FailCallsFrom(1, ENOSPC);
  EXPECT_EQ(WriteNew(files_, "/d/b", "").kind(), StatusKind::kNoSpace);
  EXPECT_EQ(files_.SyncDirectory("/d").kind(), StatusKind::kNoSpace);
  files_.KillProcess();
  EXPECT_TRUE(files_.SyncDirectory("/d").ok());
  EXPECT_EQ(files_.calls(), 8u);
}

TEST_F(MemoryFileOpsTest, FullDiskFillsUpFirst) {
  files_.SetFreeBytes(5);
  EXPECT_EQ(WriteNew(files_, "/d/a", "1234567").kind(), StatusKind::kNoSpace);
  EXPECT_EQ(files_.Contents("/d/a"), "12345");
  auto file = files_.Open("/d/a", FileOps::Mode::kReadWrite).value();
  EXPECT_TRUE(file->WriteAt(0, AsBytes("54321")).ok());
  ASSERT_TRUE(file->Truncate(3).ok());
  EXPECT_TRUE(file->WriteAt(3, AsBytes("ab")).ok());
  EXPECT_EQ(file->WriteAt(5, AsBytes("c")).kind(), StatusKind::kNoSpace);
}

}  // namespace
}  // namespace stepfs
