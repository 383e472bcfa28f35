// SPDX-License-Identifier: Apache-2.0
//
// Input: element type, flags, length of the target, then bytes. Flag 1 unset: the bytes are a chunk to decode, which
// may fail but not misbehave. Set: they are a target to encode and decode, which must give it back, alike at every CPU
// level.
#include <algorithm>
#include <cstdlib>

#include "base/serial.h"
#include "codec/cpu.h"
#include "codec/lmc.h"
#include "fuzz_target.h"

namespace stepfs::codec {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

ByteVector BaseFor(std::size_t bytes) {
  ByteVector base(bytes);
  for (std::size_t i = 0; i < bytes; ++i) base[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  return base;
}

void DecodeAnything(ElementType element, Bytes encoded, std::size_t target_bytes) {
  const ByteVector base = BaseFor(target_bytes);
  ByteVector first;
  bool first_ok = false;
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    ByteVector target(target_bytes);
    const bool ok = LmcDecoder().Decode(element, encoded, {base, {}}, target).ok();
    if (level == CpuLevel::kScalar) {
      first = target;
      first_ok = ok;
    }
    Require(ok == first_ok);
    Require(!ok || target == first);
  }
}

void RoundTrip(ElementType element, std::uint8_t flags, Bytes target) {
  LmcOptions options;
  options.subtract = (flags & 4) != 0;
  options.group = (flags & 8) == 0;
  options.run_length = (flags & 16) == 0;
  options.block_bytes = (flags & 32) != 0 ? 256 : 65536;
  const auto codec = NewLmcCodec(options);
  const ByteVector base = (flags & 2) != 0 ? BaseFor(target.size()) : ByteVector();
  ByteVector first;
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    ByteVector encoded(codec->MaxEncodedBytes(element, target.size()));
    const Result<std::size_t> size = codec->Encode(element, target, {base, {}}, encoded);
    Require(size.ok());
    encoded.resize(*size);
    if (level == CpuLevel::kScalar) first = encoded;
    Require(encoded == first);
    ByteVector decoded(target.size());
    Require(LmcDecoder().Decode(element, encoded, {base, {}}, decoded).ok());
    Require(std::equal(decoded.begin(), decoded.end(), target.begin()));
  }
}

}  // namespace
}  // namespace stepfs::codec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepfs::codec;
  constexpr std::size_t kMaxTargetBytes = 300'000;
  stepfs::ByteReader reader(std::as_bytes(std::span(data, size)));
  const auto element =
      ElementTypeFromNumber(static_cast<std::uint8_t>(reader.Fixed<std::uint8_t>() % kElementTypeCount));
  const auto flags = reader.Fixed<std::uint8_t>();
  const std::size_t target_bytes = reader.Fixed<std::uint32_t>() % kMaxTargetBytes;
  if (!reader.ok()) return 0;
  const stepfs::Bytes rest = reader.Raw(reader.remaining());
  if ((flags & 1) != 0) {
    RoundTrip(*element, flags, rest);
  } else {
    DecodeAnything(*element, rest, target_bytes);
  }
  return 0;
}
