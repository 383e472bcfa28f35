// SPDX-License-Identifier: Apache-2.0
#include "fs/reply.h"

#include <spdlog/spdlog.h>
#include <sys/statvfs.h>

#include <cassert>
#include <cerrno>
#include <exception>
#include <new>

namespace stepfs::fs {
namespace {

// libfuse's answer when the request it belongs to was interrupted and forgotten.
bool Arrived(int result) { return result != -ENOENT; }

void ApplyMode(fuse_file_info& info, IoMode mode) {
  info.keep_cache = mode.keep_cache ? 1 : 0;
  info.noflush = mode.no_flush ? 1 : 0;
}

void Log(FileSystem& fs, const Operation& operation, const Status& status) noexcept {
  try {
    spdlog::error("{} of {}: {}", operation.name, fs.Describe(operation.ino), status.ToString());
  } catch (...) {
    // No memory for a log line; the caller still gets its errno.
  }
}

}  // namespace

void Reply::Mark() {
  assert(!sent_);
  sent_ = true;
}

void Reply::Error(int error) {
  Mark();
  fuse_reply_err(request_, error);
}

void Reply::Entry(const store::Attributes& attributes) {
  const fuse_entry_param entry = ToEntry(attributes);
  Mark();
  if (!Arrived(fuse_reply_entry(request_, &entry))) fs_.Drop(attributes.ino, 1);
}

void Reply::Attributes(const store::Attributes& attributes) {
  const struct stat stat = ToStat(attributes);
  Mark();
  fuse_reply_attr(request_, &stat, AttributeSeconds(attributes.ino));
}

void Reply::TakeBack(std::uint64_t handle) {
  const auto file = fs_.files.Take(handle);
  if (file->live) (void)fs_.tree().Release(std::move(file->live));
}

void Reply::Open(fuse_file_info info, std::unique_ptr<FileHandle> handle, IoMode mode) {
  ApplyMode(info, mode);
  info.fh = fs_.files.Add(std::move(handle));
  Mark();
  if (!Arrived(fuse_reply_open(request_, &info))) TakeBack(info.fh);
}

void Reply::OpenDirectory(fuse_file_info info, std::unique_ptr<DirectoryHandle> handle) {
  info.fh = fs_.directories.Add(std::move(handle));
  Mark();
  if (!Arrived(fuse_reply_open(request_, &info))) fs_.directories.Take(info.fh);
}

void Reply::Create(const store::Attributes& attributes, fuse_file_info info, std::unique_ptr<FileHandle> handle,
                   IoMode mode) {
  const fuse_entry_param entry = ToEntry(attributes);
  ApplyMode(info, mode);
  info.fh = fs_.files.Add(std::move(handle));
  Mark();
  if (!Arrived(fuse_reply_create(request_, &entry, &info))) {
    TakeBack(info.fh);
    fs_.Drop(attributes.ino, 1);
  }
}

void Reply::Data(Bytes bytes) {
  Mark();
  fuse_reply_buf(request_, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void Reply::Written(std::size_t bytes) {
  Mark();
  fuse_reply_write(request_, bytes);
}

void Reply::Link(const std::string& target) {
  Mark();
  fuse_reply_readlink(request_, target.c_str());
}

void Reply::Statfs(const struct statvfs& info) {
  Mark();
  fuse_reply_statfs(request_, &info);
}

void Reply::XattrSize(std::size_t bytes) {
  Mark();
  fuse_reply_xattr(request_, bytes);
}

void Reply::Position(std::uint64_t offset) {
  Mark();
  fuse_reply_lseek(request_, static_cast<off_t>(offset));
}

void Guarded(FileSystem& fs, Reply& reply, const Operation& operation, const std::function<Status()>& body) noexcept {
  int error = EIO;
  try {
    const Status status = body();
    error = status.ToErrno();
    if (error == EIO || error == ENOMEM) Log(fs, operation, status);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
    spdlog::error("{} of inode {}: out of memory", operation.name, operation.ino);
  } catch (const std::exception& exception) {
    spdlog::error("{} of inode {}: unexpected: {}", operation.name, operation.ino, exception.what());
  } catch (...) {
    spdlog::error("{} of inode {}: unexpected exception", operation.name, operation.ino);
  }
  if (!reply.sent()) reply.Error(error);
}

}  // namespace stepfs::fs
