// SPDX-License-Identifier: Apache-2.0
#include "base/serial.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/result.h"

namespace stepfs {
namespace {

TEST(SerialTest, FieldsRoundTrip) {
  ByteWriter writer;
  writer.Fixed<std::uint32_t>(0xdeadbeef);
  writer.BigEndian<std::uint64_t>(42);
  writer.Varint(std::numeric_limits<std::uint64_t>::max());
  writer.SignedVarint(std::numeric_limits<std::int64_t>::min());
  writer.SignedVarint(-1);
  writer.String("name");
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Fixed<std::uint32_t>(), 0xdeadbeef);
  EXPECT_EQ(reader.BigEndian<std::uint64_t>(), 42u);
  EXPECT_EQ(reader.Varint(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(reader.SignedVarint(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reader.SignedVarint(), -1);
  EXPECT_EQ(reader.String(), "name");
  EXPECT_TRUE(reader.AtEnd());
}

TEST(SerialTest, EveryTruncationIsNoticed) {
  ByteWriter writer;
  writer.Varint(1u << 20);
  writer.Fixed<std::uint64_t>(7);
  writer.String("payload");
  const std::string bytes = writer.Take();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ByteReader reader(std::string_view(bytes).substr(0, length));
    reader.Varint();
    reader.Fixed<std::uint64_t>();
    reader.String();
    EXPECT_FALSE(reader.ok()) << length;
    EXPECT_FALSE(reader.AtEnd()) << length;
  }
}

TEST(SerialTest, RefusesVarintsBeyond64Bits) {
  EXPECT_FALSE([] {
    ByteReader reader(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
    reader.Varint();
    return reader.ok();
  }());
  EXPECT_FALSE([] {
    ByteReader reader(std::string_view("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11));
    reader.Varint();
    return reader.ok();
  }());
}

TEST(SerialTest, LengthBeyondTheEndIsRefusedWithoutOverflow) {
  ByteReader reader(std::string_view("abc"));
  EXPECT_TRUE(reader.Raw(std::numeric_limits<std::uint64_t>::max()).empty());
  EXPECT_FALSE(reader.ok());
}

Result<int> Half(int value) {
  if (value % 2 != 0) return Status::InvalidArgument("odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  STEPFS_ASSIGN_OR_RETURN(const int half, Half(value));
  STEPFS_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(ResultTest, FailureLeavesThroughTheMacros) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(Quarter(6).status().WithContext("quarter").message(), "quarter: odd");
}

TEST(StatusTest, KindsMapToErrno) {
  EXPECT_EQ(Status::Ok().ToErrno(), 0);
  EXPECT_EQ(Status::Corruption("x").ToErrno(), EIO);
  EXPECT_EQ(Status::FromErrno(ENOSPC, "write").kind(), StatusKind::kNoSpace);
  EXPECT_EQ(Status::FromErrno(EACCES, "open").ToErrno(), EACCES);
  EXPECT_EQ(Status::FromErrno(0, "odd").ToErrno(), EIO);
  EXPECT_EQ(Status::Posix(ENOTEMPTY).ToErrno(), ENOTEMPTY);
}

}  // namespace
}  // namespace stepfs
