// SPDX-License-Identifier: Apache-2.0
//
// tests/golden/v1/lmc must decode forever. tests/reference/lmc_golden_test.py does the same in Python.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "codec/cpu.h"
#include "codec/lmc.h"

namespace stepfs::codec {
namespace {

std::string ReadGolden(const std::string& name) {
  std::ifstream file(STEPFS_TEST_SOURCE_DIR "/golden/v1/lmc/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

ElementType OfWidth(std::size_t width) {
  switch (width) {
    case 1:
      return ElementType::kBytes;
    case 2:
      return ElementType::kOpaque16;
    case 4:
      return ElementType::kOpaque32;
    default:
      return ElementType::kOpaque64;
  }
}

TEST(LmcGoldenTest, EveryChunkOfVersion1Decodes) {
  std::istringstream manifest(ReadGolden("manifest.txt"));
  std::size_t chunks = 0;
  for (std::string line; std::getline(manifest, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string name;
    std::size_t width = 0;
    int has_base = 0;
    ASSERT_TRUE(fields >> name >> width >> has_base) << line;
    const std::string encoded = ReadGolden(name + ".bin");
    const std::string expected = ReadGolden(name + ".out");
    const std::string base = has_base != 0 ? ReadGolden(name + ".base") : std::string();
    for (CpuLevel level : SupportedCpuLevels()) {
      const ScopedCpuLevel scope(level);
      std::string decoded(expected.size(), '\0');
      const Status status = LmcDecoder().Decode(OfWidth(width), AsBytes(encoded), {AsBytes(base), {}},
                                                std::as_writable_bytes(std::span(decoded)));
      EXPECT_TRUE(status.ok()) << name << ": " << status.ToString();
      EXPECT_TRUE(decoded == expected) << name;
    }
    ++chunks;
  }
  EXPECT_GE(chunks, 11u);
}

}  // namespace
}  // namespace stepfs::codec
