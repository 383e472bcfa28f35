// SPDX-License-Identifier: Apache-2.0
#include "codec/run_length.h"

#include <cstring>

#include "codec/cpu.h"

namespace stepfs::codec {

const RunLengthKernels& ActiveRunLengthKernels() { return SelectKernels(kRunLengthScalar, kRunLengthAvx2); }

bool MergeRuns(const std::uint8_t* tokens, const std::uint8_t* literals, RunCounts counts, std::uint8_t run_byte,
               std::uint8_t* out, std::size_t n) {
  std::memset(out, run_byte, n);
  std::size_t position = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < counts.tokens; ++i) {
    const unsigned token = tokens[i];
    if (token < kFirstLongRun) [[likely]] {
      position += token;
      if (position >= n || used == counts.literals) return false;
      out[position++] = literals[used++];
    } else {
      position += std::size_t{kFirstLongRun} << (token - kFirstLongRun);
      if (position > n) return false;
    }
  }
  return used == counts.literals;
}

}  // namespace stepfs::codec
