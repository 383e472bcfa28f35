// SPDX-License-Identifier: Apache-2.0
#include "codec/lmc.h"

#include <gtest/gtest.h>

#include "codec/cpu.h"
#include "codec/lmc_samples.h"

namespace stepfs::codec {
namespace {

constexpr ElementType kElements[] = {ElementType::kUint8, ElementType::kBfloat16, ElementType::kFloat32,
                                     ElementType::kFloat64};
const LmcOptions kAllOptions[] = {
    {},
    {.subtract = true},
    {.group = false},
    {.subtract = true, .group = false},
    {.run_length = false},
    {.block_bytes = 256},
    {.block_bytes = 4096},
    {.subtract = true, .group = false, .run_length = false, .block_bytes = 1024},
};

ByteVector Encode(const LmcOptions& options, ElementType element, Bytes target, Bytes base) {
  const auto codec = NewLmcCodec(options);
  // What lies behind the encoded bytes is nobody's: a bound too small shows under the address sanitizer.
  ByteVector out(codec->MaxEncodedBytes(element, target.size()));
  const Result<std::size_t> size = codec->Encode(element, target, {base, {}}, out);
  EXPECT_TRUE(size.ok());
  EXPECT_LE(*size, out.size());
  out.resize(*size);
  return out;
}

Status Decode(ElementType element, Bytes encoded, Bytes base, ByteVector& target) {
  // A copy of exact size, for the same reason.
  const ByteVector exact(encoded.begin(), encoded.end());
  return LmcDecoder().Decode(element, exact, {base, {}}, target);
}

void ExpectRoundTrip(const LmcOptions& options, ElementType element, Bytes target, Bytes base) {
  const ByteVector encoded = Encode(options, element, target, base);
  ByteVector decoded(target.size(), std::byte{0xee});
  const Status status = Decode(element, encoded, base, decoded);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_TRUE(std::equal(target.begin(), target.end(), decoded.begin()));
}

TEST(LmcTest, RoundTripsEveryWidthOptionAndPattern) {
  for (std::size_t n : {std::size_t{1000}, std::size_t{70'003}}) {
    for (const Sample& sample : LmcSamples(n)) {
      for (ElementType element : kElements) {
        for (const LmcOptions& options : kAllOptions) {
          SCOPED_TRACE(sample.name + ", " + std::string(Name(element)) + ", " + std::to_string(n));
          ExpectRoundTrip(options, element, sample.target, sample.base);
          ExpectRoundTrip(options, element, sample.target, {});
        }
      }
    }
  }
}

TEST(LmcTest, RoundTripsSizesAroundEveryBoundary) {
  const ByteVector base = RandomBytes(530'000, 1);
  const ByteVector target = Noisy(base, 2);
  const std::size_t sizes[] = {0,       1,       2,       3,       4,       5,       7,       8,       9,
                               15,      16,      17,      31,      32,      33,      63,      64,      65,
                               255,     256,     257,     1023,    65'535,  65'536,  65'537,  131'071, 131'072,
                               131'073, 131'080, 262'143, 262'144, 262'150, 524'288, 524'289, 530'000};
  for (std::size_t n : sizes) {
    for (ElementType element : kElements) {
      SCOPED_TRACE(std::to_string(n) + " bytes of " + std::string(Name(element)));
      ExpectRoundTrip({}, element, Bytes(target).first(n), Bytes(base).first(n));
      ExpectRoundTrip({.subtract = true, .group = false}, element, Bytes(target).first(n), Bytes(base).first(n));
    }
  }
}

TEST(LmcTest, EveryCpuLevelGivesTheSameBytesBothWays) {
  for (const Sample& sample : LmcSamples(140'007)) {
    for (ElementType element : kElements) {
      for (const LmcOptions& options : {LmcOptions{}, LmcOptions{.subtract = true}, LmcOptions{.group = false}}) {
        SCOPED_TRACE(sample.name + ", " + std::string(Name(element)));
        ByteVector expected;
        for (CpuLevel level : SupportedCpuLevels()) {
          const ScopedCpuLevel scope(level);
          const ByteVector encoded = Encode(options, element, sample.target, sample.base);
          if (level == CpuLevel::kScalar) expected = encoded;
          EXPECT_EQ(encoded, expected) << Name(level);
          EXPECT_EQ(Encode(options, element, sample.target, sample.base), expected) << "the second time";
          ByteVector decoded(sample.target.size());
          ASSERT_TRUE(Decode(element, expected, sample.base, decoded).ok()) << Name(level);
          EXPECT_EQ(decoded, sample.target) << Name(level);
        }
      }
    }
  }
}

TEST(LmcTest, UnchangedChunkTakesAHandfulOfBytes) {
  const ByteVector base = RandomBytes(4 << 20, 1);
  EXPECT_LE(Encode({}, ElementType::kFloat32, base, base).size(), 8u);
  EXPECT_LE(Encode({.group = false}, ElementType::kFloat32, base, base).size(), 8u);
}

TEST(LmcTest, OneChangedElementCostsOnlyItsBlocks) {
  const ByteVector base = RandomBytes(1 << 20, 1);
  ByteVector target = base;
  target[777'777] ^= std::byte{0x40};
  EXPECT_LE(Encode({}, ElementType::kBfloat16, target, base).size(), 50u);
}

TEST(LmcTest, SparseChangeComesNearItsEntropy) {
  const ByteVector base = RandomBytes(1 << 20, 1);
  // One byte in 100: 0.081 bits for where, at most 3 bits for what.
  const double bound = (0.0808 + 0.03) * (1 << 20) / 8;
  EXPECT_LE(static_cast<double>(Encode({}, ElementType::kBfloat16, Changed(base, 100, 2), base).size()), 1.05 * bound);
}

TEST(LmcTest, RandomBytesGrowByLittle) {
  const ByteVector target = RandomBytes(1 << 20, 1);
  for (ElementType element : kElements) {
    EXPECT_LE(Encode({}, element, target, {}).size(), target.size() + 64) << Name(element);
  }
}

TEST(LmcTest, SubtractionBorrowsWithinAnElementOnly) {
  // 0x0100 - 0x00ff = 1: one small plane where XOR has 0x01ff.
  ByteVector target;
  ByteVector base;
  for (int i = 0; i < 4096; ++i) {
    target.insert(target.end(), {std::byte{0x00}, std::byte{0x01}});
    base.insert(base.end(), {std::byte{0xff}, std::byte{0x00}});
  }
  const ByteVector encoded = Encode({.subtract = true}, ElementType::kUint16, target, base);
  EXPECT_EQ(encoded, (ByteVector{std::byte{0x06}, std::byte{16}, std::byte{3}, std::byte{1}, std::byte{0}}));
}

TEST(LmcTest, RefusesTruncationAtEveryPrefix) {
  for (const Sample& sample : LmcSamples(3'001)) {
    for (ElementType element : {ElementType::kBfloat16, ElementType::kFloat32}) {
      const ByteVector encoded = Encode({.block_bytes = 512}, element, sample.target, sample.base);
      ByteVector decoded(sample.target.size());
      for (std::size_t length = 0; length < encoded.size(); ++length) {
        EXPECT_EQ(Decode(element, Bytes(encoded).first(length), sample.base, decoded).kind(), StatusKind::kCorruption)
            << sample.name << " cut to " << length << " of " << encoded.size();
      }
    }
  }
}

TEST(LmcTest, RefusesBytesBehindTheChunk) {
  for (const Sample& sample : LmcSamples(3'001)) {
    ByteVector encoded = Encode({}, ElementType::kBfloat16, sample.target, sample.base);
    encoded.push_back(std::byte{0});
    ByteVector decoded(sample.target.size());
    EXPECT_EQ(Decode(ElementType::kBfloat16, encoded, sample.base, decoded).kind(), StatusKind::kCorruption);
  }
}

TEST(LmcTest, FlippedBitsNeverReachOutsideTheBuffers) {
  std::size_t refused = 0;
  for (const Sample& sample : LmcSamples(1'203)) {
    for (CpuLevel level : SupportedCpuLevels()) {
      const ScopedCpuLevel scope(level);
      ByteVector encoded = Encode({}, ElementType::kBfloat16, sample.target, sample.base);
      ByteVector decoded(sample.target.size());
      for (std::size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
        encoded[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        const Status status = Decode(ElementType::kBfloat16, encoded, sample.base, decoded);
        if (!status.ok()) ++refused;
        EXPECT_TRUE(status.ok() || status.kind() == StatusKind::kCorruption ||
                    status.kind() == StatusKind::kUnsupported)
            << status.ToString();
        encoded[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      }
      ASSERT_TRUE(Decode(ElementType::kBfloat16, encoded, sample.base, decoded).ok());
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(LmcTest, NamesWhatIsWrongWithAHeader) {
  ByteVector decoded(8);
  const ByteVector base(8);
  const auto kind = [&](std::initializer_list<int> header, Bytes with_base) {
    ByteVector encoded;
    for (int b : header) encoded.push_back(static_cast<std::byte>(b));
    return Decode(ElementType::kBfloat16, encoded, with_base, decoded).kind();
  };
  EXPECT_EQ(kind({0x05, 16, 3, 0, 0}, base), StatusKind::kOk);
  EXPECT_EQ(kind({0x05, 16, 3, 0, 0}, {}), StatusKind::kCorruption) << "a delta without its base";
  EXPECT_EQ(kind({0x07, 16, 3, 0, 0}, base), StatusKind::kUnsupported) << "an unknown delta";
  EXPECT_EQ(kind({0x0d, 16, 3, 0, 0}, base), StatusKind::kUnsupported) << "an unknown flag";
  EXPECT_EQ(kind({0x05, 17, 3, 0, 0}, base), StatusKind::kCorruption) << "blocks too large";
  EXPECT_EQ(kind({0x05, 7, 3, 0, 0}, base), StatusKind::kCorruption) << "blocks too small";
  EXPECT_EQ(kind({0x05, 16, 7, 0, 0, 0}, base), StatusKind::kCorruption) << "three planes in two bytes";
}

}  // namespace
}  // namespace stepfs::codec
