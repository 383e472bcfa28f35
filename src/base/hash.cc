// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <xxhash.h>

#include <charconv>
#include <cstdio>
#include <new>

namespace stepfs {

std::uint64_t Hash64(Bytes bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Digest Hash128(Bytes bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::string Digest::ToHex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return {text, 32};
}

std::string Digest::ToString() const { return "xxh3-128:" + ToHex(); }

std::optional<Digest> Digest::FromString(std::string_view text) {
  constexpr std::string_view kPrefix = "xxh3-128:";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  if (text.size() != 32) return std::nullopt;
  Digest digest;
  const char* begin = text.data();
  auto high = std::from_chars(begin, begin + 16, digest.high, 16);
  auto low = std::from_chars(begin + 16, begin + 32, digest.low, 16);
  if (high.ec != std::errc() || high.ptr != begin + 16 || low.ec != std::errc() || low.ptr != begin + 32) {
    return std::nullopt;
  }
  return digest;
}

struct DigestBuilder::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {
  if (state_->xxh == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_->xxh);
}
DigestBuilder::~DigestBuilder() = default;
DigestBuilder::DigestBuilder(DigestBuilder&&) noexcept = default;
DigestBuilder& DigestBuilder::operator=(DigestBuilder&&) noexcept = default;

void DigestBuilder::Update(Bytes bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }

Digest DigestBuilder::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.low64, hash.high64};
}

}  // namespace stepfs
