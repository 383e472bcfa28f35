// SPDX-License-Identifier: Apache-2.0
//
// The writer of run tokens, shared by the run_length_*.cc files; internal linkage, so that each file keeps its own
// copy.
#pragma once

#include "codec/run_length.h"

namespace stepfs::codec {
namespace {

// Writes the long-run tokens of `gap`, longest first, but for the gap % kFirstLongRun that is left. Returns their end.
inline std::uint8_t* WriteLongRun(std::size_t gap, std::uint8_t* tokens) {
  for (unsigned shift = 8; shift-- > 0;) {
    const std::size_t length = std::size_t{kFirstLongRun} << shift;
    for (; gap >= length; gap -= length) *tokens++ = static_cast<std::uint8_t>(kFirstLongRun + shift);
  }
  return tokens;
}

// Its members must stay in registers: no member function may be out of line.
class RunWriter {
 public:
  RunWriter(std::uint8_t* tokens, std::uint8_t* literals)
      : tokens_(tokens), literals_(literals), token_(tokens), literal_(literals) {}

  // REQUIRES: positions ascend.
  [[gnu::always_inline]] void Literal(std::size_t position, std::uint8_t literal) {
    std::size_t gap = position - next_;
    next_ = position + 1;
    if (gap >= kFirstLongRun) [[unlikely]] {
      token_ = WriteLongRun(gap, token_);
      gap %= kFirstLongRun;
    }
    *token_++ = static_cast<std::uint8_t>(gap);
    *literal_++ = literal;
  }

  RunCounts counts() const {
    return {static_cast<std::size_t>(token_ - tokens_), static_cast<std::size_t>(literal_ - literals_)};
  }

 private:
  std::uint8_t* tokens_;
  std::uint8_t* literals_;
  std::uint8_t* token_;
  std::uint8_t* literal_;
  std::size_t next_ = 0;  // Where the run before the next literal begins.
};

}  // namespace
}  // namespace stepfs::codec
