// SPDX-License-Identifier: Apache-2.0
//
// Files outside a store: read as sources, and written so that a half-written one never has the name that was asked for.
#pragma once

#include <memory>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"

namespace stepfs::cli {

// A regular file, read with pread: larger than memory is no matter. Thread-safe.
class FileSource final : public ByteSource {
 public:
  static Result<std::unique_ptr<FileSource>> Open(const std::string& path);
  ~FileSource() override;
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override;

 private:
  FileSource(std::string path, int fd, std::uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  const std::string path_;
  const int fd_;
  const std::uint64_t size_;
};

// A file that comes into being at Commit: until then it has a temporary name beside its own, and goes with this object.
class OutputFile final : public ByteSink {
 public:
  // kInvalidArgument when `path` is there already and `replace` is not set, or is no regular file.
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& path, bool replace);
  ~OutputFile() override;

  Status Append(Bytes bytes) override;
  Status SetMode(unsigned mode);  // Permission bits. Default: 0666 less the umask.
  Status SetMtime(std::int64_t nanoseconds);
  // Syncs and renames. Fails when the name has come into being meanwhile and is not to be replaced.
  Status Commit();

 private:
  OutputFile(std::string path, std::string temporary, int fd, bool replace)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd), replace_(replace) {}
  Status Failed(const char* what) const;

  const std::string path_;
  const std::string temporary_;
  int fd_;
  const bool replace_;
  bool committed_ = false;
};

}  // namespace stepfs::cli
