// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "codec/layout/statistics.h"
#include "layout_test_util.h"

namespace stepfs::codec {
namespace {

// `count` numbers that look like weights: normal, of standard deviation 0.02.
template <typename T>
std::string Weights(std::size_t count, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.02);
  std::string bytes(count * sizeof(T), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(normal(random));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

std::string Bfloat16Weights(std::size_t count) {
  const std::string wide = Weights<float>(count);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += wide.substr(4 * i + 2, 2);
  return bytes;
}

// Cuts normal float32 values to fp16.
std::string Float16Weights(std::size_t count) {
  const std::string wide = Weights<float>(count);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, wide.data() + 4 * i, sizeof bits);
    const std::uint32_t exponent = std::max<std::uint32_t>((bits >> 23) & 0xff, 113) - 112;
    const std::uint32_t half = (bits >> 31 << 15) | (exponent << 10) | ((bits >> 13) & 0x3ff);
    bytes += static_cast<char>(half);
    bytes += static_cast<char>(half >> 8);
  }
  return bytes;
}

template <typename T>
std::string Integers(std::size_t count, T limit) {
  std::mt19937 random(2);
  std::string bytes(count * sizeof(T), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(random() % static_cast<std::uint64_t>(limit));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

std::string RandomBytes(std::size_t count) {
  std::mt19937 random(3);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

std::string Text(std::size_t count) {
  std::mt19937 random(4);
  constexpr std::string_view kWords[] = {"loss ", "step ", "0.125, ", "{\"epoch\": ", "3}\n", "learning_rate ", "= "};
  std::string text;
  while (text.size() < count) text += kWords[random() % std::size(kWords)];
  return text.substr(0, count);
}

TEST(StatisticsTest, FindsWidthAndTypeAtEveryPhase) {
  struct Case {
    ElementType element;
    std::string bytes;
  };
  for (std::size_t sample : {std::size_t{1024}, std::size_t{8192}}) {
    const Case cases[] = {
        {ElementType::kFloat32, Weights<float>(sample / 4 + 8)},
        {ElementType::kFloat64, Weights<double>(sample / 8 + 8)},
        {ElementType::kBfloat16, Bfloat16Weights(sample / 2 + 8)},
        {ElementType::kOpaque16, Float16Weights(sample / 2 + 8)},
        {ElementType::kOpaque32, Integers<std::uint32_t>(sample / 4 + 8, 50'000)},
        {ElementType::kOpaque64, Integers<std::uint64_t>(sample / 8 + 8, 50'000)},
        {ElementType::kOpaque16, Integers<std::uint16_t>(sample / 2 + 8, 1'000)},
    };
    for (const Case& c : cases) {
      const std::size_t width = Width(c.element);
      for (std::size_t cut = 0; cut < width; ++cut) {
        const auto guess = GuessElement(AsBytes(c.bytes).subspan(cut, sample));
        ASSERT_TRUE(guess) << Name(c.element) << " cut " << cut << " of " << sample;
        EXPECT_EQ(guess->element, c.element) << Name(c.element) << " cut " << cut << " of " << sample;
        EXPECT_EQ(guess->phase, (width - cut) % width) << Name(c.element) << " of " << sample;
      }
    }
  }
}

TEST(StatisticsTest, TextRandomAndCompressedBytesStayPlain) {
  const std::string text = Text(1 << 20);
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), text.data(), text.size(), 3));
  for (std::size_t sample : {std::size_t{512}, std::size_t{1024}, std::size_t{8192}}) {
    for (const std::string& bytes : {text, RandomBytes(1 << 20), compressed, std::string(1 << 16, '\0')}) {
      for (std::size_t at = 0; at + sample <= bytes.size(); at += sample + 1) {
        ASSERT_FALSE(GuessElement(AsBytes(bytes).subspan(at, sample))) << at << " of " << sample;
      }
    }
  }
}

TEST(StatisticsTest, TooSmallASampleSaysNothing) {
  EXPECT_FALSE(GuessElement(AsBytes(Weights<float>(100))));
  EXPECT_FALSE(GuessElement({}));
}

TEST(StatisticsTest, StretchesOfAFileAreToldApart) {
  const std::string file = Text(128 * 1024 + 3) + Weights<float>(200'000) + RandomBytes(256 * 1024) +
                           std::string(5, 'x') + Weights<float>(100'000);
  const Layout layout = LayoutOf(file);
  EXPECT_EQ(layout.format, "bytes");
  EXPECT_EQ(layout.fingerprint, Digest());
  ExpectSane(layout, file.size());
  std::uint64_t in_first = 0;
  std::uint64_t in_last = 0;
  const std::uint64_t first = 128 * 1024 + 3;
  const std::uint64_t last = file.size() - 400'000;
  for (const Tensor& tensor : layout.tensors) {
    EXPECT_EQ(tensor.element, ElementType::kFloat32);
    EXPECT_EQ(tensor.shape, std::vector<std::uint64_t>{tensor.extents[0].nbytes / 4});
    const std::uint64_t offset = tensor.extents[0].offset;
    EXPECT_EQ(offset % 4, offset < first + 800'000 ? first % 4 : last % 4);
    (offset < first + 800'000 ? in_first : in_last) += tensor.extents[0].nbytes;
  }
  EXPECT_GE(in_first, 800'000u - 64 * 1024);
  EXPECT_GE(in_last, 400'000u - 64 * 1024);
}

}  // namespace
}  // namespace stepfs::codec
