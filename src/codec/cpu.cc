// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace stepfs::codec {
namespace {

bool HasAvx2() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  // LZCNT has no name in __builtin_cpu_supports of Clang 14.
  const bool has_lzcnt = __get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 5)) != 0;
  return has_lzcnt && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
         __builtin_cpu_supports("bmi2") != 0 && __builtin_cpu_supports("popcnt") != 0;
#else
  return false;
#endif
}

bool IsSupported(CpuLevel level) { return level == CpuLevel::kScalar || HasAvx2(); }

CpuLevel InitialLevel() {
  if (const char* name = std::getenv("STEPFS_CPU")) {
    const std::optional<CpuLevel> wanted = CpuLevelFromName(name);
    if (wanted && IsSupported(*wanted)) return *wanted;
  }
  return SupportedCpuLevels().back();
}

std::atomic<CpuLevel>& Level() {
  static std::atomic<CpuLevel> level{InitialLevel()};
  return level;
}

}  // namespace

std::string_view Name(CpuLevel level) { return level == CpuLevel::kAvx2 ? "avx2" : "scalar"; }

std::optional<CpuLevel> CpuLevelFromName(std::string_view name) {
  for (CpuLevel level : {CpuLevel::kScalar, CpuLevel::kAvx2}) {
    if (Name(level) == name) return level;
  }
  return std::nullopt;
}

std::vector<CpuLevel> SupportedCpuLevels() {
  std::vector<CpuLevel> levels = {CpuLevel::kScalar};
  if (HasAvx2()) levels.push_back(CpuLevel::kAvx2);
  return levels;
}

CpuLevel ActiveCpuLevel() { return Level().load(std::memory_order_relaxed); }

ScopedCpuLevel::ScopedCpuLevel(CpuLevel level) : previous_(ActiveCpuLevel()) {
  assert(IsSupported(level));
  Level().store(level, std::memory_order_relaxed);
}

ScopedCpuLevel::~ScopedCpuLevel() { Level().store(previous_, std::memory_order_relaxed); }

}  // namespace stepfs::codec
