// SPDX-License-Identifier: Apache-2.0
//
// The `stepfs` program as functions: everything it writes goes to the streams it is given, so that tests run whole
// commands in process.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"

namespace stepfs::cli {

struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;  // Progress bars are drawn.
};

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,  // Also: damage was found.
  kUsage = 2,
};

// Runs `stepfs arguments...` and returns the exit code. A failure is one line on `err`.
int RunProgram(const std::vector<std::string>& arguments, Streams& streams);

// What a subcommand does once its options were parsed: an exit code, or the failure to be told.
using Action = std::function<Result<int>(Streams&)>;

// Each declares one subcommand, which sets `chosen` when it is the one that was called.
void AddCat(CLI::App& program, Action& chosen);
void AddDecode(CLI::App& program, Action& chosen);
void AddEncode(CLI::App& program, Action& chosen);
void AddLayout(CLI::App& program, Action& chosen);
void AddLog(CLI::App& program, Action& chosen);
void AddMount(CLI::App& program, Action& chosen);
void AddRestore(CLI::App& program, Action& chosen);
void AddStatus(CLI::App& program, Action& chosen);
void AddSync(CLI::App& program, Action& chosen);
void AddUmount(CLI::App& program, Action& chosen);
void AddVerify(CLI::App& program, Action& chosen);
void AddVersion(CLI::App& program, Action& chosen);

}  // namespace stepfs::cli
