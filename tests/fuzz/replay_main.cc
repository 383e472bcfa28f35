// SPDX-License-Identifier: Apache-2.0
//
// replay PATH...: runs the fuzz target over each file, and over every file in each folder. Each input is also cut short
// and has single bits flipped, a fixed number of times from a fixed seed, so that a small corpus covers its
// neighbourhood.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz_target.h"

namespace {

// Inputs are handed over in a buffer of their exact size, so that the address sanitizer sees every overrun.
void RunOnce(const std::string& input) {
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void Replay(const std::string& input, unsigned seed) {
  constexpr int kVariants = 64;
  RunOnce(input);
  if (input.empty()) return;
  std::mt19937 random(seed);
  for (int i = 0; i < kVariants; ++i) {
    std::string variant = input;
    char& byte = variant[random() % variant.size()];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1u << random() % 8));
    RunOnce(variant);
    RunOnce(input.substr(0, random() % input.size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else {
      files.emplace_back(argv[i]);
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) {
      std::fprintf(stderr, "replay: cannot read %s\n", path.c_str());
      return 1;
    }
    std::printf("%s, %zu bytes\n", path.filename().c_str(), input.size());
    std::fflush(stdout);  // The last name printed is the one that crashed.
    Replay(input, static_cast<unsigned>(input.size()));
  }
  std::printf("replayed %zu inputs\n", files.size());
  if (files.empty()) std::fprintf(stderr, "replay: no inputs\n");
  return files.empty() ? 1 : 0;
}
