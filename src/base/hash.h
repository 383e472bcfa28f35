// SPDX-License-Identifier: Apache-2.0
//
// The two hashes of stepfs, both xxh3 with seed 0: 64 bits guard records and chunks against damage, 128 bits name
// content. Neither resists an adversary: whoever must know that two contents are the same compares their bytes.
// This is the one place that includes xxHash.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace stepfs {

std::uint64_t Hash64(Bytes bytes);
inline std::uint64_t Hash64(std::string_view text) { return Hash64(AsBytes(text)); }

// An xxh3-128 digest. On disk: low 64 bits, then high 64 bits, each little-endian (16 bytes).
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const Digest&) const = default;
  // 32 lower-case hexadecimal digits, high half first, as `xxhsum -H2` prints it.
  std::string ToHex() const;
  // "xxh3-128:" and the 32 digits.
  std::string ToString() const;
  // Reads what ToHex or ToString wrote; nothing for any other text.
  static std::optional<Digest> FromString(std::string_view text);
};

Digest Hash128(Bytes bytes);

// The digest of a content that arrives in pieces. Not thread-safe.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();
  DigestBuilder(DigestBuilder&&) noexcept;
  DigestBuilder& operator=(DigestBuilder&&) noexcept;

  void Update(Bytes bytes);
  // The digest of all bytes given so far; more may follow.
  Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepfs
