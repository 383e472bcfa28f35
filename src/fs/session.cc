// SPDX-License-Identifier: Apache-2.0
#include "fs/session.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "fs/file_system.h"
#include "fs/mount_checks.h"
#include "fs/ops.h"

namespace stepfs::fs {
namespace {

// Readers of sealed files decode, so threads wait for the processor more than for each other.
constexpr unsigned kServingThreads = 16;
constexpr unsigned kReadAheadKilobytes = 1024;

// ---- libfuse's objects.

struct SessionDeleter {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using Session = std::unique_ptr<fuse_session, SessionDeleter>;

// Mount options are joined by commas.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ',' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

Result<Session> NewSession(const MountOptions& options, const MountPlan& plan, FileSystem& fs) {
  std::string mount_options = "subtype=stepfs,default_permissions,nosuid,nodev,fsname=" + Escaped(plan.store);
  if (options.allow_other) mount_options += ",allow_other";
  std::string program = "stepfs", flag = "-o";
  char* argv[] = {program.data(), flag.data(), mount_options.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(3, argv);
  Session session(fuse_session_new(&args, &Operations(), sizeof(fuse_lowlevel_ops), &fs));
  fuse_opt_free_args(&args);
  if (!session) return Status::InvalidArgument("libfuse refuses the mount options " + mount_options);
  return session;
}

// fusermount3 and libfuse explain failures on stderr: what is written there while this lives can be had as text.
class StderrCapture {
 public:
  StderrCapture() : saved_(dup(STDERR_FILENO)), memory_(memfd_create("stderr", MFD_CLOEXEC)) {
    if (saved_ >= 0 && memory_ >= 0) dup2(memory_, STDERR_FILENO);
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;
  ~StderrCapture() {
    if (saved_ >= 0) dup2(saved_, STDERR_FILENO);
    if (saved_ >= 0) close(saved_);
    if (memory_ >= 0) close(memory_);
  }
  // On one line.
  std::string Text() const {
    char buffer[1024];
    const ssize_t length = memory_ >= 0 ? pread(memory_, buffer, sizeof buffer, 0) : 0;
    std::string text(buffer, length > 0 ? static_cast<std::size_t>(length) : 0);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    std::replace(text.begin(), text.end(), '\n', ';');
    return text;
  }

 private:
  int saved_;
  int memory_;
};

Status Attach(fuse_session* session, const std::string& mountpoint) {
  StderrCapture capture;
  if (fuse_session_mount(session, mountpoint.c_str()) == 0) return {};
  const std::string why = capture.Text();
  return Status::InvalidArgument("mounting at " + mountpoint + " failed" + (why.empty() ? "" : " (" + why + ")") +
                                 (geteuid() == 0 ? "; root in a container needs CAP_SYS_ADMIN (--cap-add SYS_ADMIN)"
                                                 : "; is fusermount3 set-user-id root (package fuse3)?"));
}

// ---- The serving process.

// What the reading of large files gains by more read-ahead than the kernel's 128 KiB; only root may set it.
void TuneReadAhead(const struct stat& root) {
  std::ofstream file("/sys/class/bdi/" + std::to_string(major(root.st_dev)) + ":" + std::to_string(minor(root.st_dev)) +
                     "/read_ahead_kb");
  file << kReadAheadKilobytes;
}

// Every open file of the mount may cost a descriptor or two; a killed daemon takes a training run along.
void ClaimResources() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  std::ofstream("/proc/self/oom_score_adj") << -900;
}

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// Blocks the signals that end a mount in this thread and those it starts: the watcher takes them. Undone at the end.
class SignalBlock {
 public:
  SignalBlock() {
    const sigset_t ending = EndingSignals();
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
    std::signal(SIGPIPE, SIG_IGN);
  }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// A thread beside the session loop: says when the mount answers, and ends the loop when a signal asks for it.
class Watcher {
 public:
  // `ready` is called once the mount answers.
  Watcher(fuse_session* session, std::string mountpoint, std::function<void()> ready)
      : session_(session), mountpoint_(std::move(mountpoint)), ready_(std::move(ready)), loop_thread_(pthread_self()) {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};
    sigaction(SIGUSR2, &wake, nullptr);
    thread_ = std::thread([this] { Run(); });
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() {
    loop_ended_ = true;
    thread_.join();
  }

  static constexpr auto kPoll = std::chrono::milliseconds(20);
  void Started() { started_ = true; }

 private:
  void Run() {
    const sigset_t ending = EndingSignals();
    bool announced = false;
    while (!loop_ended_) {
      if (started_ && !announced) {
        announced = true;
        struct stat root {};
        if (stat(mountpoint_.c_str(), &root) == 0) {
          TuneReadAhead(root);
          ready_();
        }
      }
      const timespec wait{0, std::chrono::nanoseconds(announced ? kPoll * 5 : kPoll / 10).count()};
      const int signal = sigtimedwait(&ending, nullptr, &wait);
      if (signal <= 0) continue;
      spdlog::info("signal {}: unmounting {}", signal, mountpoint_);
      fuse_session_exit(session_);
      // The loop sleeps in sem_wait, which any signal interrupts; one sent just before it sleeps would be lost.
      while (!loop_ended_) {
        pthread_kill(loop_thread_, SIGUSR2);
        std::this_thread::sleep_for(kPoll);
      }
    }
  }

  fuse_session* const session_;
  const std::string mountpoint_;
  const std::function<void()> ready_;
  const pthread_t loop_thread_;
  std::atomic<bool> started_{false};
  std::atomic<bool> loop_ended_{false};
  std::thread thread_;
};

store::StoreOptions ToStoreOptions(const MountOptions& options, const MountPlan& plan) {
  store::StoreOptions store;
  store.root = plan.store;
  store.index_directory = plan.index_directory;
  store.cache_bytes = options.cache_bytes;
  store.encode_threads = options.encode_threads;
  store.codec = options.codec;
  store.durable_close = options.durable_close;
  store.on_seal = options.on_seal;
  store.on_warning =
      options.on_warning ? options.on_warning : [](const std::string& text) { spdlog::warn("{}", text); };
  return store;
}

Status ServeMount(const MountOptions& options, const MountPlan& plan, FileSystem& fs,
                  const std::function<void()>& ready) {
  STEPFS_ASSIGN_OR_RETURN(const Session session, NewSession(options, plan, fs));
  STEPFS_RETURN_IF_ERROR(Attach(session.get(), plan.mountpoint));
  int result = 0;
  {
    Watcher watching(session.get(), plan.mountpoint, ready);
    fs.SetOnStarted([&watching] { watching.Started(); });
    spdlog::info("store {} mounted at {}", plan.store, plan.mountpoint);
    result = RunLoop(session.get(), kServingThreads);
  }
  fuse_session_unmount(session.get());
  fs.DropAll();
  spdlog::info("{} unmounted", plan.mountpoint);
  return result < 0 ? Status::FromErrno(-result, "serving " + plan.mountpoint) : Status();
}

Status Serve(const MountOptions& options, const MountPlan& plan, const std::function<void()>& ready) {
  const SignalBlock block;
  ClaimResources();
  STEPFS_ASSIGN_OR_RETURN(const auto store, store::Store::Open(ToStoreOptions(options, plan)));
  Status status = options.on_open ? options.on_open(*store) : Status();
  if (!status.ok()) return status;
  // Outlives the closing of the store, which writes what files that are still open hold.
  FileSystem fs(*store);
  status = ServeMount(options, plan, fs, ready);
  if (options.on_close) options.on_close(*store);
  const Status closed = store->Close();
  if (!closed.ok()) spdlog::error("closing {}: {}", plan.store, closed.ToString());
  return status.ok() ? closed : status;
}

// ---- Into the background. The daemon tells its parent how it went through a pipe: "+" when the mount answers, else
// the kind and errno of the failure and its message.

std::string ToReport(const Status& status) {
  return std::to_string(static_cast<int>(status.kind())) + " " + std::to_string(status.ToErrno()) + " " +
         std::string(status.message());
}

Status FromReport(const std::string& report) {
  int kind = 0, error = 0, start = 0;
  if (std::sscanf(report.c_str(), "%d %d %n", &kind, &error, &start) != 2) return Status::InvalidArgument(report);
  std::string message = report.substr(static_cast<std::size_t>(start));
  switch (static_cast<StatusKind>(kind)) {
    case StatusKind::kNotFound:
      return Status::NotFound(message);
    case StatusKind::kCorruption:
      return Status::Corruption(message);
    case StatusKind::kUnsupported:
      return Status::Unsupported(message);
    case StatusKind::kNoSpace:
      return Status::NoSpace(message);
    case StatusKind::kReadOnly:
      return Status::ReadOnly(message);
    case StatusKind::kBusy:
      return Status::Busy(message);
    case StatusKind::kNoMemory:
      return Status::NoMemory(message);
    case StatusKind::kIo: {
      // FromErrno says the errno's name again.
      const std::string suffix = std::string(": ") + std::strerror(error);
      if (message.ends_with(suffix)) message.resize(message.size() - suffix.size());
      return Status::FromErrno(error, message);
    }
    case StatusKind::kOk:
    case StatusKind::kInvalidArgument:
      break;
  }
  return Status::InvalidArgument(message);
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

void ToNull(int fd) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  dup2(null, fd);
  close(null);
}

[[noreturn]] void BeDaemon(const MountOptions& options, const MountPlan& plan, int report_fd) {
  setsid();
  if (chdir("/") != 0) {
    // The directory it was started in stays busy, no more.
  }
  ToNull(STDIN_FILENO);
  ToNull(STDOUT_FILENO);
  std::atomic<bool> reported{false};
  const Status status = Serve(options, plan, [&] {
    reported = true;
    ToNull(STDERR_FILENO);
    WriteAll(report_fd, "+");
    close(report_fd);
  });
  if (!reported) {
    WriteAll(report_fd,
             status.ok() ? ToReport(Status::InvalidArgument("unmounted before it answered")) : ToReport(status));
  }
  std::exit(status.ok() ? 0 : 1);
}

}  // namespace

bool AllowOtherByDefault() { return geteuid() == 0; }

Status Mount(const MountOptions& options) {
  STEPFS_ASSIGN_OR_RETURN(const MountPlan plan, CheckMount(options));
  if (options.foreground) {
    return Serve(
        options, plan, options.on_ready ? options.on_ready : [] {});
  }
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return Status::FromErrno(errno, "pipe");
  const pid_t daemon = fork();
  if (daemon < 0) {
    const int error = errno;
    close(report[0]);
    close(report[1]);
    return Status::FromErrno(error, "fork");
  }
  if (daemon == 0) {
    close(report[0]);
    BeDaemon(options, plan, report[1]);
  }
  close(report[1]);
  const std::string answer = ReadAll(report[0]);
  close(report[0]);
  if (answer == "+") {
    if (options.on_ready) options.on_ready();
    return {};
  }
  int status = 0;
  while (waitpid(daemon, &status, 0) < 0 && errno == EINTR) {
  }
  if (!answer.empty()) return FromReport(answer);
  return Status::InvalidArgument(WIFSIGNALED(status)
                                     ? "the daemon was ended by signal " + std::to_string(WTERMSIG(status))
                                     : "the daemon ended before the mount answered");
}

}  // namespace stepfs::fs
