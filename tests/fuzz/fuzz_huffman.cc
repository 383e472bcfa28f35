// SPDX-License-Identifier: Apache-2.0
//
// Input: number of symbols (u16, plus one), then one or two Huffman bodies of equal length. Both kernels must agree on
// whether they are sound, and on the symbols if they are.
#include <cstdlib>
#include <vector>

#include "base/serial.h"
#include "codec/cpu.h"
#include "codec/huffman.h"
#include "fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepfs::codec;
  if (size < 3) return 0;
  const std::size_t symbols = 1 + (data[0] | std::size_t{data[1]} << 8);
  const std::size_t job_count = 1 + data[2] % 2;
  const std::size_t body_bytes = (size - 3) / job_count;
  std::vector<std::uint8_t> first;
  bool first_ok = false;
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    std::vector<std::uint8_t> out(symbols * job_count);
    std::vector<HuffmanJob> jobs;
    for (std::size_t i = 0; i < job_count; ++i) {
      jobs.push_back({data + 3 + i * body_bytes, body_bytes, out.data() + i * symbols, symbols});
    }
    const bool ok = HuffmanDecode(jobs).ok();
    if (level == CpuLevel::kScalar) {
      first = out;
      first_ok = ok;
    }
    if (ok != first_ok || (ok && out != first)) std::abort();
  }
  return 0;
}
