// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/source_window.h"

#include <algorithm>

namespace stepfs::codec {
namespace {

constexpr std::uint64_t kBufferBytes = 4 * 1024;

}  // namespace

SourceWindow::SourceWindow(const ByteSource& source, std::uint64_t begin, std::uint64_t end, std::uint64_t budget)
    : source_(source),
      begin_(std::min(begin, source.size())),
      end_(std::max(begin_, std::min(end, source.size()))),
      position_(begin_),
      budget_(budget) {}

bool SourceWindow::Fill(std::uint64_t length) {
  if (!ok_ || length > remaining() || length > budget_) {
    ok_ = false;
    return false;
  }
  const bool buffered = position_ >= buffer_begin_ && position_ - buffer_begin_ <= buffer_.size() &&
                        length <= buffer_.size() - (position_ - buffer_begin_);
  if (buffered) return true;
  buffer_.resize(static_cast<std::size_t>(std::min(std::max(length, kBufferBytes), remaining())));
  buffer_begin_ = position_;
  if (Status status = source_.ReadAt(position_, buffer_); !status.ok()) {
    failure_ = std::move(status);
    ok_ = false;
    buffer_.clear();
  }
  return ok_;
}

Bytes SourceWindow::Take(std::uint64_t length) {
  if (!Fill(length)) return {};
  const Bytes taken =
      Bytes(buffer_).subspan(static_cast<std::size_t>(position_ - buffer_begin_), static_cast<std::size_t>(length));
  position_ += length;
  budget_ -= length;
  return taken;
}

Bytes SourceWindow::Line(std::uint64_t limit) {
  limit = std::min({limit, remaining(), budget_});
  std::uint64_t length = 0;
  for (std::uint64_t look = 64; ok_; look *= 2) {
    look = std::min(look, limit);
    if (!Fill(look)) return {};
    const auto* from = buffer_.data() + (position_ - buffer_begin_);
    while (length < look && from[length] != std::byte{'\n'}) ++length;
    if (length < look) return Take(length + 1).first(static_cast<std::size_t>(length));
    if (look == limit) ok_ = false;
  }
  return {};
}

void SourceWindow::Skip(std::uint64_t length) {
  if (length > remaining()) ok_ = false;
  if (ok_) position_ += length;
}

void SourceWindow::Seek(std::uint64_t offset) {
  if (offset < begin_ || offset > end_) ok_ = false;
  if (ok_) position_ = offset;
}

}  // namespace stepfs::codec
