// SPDX-License-Identifier: Apache-2.0
//
// Byte patterns that the lmc tests share: every one brings another path of the coder into play.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace stepfs::codec {

struct Sample {
  std::string name;
  ByteVector target;
  ByteVector base;
};

inline ByteVector RandomBytes(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  ByteVector bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// `base` with about one byte in `interval` changed, mostly by little.
inline ByteVector Changed(const ByteVector& base, unsigned interval, unsigned seed) {
  std::mt19937_64 random(seed);
  ByteVector target = base;
  for (std::byte& b : target) {
    const std::uint64_t r = random();
    if (r % interval != 0) continue;
    b ^= static_cast<std::byte>(1u << ((r >> 32) % 8 * ((r >> 40) % 8) / 7));
  }
  return target;
}

// Two-sided geometric noise on every byte: dense, with a few bits of entropy.
inline ByteVector Noisy(const ByteVector& base, unsigned seed) {
  std::mt19937_64 random(seed);
  std::geometric_distribution<int> size(0.2);
  ByteVector target = base;
  for (std::byte& b : target) {
    const int step = size(random);
    b = static_cast<std::byte>(std::to_integer<int>(b) + ((random() & 1) != 0 ? step : -step));
  }
  return target;
}

inline std::vector<Sample> LmcSamples(std::size_t n) {
  const ByteVector base = RandomBytes(n, 1);
  ByteVector two_values(n);
  for (std::size_t i = 0; i < n; ++i) two_values[i] = static_cast<std::byte>(i % 3 == 0 ? 7 : 9);
  ByteVector one_late(n, std::byte{0});
  if (n > 0) one_late[n - 1] = std::byte{1};
  return {
      {"random", RandomBytes(n, 2), base},
      {"equal", base, base},
      {"all the same", ByteVector(n, std::byte{0x5a}), ByteVector(n, std::byte{0x11})},
      {"two values", two_values, ByteVector(n)},
      {"one late change", one_late, ByteVector(n)},
      {"one in 1000", Changed(base, 1000, 3), base},
      {"one in 100", Changed(base, 100, 4), base},
      {"one in 10", Changed(base, 10, 5), base},
      {"one in 4", Changed(base, 4, 6), base},
      {"one in 3", Changed(base, 3, 7), base},
      {"one in 2", Changed(base, 2, 8), base},
      {"noisy", Noisy(base, 9), base},
      {"noisy zeros", Noisy(ByteVector(n), 10), ByteVector(n)},
  };
}

}  // namespace stepfs::codec
