// SPDX-License-Identifier: Apache-2.0
//
// Small files by the formats' own libraries (tests/golden/layout/make.py): whole, cut off anywhere, and with flipped
// bits. A damaged file may give fewer or wrong tensors, never an extent outside the file, a crash or a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "codec/layout/dtype.h"
#include "codec/layout/layout.h"
#include "codec/layout/layout_json.h"
#include "layout_test_util.h"

namespace stepfs::codec {
namespace {

using Json = nlohmann::json;

struct Golden {
  const char* file;
  const char* format;
  std::optional<std::int64_t> step;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.file; }

class LayoutGoldenTest : public testing::TestWithParam<Golden> {
 protected:
  LayoutGoldenTest() : bytes_(ReadFile(GoldenLayouts() / GetParam().file)) {}

  const std::string bytes_;
};

TEST_P(LayoutGoldenTest, TensorsAreWhereTheirBytesAre) {
  const Json expected = Json::parse(ReadFile(GoldenLayouts() / "expected.json")).at(GetParam().file);
  ASSERT_FALSE(expected.empty());
  const Layout layout = LayoutOf(bytes_);
  EXPECT_EQ(layout.format, GetParam().format);
  EXPECT_EQ(layout.step, GetParam().step);
  EXPECT_EQ(layout.compressed_by, "");
  ExpectSane(layout, bytes_.size());
  const Json found = Json::parse(LayoutToJson(layout));
  for (const Json& tensor : expected) EXPECT_THAT(found, testing::Contains(tensor));
}

TEST_P(LayoutGoldenTest, AnyPrefixIsParsedSafely) {
  for (std::size_t length = 0; length < bytes_.size(); ++length) {
    ExpectSane(LayoutOf(std::string_view(bytes_).substr(0, length)), length);
    ASSERT_FALSE(HasFailure()) << length;
  }
}

TEST_P(LayoutGoldenTest, AnyFlippedBitIsParsedSafely) {
  std::string damaged = bytes_;
  constexpr char kFlips[] = {'\x01', '\x08', '\x80', '\xff'};
  for (std::size_t at = 0; at < damaged.size(); ++at) {
    damaged[at] = static_cast<char>(bytes_[at] ^ kFlips[at % std::size(kFlips)]);
    ExpectSane(LayoutOf(damaged), damaged.size());
    damaged[at] = bytes_[at];
    ASSERT_FALSE(HasFailure()) << at;
  }
}

TEST_P(LayoutGoldenTest, FailureOfTheSourceComesBack) {
  struct Failing final : ByteSource {
    std::uint64_t size() const override { return bytes.size(); }
    Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
      if (reads++ == fail_at) return Status::FromErrno(EIO, "read");
      return MemorySource(AsBytes(bytes)).ReadAt(offset, out);
    }
    std::string_view bytes;
    mutable int reads = 0;
    int fail_at = 0;
  };
  Failing source;
  source.bytes = bytes_;
  for (bool failed = true; failed; ++source.fail_at) {
    source.reads = 0;
    const auto layout = DetectLayout(source);
    failed = source.reads > source.fail_at;
    EXPECT_EQ(layout.ok(), !failed) << "read " << source.fail_at;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LayoutGoldenTest,
                         testing::Values(Golden{"plain.safetensors", "safetensors", 1234},
                                         Golden{"zip.pt", "torch-zip", 77}, Golden{"zips.distcp", "torch-distcp", {}},
                                         Golden{"safetensors.distcp", "torch-distcp", {}},
                                         Golden{"legacy.pt", "torch-legacy", 77}, Golden{"array.npy", "npy", {}},
                                         Golden{"arrays.npz", "npz", {}}, Golden{"policy.zip", "zip", {}},
                                         Golden{"arrays.pkl", "pickle", 3}, Golden{"arrays4.pkl", "pickle", 12},
                                         Golden{"arrays.joblib", "joblib", 5}, Golden{"state.msgpack", "msgpack", 40},
                                         Golden{"model.gguf", "gguf", {}}, Golden{"model.onnx", "onnx", {}},
                                         Golden{"old.h5", "hdf5", {}}, Golden{"latest.h5", "hdf5", {}}),
                         [](const auto& param) {
                           std::string name = param.param.file;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace stepfs::codec
