// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "cli/commands.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // `stepfs log | head` ends with an error of the stream, not by a signal.
  std::ios::sync_with_stdio(false);
  stepfs::cli::Streams streams{std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return stepfs::cli::RunProgram(std::vector<std::string>(argv + 1, argv + argc), streams);
}
