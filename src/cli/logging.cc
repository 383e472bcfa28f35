// SPDX-License-Identifier: Apache-2.0
#include "cli/logging.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "cli/text.h"
#include "store/report.h"

namespace stepfs::cli {
namespace {

constexpr std::size_t kLogBytes = std::size_t{10} << 20;
constexpr std::size_t kLogFiles = 5;
constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";

constexpr std::array<std::string_view, 5> kLevels = {"trace", "debug", "info", "warning", "error"};

std::string Named(const std::string& path, std::uint64_t version) {
  char number[32];
  std::snprintf(number, sizeof number, " v%06llu", static_cast<unsigned long long>(version));
  return Printable(path) + number;
}

}  // namespace

bool IsLogLevel(const std::string& name) { return std::find(kLevels.begin(), kLevels.end(), name) != kLevels.end(); }

void LogToStderr(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("stepfs", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("stepfs: %v");
  logger->set_level(std::max(spdlog::level::warn, spdlog::level::from_str(level)));
  spdlog::set_default_logger(std::move(logger));
}

Status StartLogging(const std::string& store, const std::string& level, bool also_to_stderr) {
  const std::string directory = store + "/log";
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return Status::FromErrno(errno, "making " + directory);
  try {
    std::vector<spdlog::sink_ptr> sinks;
    sinks.push_back(
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(directory + "/stepfs.log", kLogBytes, kLogFiles - 1));
    if (also_to_stderr) sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    auto logger = std::make_shared<spdlog::logger>("stepfs", sinks.begin(), sinks.end());
    logger->set_pattern(kPattern);
    logger->set_level(spdlog::level::from_str(level));
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return Status::FromErrno(EIO, std::string("the log: ") + error.what());
  }
  return {};
}

void LogSave(const store::SealReport& report) {
  const std::string name = Named(report.path, report.version);
  if (!report.status.ok()) {
    spdlog::warn("{}: not sealed yet, kept as it is: {}", name, Printable(report.status.ToString()));
    return;
  }
  const std::string base = report.base_path.empty() ? "none" : Named(report.base_path, report.base_version);
  spdlog::info("saved {}: {} bytes, {} stored, ratio {:.4f}, codec {}, base {}, depth {}, {:.3f} s", name,
               report.logical_bytes, report.stored_bytes, store::Ratio(report.stored_bytes, report.logical_bytes),
               report.codec, base, report.depth, report.seconds);
}

void LogWarning(const std::string& text) { spdlog::warn("{}", Printable(text)); }

}  // namespace stepfs::cli
