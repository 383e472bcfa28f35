// SPDX-License-Identifier: Apache-2.0
//
// Buffer: memory that is about to be overwritten, so it is not zeroed first (a std::vector would be).
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"

namespace stepfs::codec {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { Resize(size); }

  // Makes size() == size; the content is unspecified afterwards. Memory is kept when it suffices.
  void Resize(std::size_t size) {
    if (size > capacity_) {
      data_.reset();
      data_ = std::make_unique_for_overwrite<std::byte[]>(size);
      capacity_ = size;
    }
    size_ = size;
  }

  std::size_t size() const { return size_; }
  Bytes bytes() const { return {data_.get(), size_}; }
  MutableBytes span() { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace stepfs::codec
