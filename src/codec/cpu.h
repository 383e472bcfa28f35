// SPDX-License-Identifier: Apache-2.0
//
// Which instruction set the kernels of this layer use. Every stage with fast kernels keeps one table of function
// pointers per level (for example DeltaKernels) and picks one with SelectKernels; code built for a level lives in files
// named after it (delta_avx2.cc), is compiled with that level's flags, and is entered only through such a table. The
// scalar level is always there and gives the same bytes as every other.
//
// The level is found once: the best that the processor has, or the one named by the environment variable STEPFS_CPU
// ("scalar", "avx2") when the processor has it. Thread-safe.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace stepfs::codec {

enum class CpuLevel {
  kScalar = 0,
  kAvx2 = 1,  // AVX2, BMI1, BMI2, LZCNT, POPCNT: every x86-64-v3 processor.
};

std::string_view Name(CpuLevel level);
std::optional<CpuLevel> CpuLevelFromName(std::string_view name);

// What this build and this processor can run, ascending; kScalar is always first.
std::vector<CpuLevel> SupportedCpuLevels();

// The level that kernels use now.
CpuLevel ActiveCpuLevel();

// Forces a level while it lives, for tests and benchmarks. Affects all threads; scopes must nest.
// REQUIRES: level is one of SupportedCpuLevels().
class ScopedCpuLevel {
 public:
  explicit ScopedCpuLevel(CpuLevel level);
  ~ScopedCpuLevel();
  ScopedCpuLevel(const ScopedCpuLevel&) = delete;
  ScopedCpuLevel& operator=(const ScopedCpuLevel&) = delete;

 private:
  CpuLevel previous_;
};

// The table of the active level. Cheap (one relaxed load), but meant to be called once a block, not once a byte.
template <typename Kernels>
const Kernels& SelectKernels(const Kernels& scalar, const Kernels& avx2) {
  return ActiveCpuLevel() == CpuLevel::kAvx2 ? avx2 : scalar;
}

}  // namespace stepfs::codec
