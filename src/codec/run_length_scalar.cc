// SPDX-License-Identifier: Apache-2.0
#include "codec/run_length_inl.h"

namespace stepfs::codec {
namespace {

std::size_t Count(const std::uint8_t* in, std::size_t n, std::uint8_t value) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += in[i] == value ? 1 : 0;
  return count;
}

RunCounts Split(const std::uint8_t* in, std::size_t n, std::uint8_t run_byte, std::uint8_t* tokens,
                std::uint8_t* literals) {
  RunWriter writer(tokens, literals);
  for (std::size_t i = 0; i < n; ++i) {
    if (in[i] != run_byte) writer.Literal(i, in[i]);
  }
  return writer.counts();
}

}  // namespace

constinit const RunLengthKernels kRunLengthScalar = {Count, Split};

}  // namespace stepfs::codec
