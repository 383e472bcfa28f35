// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "codec/cpu.h"
#include "codec/exponent_coder.h"

namespace stepfs::codec {
namespace {

std::vector<ElementType> AllElementTypes() {
  std::vector<ElementType> types;
  for (std::uint8_t i = 0; i < kElementTypeCount; ++i) types.push_back(*ElementTypeFromNumber(i));
  return types;
}

ByteVector Encode(ElementType element, Bytes target, Bytes base) {
  const auto codec = NewExponentCodec();
  ByteVector out(codec->MaxEncodedBytes(element, target.size()));
  const Result<std::size_t> size = codec->Encode(element, target, {base, {}}, out);
  EXPECT_TRUE(size.ok());
  out.resize(*size);
  return out;
}

Status Decode(ElementType element, Bytes encoded, Bytes base, MutableBytes target) {
  return ExponentDecoder().Decode(element, encoded, {base, {}}, target);
}

ExponentMethod MethodOf(const ByteVector& encoded) { return static_cast<ExponentMethod>(encoded.at(0)); }

void ExpectRoundTrip(ElementType element, Bytes target, Bytes base) {
  const ByteVector encoded = Encode(element, target, base);
  EXPECT_LE(encoded.size(), target.size() + 1);
  EXPECT_EQ(encoded, Encode(element, target, base)) << "not deterministic";
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    EXPECT_EQ(encoded, Encode(element, target, base)) << Name(level);
    ByteVector decoded(target.size(), std::byte{0xa5});
    const Status status = Decode(element, encoded, base, decoded);
    ASSERT_TRUE(status.ok()) << status.ToString() << " " << Name(element) << " " << Name(level);
    ASSERT_TRUE(std::equal(decoded.begin(), decoded.end(), target.begin())) << Name(element) << " " << Name(level);
  }
}

using Random = std::mt19937_64;

ByteVector RandomBytes(std::size_t size, Random& random) {
  ByteVector bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// Weights as training leaves them: normally distributed, in the upper bytes of `width`-byte floats.
ByteVector Weights(std::size_t count, std::size_t width, Random& random) {
  std::normal_distribution<float> normal(0.0f, 0.02f);
  ByteVector bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    std::uint64_t element = width >= 4 ? std::uint64_t{bits} << (8 * (width - 4)) : bits >> (8 * (4 - width));
    if (width == 8) element |= random() & 0xffffffffu;
    std::memcpy(bytes.data() + i * width, &element, width);
  }
  return bytes;
}

// A step of training: the elements, as integers, move by up to 2^spread, a share of them not at all.
ByteVector Moved(ByteVector bytes, std::size_t width, double changed, unsigned spread, Random& random) {
  std::bernoulli_distribution moves(changed);
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
    if (!moves(random)) continue;
    std::uint64_t element = 0;
    std::memcpy(&element, bytes.data() + i, width);
    const std::uint64_t step = 1 + (random() & ((std::uint64_t{1} << (random() % (spread + 1))) - 1));
    element += (random() & 1) != 0 ? step : 0 - step;
    std::memcpy(bytes.data() + i, &element, width);
  }
  return bytes;
}

TEST(ExponentTest, EveryElementTypeAndOddSizesRoundTrip) {
  Random random(1);
  for (ElementType element : AllElementTypes()) {
    const std::size_t width = Width(element);
    for (std::size_t size : {0, 1, 2, 3, 7, 8, 9, 31, 64, 65, 255, 1000, 4097, 40001}) {
      SCOPED_TRACE(std::string(Name(element)) + " " + std::to_string(size));
      const ByteVector noise = RandomBytes(size, random);
      ByteVector weights = Weights(size / width + 1, width, random);
      weights.resize(size);
      ExpectRoundTrip(element, noise, {});
      ExpectRoundTrip(element, weights, {});
      if (size == 0) continue;
      ExpectRoundTrip(element, noise, RandomBytes(size, random));
      ExpectRoundTrip(element, weights, weights);
      for (double changed : {0.001, 0.02, 0.1, 0.5, 1.0}) {
        for (unsigned spread : {0u, 3u, 6u}) {
          ExpectRoundTrip(element, Moved(weights, width, changed, spread, random), weights);
        }
      }
      ExpectRoundTrip(element, Moved(weights, width, 1.0, static_cast<unsigned>(8 * width - 2), random), weights);
    }
  }
}

TEST(ExponentTest, LargeChunksRoundTripInEveryMethod) {
  Random random(2);
  for (ElementType element : {ElementType::kBfloat16, ElementType::kFloat16, ElementType::kFloat32,
                              ElementType::kFloat64, ElementType::kInt32, ElementType::kFloat8E4M3}) {
    const std::size_t width = Width(element);
    const ByteVector base = Weights(100003, width, random);
    SCOPED_TRACE(Name(element));
    EXPECT_EQ(MethodOf(Encode(element, base, base)), ExponentMethod::kEqual);
    EXPECT_EQ(MethodOf(Encode(element, base, {})), ExponentMethod::kPlanes);
    ExpectRoundTrip(element, base, {});
    const ByteVector sparse = Moved(base, width, 0.003, 2, random);
    EXPECT_EQ(MethodOf(Encode(element, sparse, base)), ExponentMethod::kSparse);
    ExpectRoundTrip(element, sparse, base);
    const ByteVector dense = Moved(base, width, 0.6, 2, random);
    EXPECT_EQ(MethodOf(Encode(element, dense, base)), ExponentMethod::kDense);
    ExpectRoundTrip(element, dense, base);
    const ByteVector noise = RandomBytes(base.size(), random);
    EXPECT_EQ(MethodOf(Encode(element, noise, base)), ExponentMethod::kStored);
    ExpectRoundTrip(element, noise, base);
  }
}

// Signs, zeroes of both signs, denormals, infinities and NaNs, each against each.
TEST(ExponentTest, SpecialFloatsRoundTrip) {
  const std::vector<std::uint16_t> values = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f80, 0xff80, 0x7f81,
                                             0xffff, 0x7fff, 0x3f80, 0xbf80, 0x3f7f, 0x8080, 0x4000, 0xc000, 0x7c00};
  ByteVector target;
  ByteVector base;
  for (int repeat = 0; repeat < 9; ++repeat) {
    for (std::uint16_t t : values) {
      for (std::uint16_t b : values) {
        const auto* from_t = reinterpret_cast<const std::byte*>(&t);
        const auto* from_b = reinterpret_cast<const std::byte*>(repeat % 3 == 0 ? &b : &t);
        target.insert(target.end(), from_t, from_t + 2);
        base.insert(base.end(), from_b, from_b + 2);
      }
    }
  }
  for (ElementType element : AllElementTypes()) ExpectRoundTrip(element, target, base);
}

TEST(ExponentTest, OneChangeInAChunkCostsAFewBytes) {
  Random random(3);
  const ByteVector base = Weights(1 << 18, 2, random);
  ByteVector target = base;
  target[123456] ^= std::byte{1};
  EXPECT_LT(Encode(ElementType::kBfloat16, target, base).size(), 32u);
}

TEST(ExponentTest, EveryTruncationIsNoticed) {
  Random random(4);
  const ByteVector base = Weights(300, 2, random);
  const ByteVector sparse = Moved(Weights(4000, 2, random), 2, 0, 0, random);
  const struct {
    ByteVector target, base;
  } cases[] = {{Moved(base, 2, 0.7, 3, random), base},
               {Moved(sparse, 2, 0.01, 2, random), sparse},
               {Weights(300, 2, random), {}},
               {base, base},
               {RandomBytes(100, random), {}}};
  for (const auto& c : cases) {
    const ByteVector encoded = Encode(ElementType::kBfloat16, c.target, c.base);
    ByteVector decoded(c.target.size());
    for (std::size_t length = 0; length < encoded.size(); ++length) {
      // A copy of exactly that length, so that a sanitizer sees a read behind it.
      const ByteVector prefix(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_EQ(Decode(ElementType::kBfloat16, prefix, c.base, decoded).kind(), StatusKind::kCorruption) << length;
    }
    ByteVector longer = encoded;
    longer.push_back(std::byte{0});
    EXPECT_EQ(Decode(ElementType::kBfloat16, longer, c.base, decoded).kind(), StatusKind::kCorruption);
  }
}

TEST(ExponentTest, FlippedBitsNeverCrash) {
  Random random(5);
  for (ElementType element :
       {ElementType::kBfloat16, ElementType::kFloat32, ElementType::kInt64, ElementType::kFloat8E5M2}) {
    const std::size_t width = Width(element);
    const ByteVector base = Weights(700, width, random);
    for (double changed : {0.01, 0.1, 0.9}) {
      const ByteVector target = Moved(base, width, changed, 3, random);
      for (const Bytes reference : {Bytes(base), Bytes()}) {
        ByteVector encoded = Encode(element, target, reference);
        ByteVector decoded(target.size());
        for (std::size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
          encoded[bit / 8] ^= std::byte{1} << (bit % 8);
          const Status status = Decode(element, encoded, reference, decoded);
          EXPECT_TRUE(status.ok() || status.kind() == StatusKind::kCorruption ||
                      status.kind() == StatusKind::kUnsupported);
          encoded[bit / 8] ^= std::byte{1} << (bit % 8);
        }
      }
    }
  }
}

TEST(ExponentTest, DeltaMethodsWithoutABaseAreRefused) {
  Random random(6);
  const ByteVector base = Weights(5000, 2, random);
  for (double changed : {0.0, 0.01, 0.9}) {
    const ByteVector encoded = Encode(ElementType::kBfloat16, Moved(base, 2, changed, 2, random), base);
    ByteVector decoded(base.size());
    EXPECT_EQ(Decode(ElementType::kBfloat16, encoded, {}, decoded).kind(), StatusKind::kCorruption);
  }
}

TEST(ExponentTest, UselessBasesAreNotUsed) {
  Random random(7);
  const ByteVector base = Weights(1 << 17, 2, random);
  const ByteVector target = Weights(1 << 17, 2, random);
  EXPECT_EQ(MethodOf(Encode(ElementType::kBfloat16, target, base)), ExponentMethod::kPlanes);
  EXPECT_GT(EstimateExponentBits(ElementType::kBfloat16, target, base) * 101,
            EstimateExponentBits(ElementType::kBfloat16, target, {}) * 100);
}

TEST(ExponentTest, EstimatesAreCloseToSizes) {
  Random random(8);
  const ByteVector base = Weights(1 << 18, 2, random);
  for (double changed : {0.02, 0.3, 1.0}) {
    const ByteVector target = Moved(base, 2, changed, 4, random);
    for (const Bytes reference : {Bytes(base), Bytes()}) {
      const auto bits = static_cast<double>(EstimateExponentBits(ElementType::kBfloat16, target, reference));
      const auto size = static_cast<double>(8 * Encode(ElementType::kBfloat16, target, reference).size());
      EXPECT_NEAR(bits / size, 1.0, 0.1) << changed;
    }
  }
  EXPECT_EQ(EstimateExponentBits(ElementType::kBfloat16, base, base), 0u);
  EXPECT_EQ(EstimateExponentBits(ElementType::kBfloat16, {}, {}), 0u);
}

}  // namespace
}  // namespace stepfs::codec
