// SPDX-License-Identifier: Apache-2.0
//
// Runs `stepfs` commands in process.
#pragma once

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace stepfs::testing {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome RunStepfs(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  cli::Streams streams{out, err, false};
  const int code = cli::RunProgram(arguments, streams);
  return {code, out.str(), err.str()};
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace stepfs::testing
