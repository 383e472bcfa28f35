// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/serial.h"
#include "codec/layout/dtype.h"
#include "layout_test_util.h"

namespace stepfs::codec {
namespace {

Tensor Simple(std::string name, std::uint64_t offset, std::uint64_t nbytes) {
  return MakeTensor(std::move(name), {ElementType::kFloat32, "float32", 4}, {nbytes / 4}, offset, nbytes);
}

std::vector<std::string> NamesOf(const Layout& layout) {
  std::vector<std::string> names;
  for (const Tensor& tensor : layout.tensors) names.push_back(tensor.name);
  return names;
}

TEST(NormalizeTest, DropsWhatCannotBe) {
  Layout layout;
  layout.tensors = {Simple("later", 80, 20),
                    Simple("overlaps", 88, 8),
                    Simple("first", 0, 40),
                    Simple("empty", 40, 0),
                    Simple("beyond", 96, 8),
                    Simple("far", ~std::uint64_t{0} - 3, 8),
                    Simple("huge", 4, ~std::uint64_t{0})};
  layout.tensors.push_back({});  // No extent.
  Normalize(100, layout);
  EXPECT_THAT(NamesOf(layout), testing::ElementsAre("first", "later"));
  ExpectSane(layout, 100);
}

TEST(NormalizeTest, AChunkedTensorIsKeptOrDroppedWhole) {
  Layout layout;
  Tensor chunked = Simple("chunked", 60, 20);
  chunked.extents.push_back({0, 20, {}});
  layout.tensors = {chunked, Simple("between", 20, 40)};
  Normalize(100, layout);
  EXPECT_THAT(NamesOf(layout), testing::ElementsAre("chunked", "between"));
  EXPECT_EQ(layout.tensors[0].extents[0].offset, 0u);
  layout.tensors[0].extents[1].nbytes = 41;
  Normalize(100, layout);
  EXPECT_THAT(NamesOf(layout), testing::ElementsAre("between"));
}

TEST(NormalizeTest, FingerprintKnowsTheModelNotThePlaces) {
  Layout layout;
  layout.tensors = {Simple("a", 0, 8), Simple("b", 8, 16)};
  Layout moved;
  moved.tensors = {Simple("b", 0, 16), Simple("a", 32, 8)};
  Normalize(100, layout);
  Normalize(200, moved);
  EXPECT_EQ(layout.fingerprint, moved.fingerprint);
  EXPECT_NE(layout.fingerprint, Digest());

  for (auto change : {+[](Tensor& t) { t.name = "c"; },
                      +[](Tensor& t) {
                        t.shape = {2, 2};
                      },
                      +[](Tensor& t) { t.element = ElementType::kInt32; }}) {
    Layout other = layout;
    change(other.tensors[1]);
    Normalize(100, other);
    EXPECT_NE(layout.fingerprint, other.fingerprint);
  }
  Layout none;
  Normalize(100, none);
  EXPECT_EQ(none.fingerprint, Digest());
}

TEST(DtypeTest, SizesAndNames) {
  EXPECT_EQ(TensorBytes({3, 5}, 4), 60u);
  EXPECT_EQ(TensorBytes({}, 4), 4u);
  EXPECT_EQ(TensorBytes({0, ~std::uint64_t{0}}, 4), 0u);
  EXPECT_EQ(TensorBytes({std::uint64_t{1} << 32, std::uint64_t{1} << 31}, 1), std::nullopt);
  EXPECT_EQ(DtypeFromNumpy("<f4")->element, ElementType::kFloat32);
  EXPECT_EQ(DtypeFromNumpy(">f4")->element, ElementType::kOpaque32);
  EXPECT_EQ(DtypeFromNumpy(">f4")->name, "float32");
  EXPECT_EQ(DtypeFromNumpy("|b1")->element, ElementType::kBool);
  EXPECT_EQ(DtypeFromNumpy("<c8")->item_bytes, 8u);
  EXPECT_FALSE(DtypeFromNumpy("<M8[ns]"));
  EXPECT_FALSE(DtypeFromNumpy(""));
  EXPECT_EQ(SafetensorsName("float8_e4m3fn"), "F8_E4M3");
  EXPECT_EQ(SafetensorsName("q8_0"), "Q8_0");
}

// A safetensors file with this header and `data_bytes` of zeros.
std::string Safetensors(std::string_view header, std::size_t data_bytes) {
  ByteWriter writer;
  writer.Fixed<std::uint64_t>(header.size());
  writer.Raw(header);
  return writer.Take() + std::string(data_bytes, '\0');
}

std::string Entry(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return '"' + std::string(name) + R"(":{"dtype":")" + std::string(dtype) + R"(","shape":[)" + std::string(shape) +
         R"(],"data_offsets":[)" + std::string(offsets) + "]}";
}

TEST(SafetensorsTest, LyingEntriesAreDroppedAndTheOthersKept) {
  const std::string good = Entry("good", "F32", "2,2", "0,16");
  for (const std::string& bad : {
           Entry("bad", "F32", "2,2", "8,24"),                     // Overlaps.
           Entry("bad", "F32", "5", "16,36"),                      // Ends beyond the file.
           Entry("bad", "F32", "2", "24,16"),                      // Backwards.
           Entry("bad", "F32", "3", "16,24"),                      // Shape and size differ.
           Entry("bad", "F32", "0", "16,16"),                      // Empty.
           Entry("bad", "F32", "4294967296,4294967296", "16,24"),  // Overflows.
           Entry("bad", "U8", "8", "18446744073709551608,18446744073709551615"),
           Entry("bad", "F32", "2", "16"),
       }) {
    const Layout layout = LayoutOf(Safetensors("{" + good + "," + bad + "}", 32));
    EXPECT_EQ(layout.format, "safetensors") << bad;
    EXPECT_THAT(NamesOf(layout), testing::ElementsAre("good")) << bad;
  }
}

TEST(SafetensorsTest, MalformedHeadersAreBytes) {
  const std::string good = Safetensors("{" + Entry("good", "F32", "2,2", "0,16") + "}", 16);
  ASSERT_EQ(LayoutOf(good).format, "safetensors");
  std::string lying = good;
  lying[7] = '\x7f';  // A header of 2^62 bytes.
  EXPECT_EQ(LayoutOf(lying).format, "bytes");
  const std::string deep(1 << 20, '[');
  for (const std::string& header :
       {std::string("{"), "{\"a\":" + deep, "{\"a\":{\"dtype\":" + deep, std::string(1 << 20, '{'),
        std::string(R"({"a":{"shape":[-1],"dtype":"F32","data_offsets":[0,4]}})"),
        std::string(R"({"a":{"shape":[1],"dtype":"F32","data_offsets":[0,4]}} x)"), std::string("{\"\xff\":{}}")}) {
    const Layout layout = LayoutOf(Safetensors(header, 16));
    EXPECT_EQ(layout.format, "bytes") << header.substr(0, 40);
    EXPECT_TRUE(layout.tensors.empty());
  }
}

TEST(SafetensorsTest, StepComesFromTheMetadata) {
  const auto step_of = [](std::string_view metadata) {
    return LayoutOf(Safetensors(R"({"__metadata__":{)" + std::string(metadata) + "}}", 0)).step;
  };
  EXPECT_EQ(step_of(R"("step":"12")"), 12);
  EXPECT_EQ(step_of(R"("epoch":"3","global_step":"40","format":"pt")"), 40);
  EXPECT_EQ(step_of(R"("global_step":"40","epoch":"3")"), 40);
  EXPECT_EQ(step_of(R"("step":"twelve")"), std::nullopt);
  EXPECT_EQ(step_of(R"("steps":"12")"), std::nullopt);
}

TEST(SafetensorsTest, GapsThatNoTensorCoversAreLookedAt) {
  std::string file = Safetensors("{" + Entry("small", "U8", "8", "0,8") + "}", 8);
  const std::size_t gap = file.size();
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const float value = 0.01f * static_cast<float>((i * 2'654'435'761u) % 10'007) / 10'007;
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const Layout layout = LayoutOf(file);
  ASSERT_EQ(layout.tensors.size(), 2u);
  EXPECT_EQ(layout.tensors[1].name, "");
  EXPECT_EQ(layout.tensors[1].element, ElementType::kFloat32);
  EXPECT_EQ(layout.tensors[1].extents[0].offset, gap);
  EXPECT_EQ(layout.tensors[1].extents[0].nbytes, 80'000u);
  // What statistics find does not make another model of it.
  EXPECT_EQ(layout.fingerprint, LayoutOf(file.substr(0, gap)).fingerprint);
}

TEST(CompressedTest, MagicsAreKnown) {
  const std::string rest(5000, 'x');
  using namespace std::string_literals;
  EXPECT_EQ(LayoutOf("\x1f\x8b\x08"s + rest).compressed_by, "gzip");
  EXPECT_EQ(LayoutOf("\x28\xb5\x2f\xfd"s + rest).compressed_by, "zstd");
  EXPECT_EQ(LayoutOf("\x04\x22\x4d\x18"s + rest).compressed_by, "lz4");
  EXPECT_EQ(LayoutOf("\xfd\x37zXZ\0"s + rest).compressed_by, "xz");
  EXPECT_EQ(LayoutOf("BZh91AY&SY"s + rest).compressed_by, "bzip2");
  EXPECT_EQ(LayoutOf("x\x9c"s + rest).compressed_by, "");  // Not random behind: no zlib.
  EXPECT_EQ(LayoutOf("text" + rest).compressed_by, "");
}

// Counts what a parser reads of a file.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(std::string_view bytes) : source_(AsBytes(bytes)) {}
  std::uint64_t size() const override { return source_.size(); }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    read_bytes += out.size();
    return source_.ReadAt(offset, out);
  }
  mutable std::uint64_t read_bytes = 0;

 private:
  MemorySource source_;
};

TEST(DetectLayoutTest, TensorDataIsNotRead) {
  const std::string file = Safetensors("{" + Entry("big", "U8", "16777216", "0,16777216") + "}", 16'777'216);
  const CountingSource source(file);
  const auto layout = DetectLayout(source);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->tensors.size(), 1u);
  EXPECT_LT(source.read_bytes, 64u * 1024);
}

TEST(DetectLayoutTest, EmptyAndTinyFilesAreBytes) {
  for (const char* bytes : {"", "x", "PK\x03\x04", "\x80\x02", "GGUF", "\x93NUMPY", "\x89HDF\r\n\x1a\n"}) {
    const Layout layout = LayoutOf(bytes);
    EXPECT_EQ(layout.format, "bytes") << bytes;
    EXPECT_TRUE(layout.tensors.empty()) << bytes;
  }
}

}  // namespace
}  // namespace stepfs::codec
