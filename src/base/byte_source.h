// SPDX-License-Identifier: Apache-2.0
//
// ByteSource: anything that can be read at an offset and knows its size (a staging file, a decoded version, memory).
// ByteSink: anything bytes can be appended to. Interfaces only; no I/O happens here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"

namespace stepfs {

// Implementations must allow ReadAt from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `out` with the bytes [offset, offset + out.size()). kInvalidArgument when that range is not inside the source;
  // kIo or kCorruption when the bytes cannot be had. On failure the content of `out` is unspecified.
  virtual Status ReadAt(std::uint64_t offset, MutableBytes out) const = 0;
};

// A view of memory that must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(Bytes bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return Status::InvalidArgument("read beyond the end of a memory source");
    }
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  Bytes bytes_;
};

// Used by one thread at a time.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status Append(Bytes bytes) = 0;
};

// Collects everything in memory.
class MemorySink final : public ByteSink {
 public:
  Status Append(Bytes bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  const ByteVector& bytes() const { return bytes_; }
  ByteVector Take() { return std::move(bytes_); }

 private:
  ByteVector bytes_;
};

}  // namespace stepfs
