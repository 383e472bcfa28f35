// SPDX-License-Identifier: Apache-2.0
//
// A progress bar on a terminal; nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/commands.h"

namespace stepfs::cli {

class ProgressBar {
 public:
  ProgressBar(Streams& streams, std::string what) : streams_(streams), what_(std::move(what)) {}
  ~ProgressBar();  // Takes the bar away.
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second.
  void Update(std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  Streams& streams_;
  const std::string what_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
};

}  // namespace stepfs::cli
