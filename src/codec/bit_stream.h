// SPDX-License-Identifier: Apache-2.0
//
// Bit streams, least significant bit first: the first bit written is bit 0 of the first byte. The last byte is filled
// with zero bits.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace stepfs::codec {

constexpr std::uint64_t LowBits(std::uint64_t value, unsigned count) {
  return count >= 64 ? value : value & ((std::uint64_t{1} << count) - 1);
}

// Writes to memory that the caller has sized: Finish() leaves (bits + 7) / 8 bytes, and up to 7 bytes behind them may
// be overwritten with zeroes.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : begin_(out), out_(out) {}

  // REQUIRES: count <= 56.
  void Write(std::uint64_t value, unsigned count) { WriteClean(LowBits(value, count), count); }
  // The same for a value that has no more than `count` bits.
  void WriteClean(std::uint64_t value, unsigned count) {
    pending_ |= value << pending_bits_;
    pending_bits_ += count;
    std::memcpy(out_, &pending_, sizeof pending_);
    out_ += pending_bits_ / 8;
    pending_ >>= pending_bits_ & ~7u;
    pending_bits_ %= 8;
  }
  // Any count up to 64.
  void WriteLong(std::uint64_t value, unsigned count) {
    if (count > 32) {
      Write(value, 32);
      value >>= 32;
      count -= 32;
    }
    Write(value, count);
  }
  // `count` zero bits and a one bit.
  void WriteUnary(std::uint64_t count) {
    for (; count >= 48; count -= 48) Write(0, 48);
    Write(std::uint64_t{1} << count, static_cast<unsigned>(count) + 1);
  }

  std::size_t Finish() const { return static_cast<std::size_t>(out_ - begin_) + (pending_bits_ + 7) / 8; }

 private:
  std::byte* begin_;
  std::byte* out_;
  std::uint64_t pending_ = 0;  // Bits at out_ that do not fill a byte yet; fewer than 8 between calls.
  unsigned pending_bits_ = 0;
};

// Reads a span that must outlive it. Bits behind the end read as zero and make ok() false for good.
class BitReader {
 public:
  explicit BitReader(Bytes bytes) : bytes_(bytes), end_bits_(std::uint64_t{bytes.size()} * 8) {}

  // At least 57 bits from here on, the next one lowest; zeroes behind the end.
  std::uint64_t Window() const {
    const std::uint64_t first = position_ / 8;
    std::uint64_t window = 0;
    if (first + 8 <= bytes_.size()) {
      std::memcpy(&window, bytes_.data() + first, 8);
    } else if (first < bytes_.size()) {
      std::memcpy(&window, bytes_.data() + first, bytes_.size() - static_cast<std::size_t>(first));
    }
    return window >> (position_ % 8);
  }
  // The next `count` bits without taking them; zeroes behind the end. REQUIRES: count <= 56.
  std::uint64_t Peek(unsigned count) const { return LowBits(Window(), count); }
  void Skip(std::uint64_t count) { position_ += count; }
  // REQUIRES: count <= 56.
  std::uint64_t Read(unsigned count) {
    const std::uint64_t value = Peek(count);
    position_ += count;
    return value;
  }
  // Any count up to 64.
  std::uint64_t ReadLong(unsigned count) {
    if (count <= 32) return Read(count);
    const std::uint64_t low = Read(32);
    return low | Read(count - 32) << 32;
  }
  // The zero bits before the next one bit, which is taken too. At most `limit`; more is an error.
  std::uint64_t ReadUnary(std::uint64_t limit) {
    std::uint64_t zeroes = 0;
    while (ok()) {
      const std::uint64_t window = Peek(48);
      if (window != 0) {
        const auto run = static_cast<unsigned>(__builtin_ctzll(window));
        position_ += run + 1;
        zeroes += run;
        break;
      }
      position_ += 48;
      zeroes += 48;
      if (zeroes > limit) break;
    }
    if (zeroes > limit) position_ = end_bits_ + 1;
    return ok() ? zeroes : 0;
  }

  bool ok() const { return position_ <= end_bits_; }
  std::uint64_t position() const { return position_; }
  // Bytes that were touched, the started one included. REQUIRES: ok().
  std::size_t BytesUsed() const { return static_cast<std::size_t>((position_ + 7) / 8); }
  // True when all bytes were used and the bits that fill the last one are zero.
  bool AtEnd() const { return ok() && BytesUsed() == bytes_.size() && Peek(8) == 0; }

  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  Bytes bytes_;
  std::uint64_t end_bits_;
  std::uint64_t position_ = 0;
};

}  // namespace stepfs::codec
