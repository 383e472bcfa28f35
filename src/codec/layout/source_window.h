// SPDX-License-Identifier: Apache-2.0
//
// SourceWindow: a forward reader over a range of a ByteSource, for parsers of foreign headers. It hands out views of a
// small buffer, skips over tensor data without reading it, and has a budget of bytes it will read, so that a parser
// that reads through it is bounded in memory and in time whatever the file says.
//
// After the first field that does not fit (end of the range, budget spent, read failure) ok() is false for good and
// every further field is zero or empty: a parser may read a whole record and check once.
#pragma once

#include <cstdint>
#include <optional>

#include "base/byte_source.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/serial.h"

namespace stepfs::codec {

// The largest header, directory or pickle that layout parsers look at.
inline constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{64} << 20;

class SourceWindow {
 public:
  // Reads source[begin, end-1]; `end` is cut to the size of the source, which must outlive the window.
  explicit SourceWindow(const ByteSource& source, std::uint64_t begin = 0, std::uint64_t end = ~std::uint64_t{0},
                        std::uint64_t budget = kMaxHeaderBytes);

  // The next `length` bytes; the view lives until the next call. Empty when they are not there.
  Bytes Take(std::uint64_t length);
  template <std::integral T>
  T Fixed() {
    const Bytes raw = Take(sizeof(T));
    return raw.empty() ? T{0} : LoadLittle<T>(raw.data());
  }
  // The bytes before the next '\n', which is taken too. Fails beyond `limit` bytes.
  Bytes Line(std::uint64_t limit);
  void Skip(std::uint64_t length);
  // To an absolute offset in the source, inside the range.
  void Seek(std::uint64_t offset);
  // Makes ok() false: the caller found the bytes malformed.
  void Fail() { ok_ = false; }

  bool ok() const { return ok_; }
  // Not ok when the source itself failed; a malformed file leaves it ok.
  const Status& failure() const { return failure_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t remaining() const { return end_ - position_; }

 private:
  bool Fill(std::uint64_t length);

  const ByteSource& source_;
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t position_;
  std::uint64_t budget_;
  std::uint64_t buffer_begin_ = 0;
  ByteVector buffer_;
  bool ok_ = true;
  Status failure_;
};

// What a parser answers that could not go on: the failure of the source, or nothing when the bytes were malformed.
template <typename T>
Result<std::optional<T>> NothingFrom(const SourceWindow& window) {
  if (!window.failure().ok()) return window.failure();
  return std::optional<T>();
}

// A range of another source, as a source of its own: the member of an archive. The other source must outlive it.
class SubSource final : public ByteSource {
 public:
  // REQUIRES: [offset, offset + length) lies inside `source`.
  SubSource(const ByteSource& source, std::uint64_t offset, std::uint64_t length)
      : source_(source), offset_(offset), length_(length) {}
  std::uint64_t size() const override { return length_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    if (offset > length_ || out.size() > length_ - offset) {
      return Status::InvalidArgument("read beyond the end of a part of a source");
    }
    return source_.ReadAt(offset_ + offset, out);
  }

 private:
  const ByteSource& source_;
  std::uint64_t offset_;
  std::uint64_t length_;
};

}  // namespace stepfs::codec
