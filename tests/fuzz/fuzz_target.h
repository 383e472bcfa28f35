// SPDX-License-Identifier: Apache-2.0
//
// What a fuzz target defines: libFuzzer's entry point. It must accept any bytes, bound what it allocates and the work
// it does by their number, and abort() when a promise is broken. add_stepfs_fuzzer (CMakeLists.txt here) builds it
// twice: with libFuzzer, and with replay_main.cc, which runs a stored corpus as an ordinary test under any compiler.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
