// SPDX-License-Identifier: Apache-2.0
//
// Files for layout tests: small golden ones in the tree, and the corpus of real checkpoints beside it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "codec/layout/layout.h"

namespace stepfs::codec {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::filesystem::path GoldenLayouts() {
  return std::filesystem::path(STEPFS_TEST_SOURCE_DIR) / "golden" / "layout";
}

// The corpus: $STEPFS_CORPUS, else shared/corpus beside the source tree. It may be absent.
inline std::filesystem::path CorpusFolder() {
  if (const char* path = std::getenv("STEPFS_CORPUS"); path != nullptr && *path != '\0') return path;
  return std::filesystem::path(STEPFS_TEST_SOURCE_DIR) / ".." / ".." / "shared" / "corpus";
}

inline Layout LayoutOf(std::string_view bytes) {
  const MemorySource source(AsBytes(bytes));
  auto layout = DetectLayout(source);
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  return layout.ok() ? std::move(layout).value() : Layout();
}

// Everything that must hold of any layout, whatever the file: extents inside the file, not empty, disjoint.
inline void ExpectSane(const Layout& layout, std::uint64_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  std::uint64_t last_first = 0;
  for (const Tensor& tensor : layout.tensors) {
    ASSERT_FALSE(tensor.extents.empty());
    EXPECT_GE(tensor.extents[0].offset, last_first);
    last_first = tensor.extents[0].offset;
    for (const TensorExtent& extent : tensor.extents) {
      ASSERT_GT(extent.nbytes, 0u);
      ASSERT_LE(extent.offset, file_bytes);
      ASSERT_LE(extent.nbytes, file_bytes - extent.offset);
      extents.emplace_back(extent.offset, extent.nbytes);
    }
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i) {
    ASSERT_GE(extents[i].first, extents[i - 1].first + extents[i - 1].second);
  }
}

}  // namespace stepfs::codec
