// SPDX-License-Identifier: Apache-2.0
//
// Every parser against checkpoints that the real libraries wrote, and a list, made without any parser, of where each
// tensor lies in them (zoo/truth.json in the corpus). Skipped with a message where the corpus is absent.
#include <gtest/gtest.h>

#include <algorithm>
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
    const Layout layout = LayoutOf(bytes);
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
  std::map<std::string, Digest> fingerprints;  // By the path with the checkpoint's own part taken out.
  for (const auto& [path, truth] : Truth().at("files").items()) {
    if (truth.at("format") != zoo.folder || truth.at("tensors").empty()) continue;
    const Layout layout = LayoutOf(ReadFile(CorpusFolder() / "zoo" / path));
    EXPECT_NE(layout.fingerprint, Digest()) << path;
    const std::filesystem::path whole(path);
    const bool directory =
        std::distance(whole.begin(), whole.end()) > 2 && std::string(zoo.folder) != "torch-zip-renamed";
    const std::string key = directory ? whole.filename().string() : "file";
    EXPECT_EQ(fingerprints.emplace(key, layout.fingerprint).first->second, layout.fingerprint) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, ZooTest,
    testing::Values(ZooFormat{"safetensors", "safetensors"}, ZooFormat{"safetensors-mixed", "safetensors"},
                    ZooFormat{"torch-zip", "torch-zip"}, ZooFormat{"torch-zip-options", "torch-zip"},
                    ZooFormat{"torch-zip-shared", "torch-zip"}, ZooFormat{"torch-zip-renamed", "torch-zip"},
                    ZooFormat{"torch-dcp", "torch-distcp", Names::kNotThere},
                    ZooFormat{"torch-dcp-safetensors", "torch-distcp"}, ZooFormat{"torch-legacy", "torch-legacy"},
                    ZooFormat{"npy", "npy", Names::kNotThere}, ZooFormat{"npz", "npz"}, ZooFormat{"pickle", "pickle"},
                    ZooFormat{"joblib", "joblib"}, ZooFormat{"hdf5", "hdf5"}, ZooFormat{"hdf5-chunked", "hdf5"},
                    ZooFormat{"hdf5-latest", "hdf5"}, ZooFormat{"keras", "zip"}, ZooFormat{"keras-weights", "hdf5"},
                    ZooFormat{"sb3", "zip"}, ZooFormat{"gguf", "gguf"}, ZooFormat{"flax", "msgpack"},
                    ZooFormat{"hf-trainer", nullptr, Names::kPart}, ZooFormat{"lightning", "torch-zip"}),
    [](const auto& param) {
      std::string name = param.param.folder;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace stepfs::codec
