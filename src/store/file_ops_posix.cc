// SPDX-License-Identifier: Apache-2.0
#include "store/file_ops_posix.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <utility>

namespace stepfs::store {
namespace {

Status Failure(const char* call, const std::string& path) {
  const int error = errno;
  std::string what = std::string(call) + " " + path;
  if (error == ENOENT) return Status::NotFound(what + ": no such file or directory");
  return Status::FromErrno(error, std::move(what));
}

template <typename Call>
auto Uninterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// off_t is signed: offsets beyond it would turn negative.
bool FitsFile(std::uint64_t offset, std::size_t bytes) {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  return offset <= kLimit && bytes <= kLimit - offset;
}

class PosixFile final : public File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override { ::close(fd_); }

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableBytes out) const override {
    if (!FitsFile(offset, out.size())) return Status::InvalidArgument("read " + path_ + ": offset too large");
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t count = Uninterrupted(
          [&] { return ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done)); });
      if (count < 0) return Failure("read", path_);
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  Status WriteAt(std::uint64_t offset, Bytes bytes) override {
    if (!FitsFile(offset, bytes.size())) return Status::FromErrno(EFBIG, "write " + path_);
    while (!bytes.empty()) {
      const ssize_t count =
          Uninterrupted([&] { return ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
      if (count < 0) return Failure("write", path_);
      if (count == 0) return Status::FromErrno(EIO, "write " + path_ + " made no progress");
      offset += static_cast<std::uint64_t>(count);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }

  Status Truncate(std::uint64_t size) override {
    if (!FitsFile(size, 0)) return Status::FromErrno(EFBIG, "truncate " + path_);
    if (Uninterrupted([&] { return ::ftruncate(fd_, static_cast<off_t>(size)); }) < 0)
      return Failure("truncate", path_);
    return {};
  }

  Status Sync() override {
    if (Uninterrupted([&] { return ::fdatasync(fd_); }) < 0) return Failure("fdatasync", path_);
    return {};
  }

  Result<std::uint64_t> Size() const override {
    struct stat attributes;
    if (::fstat(fd_, &attributes) < 0) return Failure("fstat", path_);
    return static_cast<std::uint64_t>(attributes.st_size);
  }

  int fd() const override { return fd_; }

 private:
  const int fd_;
  const std::string path_;
};

int OpenFlags(FileOps::Mode mode) {
  switch (mode) {
    case FileOps::Mode::kRead:
      return O_RDONLY;
    case FileOps::Mode::kReadWrite:
      return O_RDWR;
    case FileOps::Mode::kCreate:
      return O_RDWR | O_CREAT;
    case FileOps::Mode::kCreateNew:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

class Posix final : public FileOps {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, Mode mode) override {
    const int fd = Uninterrupted([&] { return ::open(path.c_str(), OpenFlags(mode) | O_CLOEXEC, 0600); });
    if (fd < 0) return Failure("open", path);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(fd, path));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) < 0) return Failure("rename", from + " to " + to);
    return {};
  }

  Status Unlink(const std::string& path) override {
    if (::unlink(path.c_str()) < 0) return Failure("unlink", path);
    return {};
  }

  Status MakeDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) == 0) return {};
    const int error = errno;
    struct stat attributes;
    if (error == EEXIST && ::stat(path.c_str(), &attributes) == 0 && S_ISDIR(attributes.st_mode)) return {};
    errno = error;
    return Failure("mkdir", path);
  }

  Status SyncDirectory(const std::string& path) override {
    const int fd = Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return Failure("open directory", path);
    const PosixFile directory(fd, path);
    if (Uninterrupted([&] { return ::fsync(fd); }) < 0) return Failure("fsync", path);
    return {};
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (!directory) return Failure("opendir", path);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return Failure("readdir", path);
    return names;
  }
};

}  // namespace

FileOps& PosixFileOps() {
  static Posix instance;
  return instance;
}

}  // namespace stepfs::store
