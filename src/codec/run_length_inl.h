// SPDX-License-Identifier: Apache-2.0
//
// The writer of run tokens, shared by the run_length_*.cc files; internal linkage, so that each file keeps its own
// copy.
#pragma once

#include "codec/run_length.h"

namespace stepfs::codec {
namespace {

class RunWriter {
 public:
  RunWriter(std::uint8_t* tokens, std::uint8_t* literals) : tokens_(tokens), literals_(literals) {}

  // REQUIRES: positions ascend.
  void Literal(std::size_t position, std::uint8_t literal) {
    std::size_t gap = position - next_;
    next_ = position + 1;
    if (gap >= kFirstLongRun) [[unlikely]] {
      gap = LongRun(gap);
    }
    tokens_[counts_.tokens++] = static_cast<std::uint8_t>(gap);
    literals_[counts_.literals++] = literal;
  }

  RunCounts counts() const { return counts_; }

 private:
  // Writes the long-run tokens of `gap`, longest first, and returns what is left of it.
  std::size_t LongRun(std::size_t gap) {
    for (unsigned shift = 8; shift-- > 0;) {
      const std::size_t length = std::size_t{kFirstLongRun} << shift;
      for (; gap >= length; gap -= length) tokens_[counts_.tokens++] = static_cast<std::uint8_t>(kFirstLongRun + shift);
    }
    return gap;
  }

  std::uint8_t* tokens_;
  std::uint8_t* literals_;
  std::size_t next_ = 0;  // Where the run before the next literal begins.
  RunCounts counts_ = {0, 0};
};

}  // namespace
}  // namespace stepfs::codec
