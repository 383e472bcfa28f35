// SPDX-License-Identifier: Apache-2.0
//
// The one boundary between our code and libfuse's callbacks: a handler's body returns a Status or throws, and exactly
// one fuse_reply_* is called for its request. A failure is answered with its errno; EIO and ENOMEM are logged, once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "fs/file_system.h"
#include "fs/fuse_compat.h"
#include "fs/io_mode.h"

namespace stepfs::fs {

// What a request asks for, for the log.
struct Operation {
  const char* name;
  std::uint64_t ino;
};

// The answer to one request. Each call below answers it; REQUIRES that it was not answered before. Those that tell the
// kernel of an inode or a handle take it back when the answer did not arrive (the caller was interrupted).
class Reply {
 public:
  Reply(FileSystem& fs, fuse_req_t request) : fs_(fs), request_(request) {}
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  bool sent() const { return sent_; }
  fuse_req_t request() const { return request_; }

  void Error(int error);  // 0: done, nothing to tell.
  void Entry(const store::Attributes& attributes);
  void Attributes(const store::Attributes& attributes);
  void Open(fuse_file_info info, std::unique_ptr<FileHandle> handle, IoMode mode);
  void OpenDirectory(fuse_file_info info, std::unique_ptr<DirectoryHandle> handle);
  void Create(const store::Attributes& attributes, fuse_file_info info, std::unique_ptr<FileHandle> handle,
              IoMode mode);
  void Data(Bytes bytes);
  void Written(std::size_t bytes);
  void Link(const std::string& target);
  void Statfs(const struct statvfs& info);
  void XattrSize(std::size_t bytes);
  void Position(std::uint64_t offset);

 private:
  void Mark();
  void TakeBack(std::uint64_t handle);

  FileSystem& fs_;
  fuse_req_t request_;
  bool sent_ = false;
};

// Runs the body, turns what it throws into a Status, sends what it did not and logs what deserves it.
void Guarded(FileSystem& fs, Reply& reply, const Operation& operation, const std::function<Status()>& body) noexcept;

// Runs `body(FileSystem&, Reply&) -> Status` for a request.
template <typename Body>
void Handle(fuse_req_t request, const Operation& operation, Body&& body) noexcept {
  FileSystem& fs = FileSystem::Of(request);
  Reply reply(fs, request);
  Guarded(fs, reply, operation, [&] { return body(fs, reply); });
}

}  // namespace stepfs::fs
