// SPDX-License-Identifier: Apache-2.0
#include "cli/file_io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace stepfs::cli {

Result<std::unique_ptr<FileSource>> FileSource::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, path);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::InvalidArgument(path + " is not a regular file");
  }
  return std::unique_ptr<FileSource>(new FileSource(path, fd, static_cast<std::uint64_t>(info.st_size)));
}

FileSource::~FileSource() { close(fd_); }

Status FileSource::ReadAt(std::uint64_t offset, MutableBytes out) const {
  if (offset > size_ || out.size() > size_ - offset) return Status::InvalidArgument("read beyond the end of " + path_);
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, path_);
    if (got == 0) return Status::FromErrno(EIO, path_ + " shrank while it was read");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path, bool replace) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return Status::InvalidArgument(path + " is there and not a regular file");
    if (!replace) return Status::InvalidArgument(path + " is there already; --force replaces it");
  }
  const auto slash = path.rfind('/');
  const std::string name = slash == path.npos ? path : path.substr(slash + 1);
  if (name.empty()) return Status::InvalidArgument(path + " names no file");
  std::string temporary = (slash == path.npos ? "" : path.substr(0, slash + 1)) + ".stepfs-XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "making " + path);
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fd, 0666 & ~mask) != 0) {
    // A file system without modes: the file is made all the same.
  }
  return std::unique_ptr<OutputFile>(new OutputFile(path, temporary, fd, replace));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_) unlink(temporary_.c_str());
}

Status OutputFile::Failed(const char* what) const { return Status::FromErrno(errno, what + (" " + path_)); }

Status OutputFile::Append(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("writing");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status OutputFile::SetMode(unsigned mode) { return fchmod(fd_, mode & 0777) == 0 ? Status() : Failed("chmod of"); }

Status OutputFile::SetMtime(std::int64_t nanoseconds) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t fraction = nanoseconds % kSecond;
  if (fraction < 0) fraction += kSecond;
  const timespec times[2] = {{0, UTIME_OMIT}, {(nanoseconds - fraction) / kSecond, fraction}};
  return futimens(fd_, times) == 0 ? Status() : Failed("setting the time of");
}

Status OutputFile::Commit() {
  if (fsync(fd_) != 0) return Failed("writing");
  if (!replace_) {
    if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) {
      committed_ = true;
      return {};
    }
    if (errno == EEXIST) return Status::InvalidArgument(path_ + " is there already; --force replaces it");
    if (errno != EINVAL && errno != ENOSYS) return Failed("making");
    // A file system without that flag: look, then rename.
    if (access(path_.c_str(), F_OK) == 0) {
      return Status::InvalidArgument(path_ + " is there already; --force replaces it");
    }
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("making");
  committed_ = true;
  return {};
}

}  // namespace stepfs::cli
