// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

namespace stepfs {
namespace {

TEST(HashTest, MatchesPublishedVectorOfTheEmptyInput) {
  EXPECT_EQ(Hash64(Bytes{}), 0x2d06800538d394c2u);
  EXPECT_EQ(Hash128(Bytes{}).ToHex(), "99aa06d3014798d86001c324468d497f");
}

TEST(HashTest, PiecesGiveTheDigestOfTheWhole) {
  std::string text(100'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{65'536}, text.size()}) {
    DigestBuilder builder;
    builder.Update(AsBytes(text).first(cut));
    builder.Update(AsBytes(text).subspan(cut));
    EXPECT_EQ(builder.Finish(), Hash128(AsBytes(text))) << cut;
  }
}

TEST(HashTest, DigestTextRoundTripsAndRefusesOtherText) {
  const Digest digest = Hash128(AsBytes("stepfs"));
  EXPECT_EQ(Digest::FromString(digest.ToString()), digest);
  EXPECT_EQ(Digest::FromString(digest.ToHex()), digest);
  EXPECT_FALSE(Digest::FromString(digest.ToHex().substr(1)));
  EXPECT_FALSE(Digest::FromString("xxh3-128:" + std::string(32, 'g')));
  EXPECT_FALSE(Digest::FromString(""));
}

}  // namespace
}  // namespace stepfs
