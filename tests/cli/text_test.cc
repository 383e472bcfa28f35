// SPDX-License-Identifier: Apache-2.0
#include "cli/text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/store_access.h"

namespace stepfs::cli {
namespace {

TEST(TextTest, SizesAreInBinaryUnits) {
  EXPECT_EQ(HumanSize(0), "0 B");
  EXPECT_EQ(HumanSize(1023), "1023 B");
  EXPECT_EQ(HumanSize(1024), "1.0 KiB");
  EXPECT_EQ(HumanSize(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(HumanSize(6'606'029), "6.3 MiB");
  EXPECT_EQ(HumanSize(UINT64_MAX), "16.0 EiB");
}

TEST(TextTest, ReadsSizes) {
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("16"), 16u);
  EXPECT_EQ(ParseSize("64K"), 65536u);
  EXPECT_EQ(ParseSize("64k"), 65536u);
  EXPECT_EQ(ParseSize("1.5G"), 1536u << 20);
  EXPECT_EQ(ParseSize("2TiB"), std::uint64_t{2} << 40);
  EXPECT_EQ(ParseSize("7B"), 7u);
  for (const char* text : {"", "K", "-1", "5 G", "5X", "5GB2", "1e30", "nan", "inf"}) {
    EXPECT_FALSE(ParseSize(text)) << text;
  }
}

TEST(TextTest, ControlCharactersCannotSteerATerminal) {
  EXPECT_EQ(Printable("a\nb\x1b[2J\t\x7f"), "a\\nb\\x1b[2J\\t\\x7f");
  EXPECT_EQ(Printable("gewöhnlich"), "gewöhnlich");
}

TEST(TextTest, TablesAlignColumns) {
  Table table({{"NAME"}, {"SIZE", true}});
  table.AddRow({"ö", "1"});
  table.AddRow({"longer\n", "1000000"});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(),
            "NAME         SIZE\n"
            "ö               1\n"
            "longer\\n  1000000\n");
}

TEST(TextTest, AVersionIsSplitOffOnlyWhenItIsOne) {
  EXPECT_EQ(SplitVersion("run/a.pt@12").path, "run/a.pt");
  EXPECT_EQ(SplitVersion("run/a.pt@12").version, "12");
  EXPECT_EQ(SplitVersion("a@b@step-500").path, "a@b");
  EXPECT_EQ(SplitVersion("user@host").path, "user@host");
  EXPECT_EQ(SplitVersion("user@host").version, "");
}

}  // namespace
}  // namespace stepfs::cli
