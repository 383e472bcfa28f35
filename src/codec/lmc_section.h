// SPDX-License-Identifier: Apache-2.0
//
// A section codes one block of bytes (1 to 65,536) by itself: raw, constant, Huffman, or run-length with its two
// strings as sections inside. docs/codec_lmc.md, "Sections".
#pragma once

#include <array>
#include <cstdint>

#include "base/serial.h"
#include "base/status.h"
#include "codec/huffman.h"
#include "codec/lmc_format.h"

namespace stepfs::codec::lmc {

// Room that two run strings need; owned by whoever codes many blocks.
struct RunScratch {
  std::array<std::uint8_t, kMaxBlockBytes> tokens;
  std::array<std::uint8_t, kMaxBlockBytes> literals;
};

// What EncodeSection writes at most for n bytes, including what it may overwrite behind the section's end.
inline constexpr std::size_t MaxSectionBytes(std::size_t n) { return kTagBytes + n + kHuffmanSlack; }

// Writes the section of in[0, n-1] and returns its size, at most kTagBytes + n.
// REQUIRES: 1 <= n <= kMaxBlockBytes; room for MaxSectionBytes(n) at `out`; no overlap.
std::size_t EncodeSection(const std::uint8_t* in, std::size_t n, bool run_length, RunScratch& scratch,
                          std::uint8_t* out);

// Decodes sections block by block. Huffman blocks are kept until there are two of them, which decode faster together,
// so that outputs are complete only after Flush.
class SectionDecoder {
 public:
  explicit SectionDecoder(RunScratch& scratch) : scratch_(scratch) {}

  // Decodes the next section of `reader` to out[0, n-1]. When the section is raw and `in_place` is given, nothing is
  // copied: *in_place points to the bytes within the reader's span; else it is `out`. kCorruption if malformed. `out`
  // and the reader's bytes must stay valid until Flush. REQUIRES: 1 <= n <= kMaxBlockBytes.
  Status Decode(ByteReader& reader, std::uint8_t* out, std::size_t n, const std::uint8_t** in_place = nullptr);
  // Completes all outputs.
  Status Flush();

 private:
  Status DecodeRuns(ByteReader& reader, std::uint8_t* out, std::size_t n);

  RunScratch& scratch_;
  bool allow_runs_ = true;  // False inside a run section.
  std::array<HuffmanJob, 2> jobs_;
  std::size_t job_count_ = 0;
};

}  // namespace stepfs::codec::lmc
