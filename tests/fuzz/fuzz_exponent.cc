// SPDX-License-Identifier: Apache-2.0
//
// Input: element type, flags, length of the target, then bytes. Flag 1 unset: the bytes are a chunk to decode, with a
// base when flag 2 is set, which may fail but not misbehave. Set: they are a target to encode and decode, which must
// give it back, alike at every CPU level; the base is the target with some elements changed (flag 4: all).
#include <algorithm>
#include <cstdlib>

#include "base/serial.h"
#include "codec/cpu.h"
#include "codec/exponent.h"
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

ByteVector Nearby(Bytes target, bool all) {
  ByteVector base(target.begin(), target.end());
  for (std::size_t i = 0; i < base.size(); i += all ? 2 : 174) base[i] ^= std::byte{1};
  return base;
}

void DecodeAnything(ElementType element, Bytes encoded, Bytes base, std::size_t target_bytes) {
  ByteVector first;
  bool first_ok = false;
  for (CpuLevel level : SupportedCpuLevels()) {
    const ScopedCpuLevel scope(level);
    ByteVector target(target_bytes);
    const bool ok = ExponentDecoder().Decode(element, encoded, {base, {}}, target).ok();
    if (level == CpuLevel::kScalar) {
      first = target;
      first_ok = ok;
    }
    Require(ok == first_ok);
    Require(!ok || target == first);
  }
}

void RoundTrip(ElementType element, Bytes target, Bytes base) {
  const auto codec = NewExponentCodec();
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
    Require(ExponentDecoder().Decode(element, encoded, {base, {}}, decoded).ok());
    Require(std::equal(decoded.begin(), decoded.end(), target.begin()));
  }
}

}  // namespace
}  // namespace stepfs::codec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepfs::codec;
  constexpr std::size_t kMaxTargetBytes = 100'000;
  stepfs::ByteReader reader(std::as_bytes(std::span(data, size)));
  const auto element =
      ElementTypeFromNumber(static_cast<std::uint8_t>(reader.Fixed<std::uint8_t>() % kElementTypeCount));
  const auto flags = reader.Fixed<std::uint8_t>();
  const std::size_t target_bytes = reader.Fixed<std::uint32_t>() % kMaxTargetBytes;
  if (!reader.ok()) return 0;
  const stepfs::Bytes rest = reader.Raw(reader.remaining());
  const bool with_base = (flags & 2) != 0;
  if ((flags & 1) != 0) {
    RoundTrip(*element, rest, with_base ? Nearby(rest, (flags & 4) != 0) : stepfs::ByteVector());
  } else {
    DecodeAnything(*element, rest, with_base ? BaseFor(target_bytes) : stepfs::ByteVector(), target_bytes);
  }
  return 0;
}
