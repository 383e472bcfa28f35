// SPDX-License-Identifier: Apache-2.0
//
// Status: the outcome of an operation that can fail for reasons outside the program: damaged bytes, a full disk, a name
// that does not exist. Success costs one pointer-sized compare; failure carries a kind, a message that says what was
// expected and what was found, and for system calls the errno.
//
// Thread safety: a Status is a value; const access from several threads is safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stepfs {

// Each kind maps to one errno (Status::ToErrno). The list may grow; kinds are not persisted.
enum class StatusKind {
  kOk,
  kNotFound,         // No such entry.                                       ENOENT
  kInvalidArgument,  // The caller's shape or option is wrong.               EINVAL
  kCorruption,       // Checksum, truncation, impossible field, broken chain. EIO
  kUnsupported,      // Newer format or unknown codec id.                    EOPNOTSUPP
  kNoSpace,          // Disk or index full.                                  ENOSPC
  kIo,               // A system call failed; its errno is carried.
  kReadOnly,         //                                                      EROFS
  kBusy,             //                                                      EBUSY
  kNoMemory,         //                                                      ENOMEM
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // Success.
  static Status Ok() { return {}; }
  static Status NotFound(std::string message) { return {StatusKind::kNotFound, std::move(message)}; }
  static Status InvalidArgument(std::string message) { return {StatusKind::kInvalidArgument, std::move(message)}; }
  static Status Corruption(std::string message) { return {StatusKind::kCorruption, std::move(message)}; }
  static Status Unsupported(std::string message) { return {StatusKind::kUnsupported, std::move(message)}; }
  static Status NoSpace(std::string message) { return {StatusKind::kNoSpace, std::move(message)}; }
  static Status ReadOnly(std::string message) { return {StatusKind::kReadOnly, std::move(message)}; }
  static Status Busy(std::string message) { return {StatusKind::kBusy, std::move(message)}; }
  static Status NoMemory(std::string message) { return {StatusKind::kNoMemory, std::move(message)}; }

  // A failed system call; `error` is an errno value and `what` says which call on what. ENOSPC becomes kNoSpace.
  static Status FromErrno(int error, std::string what);
  // A POSIX answer that is not a failure of the machine (EEXIST, ENOTEMPTY, ...): kind kIo with that errno, short message.
  static Status Posix(int error) { return {StatusKind::kIo, {}, error}; }

  bool ok() const { return rep_ == nullptr; }
  StatusKind kind() const { return rep_ ? rep_->kind : StatusKind::kOk; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : std::string_view(); }

  // The errno this status is answered with; 0 for success. Never 0 for a failure.
  int ToErrno() const;
  // "corruption: blob 12: chunk 3: ..." for logs and the command line.
  std::string ToString() const;
  // The same failure with "context: " in front of its message; success stays success.
  Status WithContext(std::string_view context) const;

 private:
  struct Rep {
    StatusKind kind;
    int error;
    std::string message;
  };
  Status(StatusKind kind, std::string message, int error = 0)
      : rep_(std::make_shared<const Rep>(Rep{kind, error, std::move(message)})) {}

  std::shared_ptr<const Rep> rep_;
};

}  // namespace stepfs
