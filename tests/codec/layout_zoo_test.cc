// SPDX-License-Identifier: Apache-2.0
//
// Every parser against checkpoints that the real libraries wrote, and a list, made without any parser, of where each
// tensor lies in them (zoo/truth.json in the corpus). Skipped with a message where the corpus is absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "codec/element.h"
#include "codec/layout/dtype.h"
#include "codec/layout/layout.h"
#include "layout_test_util.h"

namespace stepfs::codec {
namespace {

using Json = nlohmann::json;

enum class Names {
  kInFile,    // The file has the names.
  kPart,      // As kInFile; the truth, which names a directory of files, puts the file's part in it in front.
  kNotThere,  // The file has none (they are in another file of the checkpoint).
};

struct ZooFormat {
  const char* folder;
  const char* format;  // What DetectLayout calls the files that hold tensors; nullptr: various.
  Names names = Names::kInFile;
};

void PrintTo(const ZooFormat& zoo, std::ostream* out) { *out << zoo.folder; }

const Json& Truth() {
  static const Json truth = [] {
    const auto path = CorpusFolder() / "zoo" / "truth.json";
    return std::filesystem::exists(path) ? Json::parse(ReadFile(path)) : Json();
  }();
  return truth;
}

Json ChunksOf(const Tensor& tensor) {
  Json chunks = Json::array();
  for (const TensorExtent& extent : tensor.extents) {
    chunks.push_back({{"origin", extent.origin}, {"offset", extent.offset}, {"nbytes", extent.nbytes}});
  }
  return chunks;
}

Json SortedByOffset(Json chunks) {
  std::sort(chunks.begin(), chunks.end(), [](const Json& a, const Json& b) { return a.at("offset") < b.at("offset"); });
  return chunks;
}

std::uint64_t FirstOffset(const Json& truth) {
  return truth.contains("chunks") ? SortedByOffset(truth.at("chunks"))[0].at("offset").get<std::uint64_t>()
                                  : truth.at("offset").get<std::uint64_t>();
}

void ExpectTensor(const Json& truth, const Tensor& tensor, const ZooFormat& zoo) {
  std::string name = truth.at("name");
  if (zoo.names == Names::kPart) name.erase(0, name.find('.') + 1);
  EXPECT_EQ(tensor.name, zoo.names == Names::kNotThere ? "" : name);
  EXPECT_EQ(SafetensorsName(tensor.dtype), truth.at("dtype"));
  EXPECT_EQ(Json(tensor.shape), truth.at("shape"));
  if (truth.contains("chunks")) {
    EXPECT_EQ(ChunksOf(tensor), SortedByOffset(truth.at("chunks")));
  } else {
    EXPECT_EQ(tensor.extents.size(), 1u);
    EXPECT_EQ(tensor.extents[0].nbytes, truth.at("nbytes"));
  }
}

// The directory of a file of the corpus.
class Folder final : public Siblings {
 public:
  explicit Folder(std::filesystem::path file) : file_(std::move(file)) {}
  std::string name() const override { return file_.filename().string(); }
  std::unique_ptr<ByteSource> Open(const std::string& name) const override {
    const auto path = file_.parent_path() / name;
    if (!std::filesystem::exists(path)) return nullptr;
    struct Owner final : ByteSource {
      explicit Owner(std::string content) : bytes(std::move(content)) {}
      std::uint64_t size() const override { return bytes.size(); }
      Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
        return MemorySource(AsBytes(bytes)).ReadAt(offset, out);
      }
      std::string bytes;
    };
    return std::make_unique<Owner>(ReadFile(path));
  }

 private:
  std::filesystem::path file_;
};

// As a mount sees the file: with its directory.
Layout LayoutInFolder(const std::filesystem::path& path, std::string_view bytes) {
  const MemorySource source(AsBytes(bytes));
  auto layout = DetectLayout(source, Folder(path));
  EXPECT_TRUE(layout.ok()) << path;
  return layout.ok() ? std::move(layout).value() : Layout();
}

// The same with one byte of a sibling changed, or its end cut off.
class DamagedFolder final : public Siblings {
 public:
  DamagedFolder(std::string name, std::string sibling) : name_(std::move(name)), sibling_(std::move(sibling)) {}
  std::string name() const override { return name_; }
  std::unique_ptr<ByteSource> Open(const std::string&) const override {
    return std::make_unique<MemorySource>(AsBytes(std::string_view(sibling_).substr(0, length)));
  }
  std::string& sibling() { return sibling_; }
  std::size_t length = ~std::size_t{0};

 private:
  std::string name_;
  std::string sibling_;
};

TEST(ZooFilesTest, DamagedSiblingsAreReadSafely) {
  if (Truth().is_null()) GTEST_SKIP() << "no corpus at " << CorpusFolder() << " (set STEPFS_CORPUS)";
  const auto zoo = CorpusFolder() / "zoo";
  for (const auto& [file, sibling] :
       {std::pair("tensorflow/a/ckpt-95.data-00000-of-00001", "ckpt-95.index"),
        std::pair("onnx/a/model.onnx.data", "model.onnx"), std::pair("torch-dcp/a/__0_0.distcp", ".metadata")}) {
    const std::string bytes = ReadFile(zoo / file);
    const MemorySource source(AsBytes(bytes));
    DamagedFolder folder((zoo / file).filename().string(), ReadFile((zoo / file).parent_path() / sibling));
    std::string& content = folder.sibling();
    const std::size_t stride = content.size() / 400 + 1;
    for (std::size_t at = 0; at < content.size(); at += stride) {
      const char kept = content[at];
      for (const char flip : {'\x01', '\x80', '\xff'}) {
        content[at] = static_cast<char>(kept ^ flip);
        const auto layout = DetectLayout(source, folder);
        ASSERT_TRUE(layout.ok());
        ExpectSane(*layout, bytes.size());
        content[at] = kept;
      }
      folder.length = at;
      ASSERT_TRUE(DetectLayout(source, folder).ok());
      folder.length = content.size();
    }
  }
}

class ZooTest : public testing::TestWithParam<ZooFormat> {
 protected:
  void SetUp() override {
    if (Truth().is_null()) GTEST_SKIP() << "no corpus at " << CorpusFolder() << " (set STEPFS_CORPUS)";
  }
};

TEST_P(ZooTest, EveryTensorIsWhereItWasFound) {
  const ZooFormat& zoo = GetParam();
  std::size_t tensors = 0;
  for (const auto& [path, truth] : Truth().at("files").items()) {
    if (truth.at("format") != zoo.folder) continue;
    SCOPED_TRACE(path);
    const std::string bytes = ReadFile(CorpusFolder() / "zoo" / path);
    const Layout layout = LayoutInFolder(CorpusFolder() / "zoo" / path, bytes);
    ExpectSane(layout, bytes.size());
    EXPECT_TRUE(truth.at("tensors").empty() || zoo.format == nullptr || layout.format == zoo.format) << layout.format;

    std::map<std::uint64_t, const Tensor*> by_offset;
    for (const Tensor& tensor : layout.tensors) by_offset[tensor.extents[0].offset] = &tensor;
    for (const Json& expected : truth.at("tensors")) {
      SCOPED_TRACE(expected.dump().substr(0, 200));
      ++tensors;
      const auto found = by_offset.find(FirstOffset(expected));
      if (found == by_offset.end()) {
        ADD_FAILURE() << "no tensor begins there";
      } else {
        ExpectTensor(expected, *found->second, zoo);
      }
    }
  }
  EXPECT_GT(tensors, 0u);
}

TEST_P(ZooTest, TheTwoCheckpointsHaveOneFingerprint) {
  const ZooFormat& zoo = GetParam();
  std::map<std::string, Digest> fingerprints;  // By the file's name within its checkpoint, without step.
  for (const auto& [path, truth] : Truth().at("files").items()) {
    if (truth.at("format") != zoo.folder || truth.at("tensors").empty()) continue;
    const auto file = CorpusFolder() / "zoo" / path;
    const Layout layout = LayoutInFolder(file, ReadFile(file));
    EXPECT_NE(layout.fingerprint, Digest()) << path;
    std::string key = std::filesystem::path(path).filename().string();
    if (file.parent_path().filename() == zoo.folder || std::string_view(zoo.folder) == "torch-zip-renamed") key = "one";
    std::erase_if(key, [](char c) { return c >= '0' && c <= '9'; });
    EXPECT_EQ(fingerprints.emplace(key, layout.fingerprint).first->second, layout.fingerprint) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, ZooTest,
    testing::Values(ZooFormat{"safetensors", "safetensors"}, ZooFormat{"safetensors-mixed", "safetensors"},
                    ZooFormat{"torch-zip", "torch-zip"}, ZooFormat{"torch-zip-options", "torch-zip"},
                    ZooFormat{"torch-zip-shared", "torch-zip"}, ZooFormat{"torch-zip-renamed", "torch-zip"},
                    ZooFormat{"torch-dcp", "torch-distcp"}, ZooFormat{"tensorflow", "tensorflow"},
                    ZooFormat{"onnx", "onnx"}, ZooFormat{"torch-dcp-safetensors", "torch-distcp"},
                    ZooFormat{"torch-legacy", "torch-legacy"}, ZooFormat{"npy", "npy", Names::kNotThere},
                    ZooFormat{"npz", "npz"}, ZooFormat{"pickle", "pickle"}, ZooFormat{"joblib", "joblib"},
                    ZooFormat{"hdf5", "hdf5"}, ZooFormat{"hdf5-chunked", "hdf5"}, ZooFormat{"hdf5-latest", "hdf5"},
                    ZooFormat{"keras", "zip"}, ZooFormat{"keras-weights", "hdf5"}, ZooFormat{"sb3", "zip"},
                    ZooFormat{"gguf", "gguf"}, ZooFormat{"flax", "msgpack"},
                    ZooFormat{"hf-trainer", nullptr, Names::kPart}, ZooFormat{"lightning", "torch-zip"}),
    [](const auto& param) {
      std::string name = param.param.folder;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// Files of nothing but elements: what is in them stands in another file of the checkpoint.
class RawZooTest : public testing::TestWithParam<const char*> {};

TEST_P(RawZooTest, StatisticsFindWidthAndPhase) {
  if (Truth().is_null()) GTEST_SKIP() << "no corpus at " << CorpusFolder() << " (set STEPFS_CORPUS)";
  std::uint64_t found_bytes = 0;
  std::uint64_t all_bytes = 0;
  for (const auto& [path, truth] : Truth().at("files").items()) {
    if (truth.at("format") != GetParam() || truth.at("tensors").empty()) continue;
    const std::string bytes = ReadFile(CorpusFolder() / "zoo" / path);
    const Layout layout = LayoutOf(bytes);
    ExpectSane(layout, bytes.size());
    for (const Json& tensor : truth.at("tensors")) {
      const auto dtype = DtypeFromSafetensors(tensor.at("dtype").get<std::string>());
      const Json pieces = tensor.contains("chunks") ? tensor.at("chunks") : Json::array({tensor});
      for (const Json& piece : pieces) {
        const std::uint64_t begin = piece.at("offset");
        const std::uint64_t nbytes = piece.at("nbytes");
        if (nbytes < 1024) continue;
        all_bytes += nbytes;
        for (const Tensor& guess : layout.tensors) {
          const TensorExtent& extent = guess.extents[0];
          const std::uint64_t width = Width(dtype->element);
          if (Width(guess.element) != width || extent.offset % width != begin % width) continue;
          const std::uint64_t from = std::max(begin, extent.offset);
          const std::uint64_t to = std::min(begin + nbytes, extent.offset + extent.nbytes);
          found_bytes += to > from ? to - from : 0;
        }
      }
    }
  }
  ASSERT_GT(all_bytes, 0u);
  std::cout << GetParam() << ": " << found_bytes << " of " << all_bytes << " bytes\n";
  EXPECT_GE(static_cast<double>(found_bytes), 0.9 * static_cast<double>(all_bytes));
}

INSTANTIATE_TEST_SUITE_P(Formats, RawZooTest,
                         testing::Values("zarr2", "zarr3", "orbax-plain", "orbax-ocdbt-raw", "tensorflow", "onnx"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ZooFilesTest, CompressedFilesAreToldSo) {
  if (Truth().is_null()) GTEST_SKIP() << "no corpus at " << CorpusFolder() << " (set STEPFS_CORPUS)";
  std::map<std::string, std::map<std::string, int>> by_format;
  for (const auto& [path, truth] : Truth().at("files").items()) {
    const std::string bytes = ReadFile(CorpusFolder() / "zoo" / path);
    const Layout layout = LayoutOf(bytes);
    if (truth.value("compressed", false)) {
      EXPECT_TRUE(layout.tensors.empty()) << path;
      EXPECT_TRUE(bytes.size() < 4096 || !layout.compressed_by.empty()) << path;
      ++by_format[truth.at("format")][layout.compressed_by];
    } else if (!truth.at("tensors").empty()) {
      EXPECT_EQ(layout.compressed_by, "") << path;
    }
  }
  EXPECT_EQ(by_format["npz-compressed"]["deflate"], 2);
  EXPECT_EQ(by_format["hdf5-gzip"]["gzip"], 2);
  EXPECT_GT(by_format["orbax"]["zstd"], 0);
}

TEST(ZooFilesTest, WhatHoldsNoTensorsHasNone) {
  if (Truth().is_null()) GTEST_SKIP() << "no corpus at " << CorpusFolder() << " (set STEPFS_CORPUS)";
  for (const auto& [path, truth] : Truth().at("files").items()) {
    if (truth.at("format") != "odd") continue;
    const Layout layout = LayoutOf(ReadFile(CorpusFolder() / "zoo" / path));
    EXPECT_EQ(layout.format, "bytes") << path;
    EXPECT_TRUE(layout.tensors.empty()) << path;
  }
}

}  // namespace
}  // namespace stepfs::codec
