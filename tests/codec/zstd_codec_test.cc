// SPDX-License-Identifier: Apache-2.0
#include "codec/zstd_codec.h"

#include <gtest/gtest.h>

#include "support/frame_fixtures.h"

namespace stepfs::codec {
namespace {

using testing::AppendRandom;
using testing::AppendText;
using testing::Random;

class ZstdCodecTest : public ::testing::Test {
 protected:
  ByteVector Encode(Bytes target, Bytes base = {}) {
    ByteVector out(codec_->MaxEncodedBytes(ElementType::kBytes, target.size()));
    const auto bytes = codec_->Encode(ElementType::kBytes, target, {.base = base, .context = {}}, out);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    out.resize(bytes.value_or(0));
    return out;
  }
  Status Decode(Bytes encoded, Bytes base, ByteVector& target) {
    return codec_->Decode(ElementType::kBytes, encoded, {.base = base, .context = {}}, target);
  }

  Random random_{1};
  std::unique_ptr<ChunkCodec> codec_ = NewZstdCodec();
};

TEST_F(ZstdCodecTest, RoundTripsEveryLength) {
  for (const std::size_t bytes : {0u, 1u, 2u, 3u, 100u, 4095u, 65537u, 600000u}) {
    ByteVector target;
    AppendText(random_, bytes, target);
    ByteVector decoded(bytes);
    ASSERT_TRUE(Decode(Encode(target), {}, decoded).ok()) << bytes;
    EXPECT_EQ(decoded, target);
  }
}

TEST_F(ZstdCodecTest, BaseOfAnyLengthIsAPrefix) {
  ByteVector base;
  AppendRandom(random_, 3000000, base);
  for (const std::size_t begin : {0u, 1u, 1000000u, 2500000u}) {
    ByteVector target(base.begin() + static_cast<std::ptrdiff_t>(begin),
                      base.begin() + static_cast<std::ptrdiff_t>(begin + 400000));
    target[200000] ^= std::byte{1};
    const ByteVector encoded = Encode(target, base);
    EXPECT_LT(encoded.size(), 400u) << "what the base holds must cost next to nothing";
    ByteVector decoded(target.size());
    ASSERT_TRUE(Decode(encoded, base, decoded).ok());
    EXPECT_EQ(decoded, target);
  }
}

TEST_F(ZstdCodecTest, PlaceOfBuffersDoesNotShow) {
  // The target right behind its base in one buffer, then both elsewhere.
  ByteVector both;
  AppendText(random_, 50000, both);
  const Bytes base = Bytes(both).first(20000);
  const Bytes target = Bytes(both).subspan(20000);
  const ByteVector base_copy(base.begin(), base.end());
  const ByteVector target_copy(target.begin(), target.end());
  EXPECT_EQ(Encode(target, base), Encode(target_copy, base_copy));
}

TEST_F(ZstdCodecTest, EarlierCallsDoNotShow) {
  ByteVector target;
  AppendText(random_, 70000, target);
  const ByteVector first = Encode(target);
  ByteVector other;
  AppendText(random_, 300000, other);
  Encode(other, target);
  EXPECT_EQ(Encode(target), first);
}

TEST_F(ZstdCodecTest, RefusesTruncatedAndExtendedInput) {
  ByteVector target;
  AppendText(random_, 3000, target);
  ByteVector encoded = Encode(target);
  ByteVector decoded(target.size());
  for (std::size_t bytes = 0; bytes < encoded.size(); ++bytes) {
    EXPECT_EQ(Decode(Bytes(encoded).first(bytes), {}, decoded).kind(), StatusKind::kCorruption) << bytes;
  }
  encoded.push_back(std::byte{0});
  EXPECT_EQ(Decode(encoded, {}, decoded).kind(), StatusKind::kCorruption);
  encoded.pop_back();
  const ByteVector twice = [&] {
    ByteVector frames = encoded;
    frames.insert(frames.end(), encoded.begin(), encoded.end());
    return frames;
  }();
  ByteVector room(2 * target.size());
  EXPECT_EQ(Decode(twice, {}, room).kind(), StatusKind::kCorruption) << "two zstd frames are not one";
}

TEST_F(ZstdCodecTest, RefusesAnotherDecodedSize) {
  ByteVector target;
  AppendText(random_, 3000, target);
  const ByteVector encoded = Encode(target);
  ByteVector shorter(target.size() - 1);
  ByteVector longer(target.size() + 1);
  EXPECT_EQ(Decode(encoded, {}, shorter).kind(), StatusKind::kCorruption);
  EXPECT_EQ(Decode(encoded, {}, longer).kind(), StatusKind::kCorruption);
}

TEST_F(ZstdCodecTest, SurvivesEveryFlippedBit) {
  ByteVector base;
  AppendText(random_, 1000, base);
  ByteVector target = base;
  AppendText(random_, 500, target);
  const ByteVector encoded = Encode(target, base);
  for (std::size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    ByteVector damaged = encoded;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    ByteVector decoded(target.size());
    const Status status = Decode(damaged, base, decoded);
    EXPECT_TRUE(status.ok() || status.kind() == StatusKind::kCorruption) << status.ToString();
  }
}

}  // namespace
}  // namespace stepfs::codec
