// SPDX-License-Identifier: Apache-2.0
#include "fs/mount_table.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace stepfs::fs {
namespace {

// Spaces, tabs, newlines and backslashes are written as \ooo.
std::string Unescaped(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// proc(5): id parent major:minor root mountpoint options [tags...] - type source super-options
std::optional<MountEntry> ParseLine(const std::string& line) {
  std::istringstream fields(line);
  std::string id, parent, device, root, mountpoint, field;
  fields >> id >> parent >> device >> root >> mountpoint;
  while (fields >> field && field != "-") {
  }
  MountEntry entry;
  fields >> entry.type >> entry.source;
  if (!fields || std::sscanf(device.c_str(), "%u:%u", &entry.major, &entry.minor) != 2) return std::nullopt;
  entry.mountpoint = Unescaped(mountpoint);
  entry.source = Unescaped(entry.source);
  return entry;
}

}  // namespace

Result<std::vector<MountEntry>> ReadMountTable() {
  std::ifstream file("/proc/self/mountinfo");
  if (!file) return Status::FromErrno(errno, "/proc/self/mountinfo");
  std::vector<MountEntry> entries;
  for (std::string line; std::getline(file, line);) {
    if (auto entry = ParseLine(line)) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::optional<MountEntry> FindStepfsMount(const std::string& path) {
  const auto table = ReadMountTable();
  if (!table.ok()) return std::nullopt;
  const auto found =
      std::find_if(table->rbegin(), table->rend(), [&](const MountEntry& entry) { return entry.mountpoint == path; });
  if (found == table->rend() || found->type != kMountType) return std::nullopt;
  return *found;
}

std::optional<MountEntry> FindStepfsMountAbove(const std::string& path) {
  for (std::string at = path; !at.empty(); at.resize(at.rfind('/'))) {
    if (auto entry = FindStepfsMount(at)) return entry;
  }
  return FindStepfsMount("/");
}

std::string CanonicalPath(const std::string& path) {
  namespace stdfs = std::filesystem;
  std::error_code error;
  stdfs::path absolute = stdfs::absolute(path, error);
  if (error) absolute = path;
  absolute = absolute.lexically_normal();
  if (!absolute.has_filename() && absolute.has_parent_path()) absolute = absolute.parent_path();
  stdfs::path canonical = stdfs::weakly_canonical(absolute, error);
  if (error) {
    canonical = stdfs::weakly_canonical(absolute.parent_path(), error);
    canonical = error ? absolute : canonical / absolute.filename();
  }
  return canonical.string();
}

bool IsInside(std::string_view inner, std::string_view outer) {
  if (outer == "/") return true;
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

Status AwaitClosed(const std::string& store, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const std::string path = store + "/lock";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? Status() : Status::FromErrno(errno, path);
  const auto give_up = Clock::now() + timeout;
  auto pause = std::chrono::milliseconds(2);
  bool closed = false;
  while (!(closed = flock(fd, LOCK_SH | LOCK_NB) == 0) && Clock::now() < give_up) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(100));
  }
  char owner[32] = {};
  const ssize_t length = closed ? 0 : pread(fd, owner, sizeof owner - 1, 0);
  close(fd);
  if (closed) return {};
  std::string name(owner, length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return Status::Busy("the store " + store + " is still open (" + name + "); wait for it, or see its log");
}

RunResult RunProgram(const std::vector<std::string>& arguments) {
  RunResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int spawned = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (spawned == 0) {
    char buffer[512];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
      result.errors.append(buffer, static_cast<std::size_t>(got));
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  }
  close(ends[0]);
  while (!result.errors.empty() && result.errors.back() == '\n') result.errors.pop_back();
  return result;
}

}  // namespace stepfs::fs
