// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <algorithm>

#include "cli/text.h"

namespace stepfs::cli {

ProgressBar::~ProgressBar() {
  if (drawn_) streams_.err << "\r\x1b[K" << std::flush;
}

void ProgressBar::Update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  if (!streams_.err_is_terminal || total_bytes == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - *drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  constexpr std::size_t kWidth = 30;
  const double share = std::min(1.0, static_cast<double>(done_bytes) / static_cast<double>(total_bytes));
  const auto filled = static_cast<std::size_t>(share * kWidth);
  streams_.err << "\r\x1b[K" << what_ << " [" << std::string(filled, '#') << std::string(kWidth - filled, ' ') << "] "
               << static_cast<int>(share * 100) << " %  " << HumanSize(done_bytes) << " of " << HumanSize(total_bytes)
               << std::flush;
}

}  // namespace stepfs::cli
