// SPDX-License-Identifier: Apache-2.0
#include "fs/mount_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace stepfs::fs {
namespace {

TEST(MountTableTest, KnowsTheRootFileSystem) {
  const auto table = ReadMountTable();
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_TRUE(
      std::any_of(table->begin(), table->end(), [](const MountEntry& entry) { return entry.mountpoint == "/"; }));
  EXPECT_FALSE(FindStepfsMount("/proc"));
}

TEST(MountTableTest, InsideIsByComponents) {
  EXPECT_TRUE(IsInside("/a/b", "/a"));
  EXPECT_TRUE(IsInside("/a", "/a"));
  EXPECT_TRUE(IsInside("/a", "/"));
  EXPECT_FALSE(IsInside("/ab", "/a"));
  EXPECT_FALSE(IsInside("/a", "/a/b"));
}

TEST(MountTableTest, CanonicalPathsAreAbsoluteAlsoOfWhatIsNotThere) {
  const std::string here = std::filesystem::canonical(".").string();
  EXPECT_EQ(CanonicalPath("."), here);
  EXPECT_EQ(CanonicalPath("./no-such-folder/../no-such-file"), here + "/no-such-file");
  EXPECT_EQ(CanonicalPath("/no-such-folder/"), "/no-such-folder");
}

TEST(MountTableTest, ProgramsReportTheirExitAndErrors) {
  const RunResult failed = RunProgram({"sh", "-c", "echo why >&2; exit 3"});
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_EQ(failed.errors, "why");
  EXPECT_EQ(RunProgram({"no-such-program-anywhere"}).exit_code, 127);
}

}  // namespace
}  // namespace stepfs::fs
