// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing the little-endian fields that everything on disk is made of: fixed-width integers, LEB128
// varints (7 bits a byte, least significant group first, at most 10 bytes), zigzag-coded signed varints and
// length-prefixed byte strings. Big-endian integers exist for index keys only, where byte order must be key order.
//
// ByteReader never reads outside its span: after the first field that does not fit, ok() is false for good and every
// further read gives zeroes, so a parser may read a whole record and check once.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace stepfs {

static_assert(std::endian::native == std::endian::little, "stepfs is written for little-endian machines");

template <std::integral T>
T LoadLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <std::integral T>
void StoreLittle(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

constexpr std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Appends fields to a string that it owns. Never fails (but for std::bad_alloc).
class ByteWriter {
 public:
  template <std::integral T>
  void Fixed(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }
  template <std::unsigned_integral T>
  void BigEndian(T value) {
    for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) bytes_.push_back(static_cast<char>(value >> shift));
  }
  void Varint(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void SignedVarint(std::int64_t value) { Varint(ZigZag(value)); }
  void Raw(Bytes bytes) { bytes_.append(AsText(bytes)); }
  void Raw(std::string_view text) { bytes_.append(text); }
  // Varint length, then the bytes.
  void String(std::string_view text) {
    Varint(text.size());
    bytes_.append(text);
  }

  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads fields from a span that must outlive it.
class ByteReader {
 public:
  explicit ByteReader(Bytes bytes) : rest_(bytes) {}
  explicit ByteReader(std::string_view text) : rest_(AsBytes(text)) {}

  template <std::integral T>
  T Fixed() {
    Bytes raw = Raw(sizeof(T));
    return raw.empty() ? T{0} : LoadLittle<T>(raw.data());
  }
  template <std::unsigned_integral T>
  T BigEndian() {
    T value = 0;
    for (std::byte b : Raw(sizeof(T))) value = static_cast<T>((value << 8) | std::to_integer<T>(b));
    return value;
  }
  // Refuses more than 10 bytes and bits beyond 64.
  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto b = std::to_integer<std::uint64_t>(rest_.front());
      if (shift == 63 && b > 1) break;
      rest_ = rest_.subspan(1);
      value |= (b & 0x7f) << shift;
      if (b < 0x80) return value;
    }
    Fail();
    return 0;
  }
  std::int64_t SignedVarint() { return UnZigZag(Varint()); }
  // The next `length` bytes, or an empty span and !ok() when there are fewer. A view into the source.
  Bytes Raw(std::uint64_t length) {
    if (length > rest_.size()) {
      Fail();
      return {};
    }
    Bytes taken = rest_.first(static_cast<std::size_t>(length));
    rest_ = rest_.subspan(static_cast<std::size_t>(length));
    return taken;
  }
  std::string_view String() { return AsText(Raw(Varint())); }

  bool ok() const { return ok_; }
  std::size_t remaining() const { return rest_.size(); }
  // True when every field was there and nothing is left over.
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  void Fail() {
    ok_ = false;
    rest_ = {};
  }

  Bytes rest_;
  bool ok_ = true;
};

}  // namespace stepfs
