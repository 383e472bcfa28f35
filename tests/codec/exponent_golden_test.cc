// SPDX-License-Identifier: Apache-2.0
//
// Chunks kept as files in golden/v1/exponent must decode for ever. manifest.txt lists them: name, element type number,
// method, whether there is a base.
//
// STEPFS_WRITE_GOLDEN=1 writes those that do not exist yet, and never replaces one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "codec/exponent.h"
#include "codec/exponent_coder.h"

namespace stepfs::codec {
namespace {

std::string Path(const std::string& name) { return STEPFS_TEST_SOURCE_DIR "/golden/v1/exponent/" + name; }

ByteVector ReadFile(const std::string& name) {
  std::ifstream in(Path(name), std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Bytes bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

void WriteFile(const std::string& name, Bytes bytes) { std::ofstream(Path(name), std::ios::binary) << AsText(bytes); }

struct Writer {
  std::mt19937_64 random{20};
  std::ofstream manifest;

  // Elements whose upper 32 bits are floats of a few magnitudes, with `zeroes` of 8 elements zero.
  ByteVector Weights(std::size_t count, std::size_t width, unsigned zeroes) {
    ByteVector bytes(count * width);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t element = random() >> 1 >> 6;
      const auto magnitude = static_cast<unsigned>(__builtin_ctzll(random() | 256));
      element |= std::uint64_t{0x3d0u - 8 * magnitude} << 52;  // A double of about 2^-(8 * magnitude) ...
      element = (element << 1) >> 1 | (random() << 63);
      element >>= 64 - 8 * width;
      if (random() % 8 < zeroes) element = 0;
      std::memcpy(bytes.data() + i * width, &element, width);
    }
    return bytes;
  }

  ByteVector Moved(ByteVector bytes, std::size_t width, unsigned percent, unsigned bits) {
    for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
      if (random() % 1000 >= percent * 10u) continue;
      std::uint64_t element = 0;
      std::memcpy(&element, bytes.data() + i, width);
      const std::uint64_t step = 1 + (random() >> 1 >> (63 - random() % (bits + 1)));
      element += random() % 2 != 0 ? step : 0 - step;
      std::memcpy(bytes.data() + i, &element, width);
    }
    return bytes;
  }

  void Write(const std::string& name, ElementType element, Bytes target, Bytes base) {
    if (std::filesystem::exists(Path(name + ".bin"))) return;
    const auto codec = NewExponentCodec();
    ByteVector out(codec->MaxEncodedBytes(element, target.size()));
    const std::size_t size = *codec->Encode(element, target, {base, {}}, out);
    WriteFile(name + ".bin", Bytes(out).first(size));
    WriteFile(name + ".target", target);
    if (!base.empty()) WriteFile(name + ".base", base);
    manifest << name << ' ' << static_cast<int>(element) << ' ' << std::to_integer<int>(out[0]) << ' ' << !base.empty()
             << '\n';
  }
};

void WriteMissing() {
  std::filesystem::create_directories(Path(""));
  Writer w;
  w.manifest.open(Path("manifest.txt"), std::ios::app);
  for (ElementType element :
       {ElementType::kBfloat16, ElementType::kFloat16, ElementType::kFloat32, ElementType::kFloat64,
        ElementType::kFloat8E4M3, ElementType::kInt32, ElementType::kUint16, ElementType::kPacked4}) {
    const std::string name(Name(element));
    const std::size_t width = Width(element);
    ByteVector base = w.Weights(1500, width, 0);
    ByteVector target = w.Moved(base, width, 60, static_cast<unsigned>(2 * width + 1));
    for (ByteVector* tailed : {&base, &target}) tailed->insert(tailed->end(), width - 1, std::byte{0x5a});
    w.Write(name + "-dense", element, target, base);
    w.Write(name + "-sparse", element, w.Moved(base, width, 2, 3), base);
    w.Write(name + "-alone", element, target, {});
  }
  const ByteVector base = w.Weights(12000, 2, 0);
  w.Write("many-lanes", ElementType::kBfloat16, w.Moved(base, 2, 95, 9), base);
  w.Write("few-changes", ElementType::kBfloat16, w.Moved(base, 2, 1, 3), base);
  w.Write("many-lanes-alone", ElementType::kBfloat16, base, {});
  w.Write("equal", ElementType::kBfloat16, Bytes(base).first(401), Bytes(base).first(401));
  w.Write("zeroes", ElementType::kFloat32, w.Weights(900, 4, 6), {});
  ByteVector noise(100);
  for (std::byte& b : noise) b = static_cast<std::byte>(w.random());
  w.Write("stored", ElementType::kFloat32, noise, {});
  w.Write("empty", ElementType::kFloat32, {}, {});
}

TEST(ExponentGoldenTest, Version1Decodes) {
  if (std::getenv("STEPFS_WRITE_GOLDEN") != nullptr) WriteMissing();
  std::ifstream manifest(Path("manifest.txt"));
  std::string name;
  int element_number = 0;
  int method = 0;
  bool has_base = false;
  std::set<int> methods;
  while (manifest >> name >> element_number >> method >> has_base) {
    SCOPED_TRACE(name);
    const ByteVector encoded = ReadFile(name + ".bin");
    const ByteVector expected = ReadFile(name + ".target");
    const ByteVector base = has_base ? ReadFile(name + ".base") : ByteVector();
    const ElementType element = *ElementTypeFromNumber(static_cast<std::uint8_t>(element_number));
    ByteVector decoded(expected.size());
    const Status status = ExponentDecoder().Decode(element, encoded, {base, {}}, decoded);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(decoded, expected);
    EXPECT_EQ(std::to_integer<int>(encoded.at(0)), method);
    methods.insert(method);
  }
  EXPECT_EQ(methods, (std::set<int>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace stepfs::codec
