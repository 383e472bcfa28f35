// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace stepfs {
namespace {

const char* KindName(StatusKind kind) {
  switch (kind) {
    case StatusKind::kOk: return "ok";
    case StatusKind::kNotFound: return "not found";
    case StatusKind::kInvalidArgument: return "invalid argument";
    case StatusKind::kCorruption: return "corruption";
    case StatusKind::kUnsupported: return "unsupported";
    case StatusKind::kNoSpace: return "no space";
    case StatusKind::kIo: return "i/o error";
    case StatusKind::kReadOnly: return "read-only";
    case StatusKind::kBusy: return "busy";
    case StatusKind::kNoMemory: return "out of memory";
  }
  return "unknown";
}

}  // namespace

Status Status::FromErrno(int error, std::string what) {
  if (error == 0) error = EIO;
  what += ": ";
  what += std::strerror(error);
  return {error == ENOSPC ? StatusKind::kNoSpace : StatusKind::kIo, std::move(what), error};
}

int Status::ToErrno() const {
  switch (kind()) {
    case StatusKind::kOk: return 0;
    case StatusKind::kNotFound: return ENOENT;
    case StatusKind::kInvalidArgument: return EINVAL;
    case StatusKind::kCorruption: return EIO;
    case StatusKind::kUnsupported: return EOPNOTSUPP;
    case StatusKind::kNoSpace: return ENOSPC;
    case StatusKind::kIo: return rep_->error ? rep_->error : EIO;
    case StatusKind::kReadOnly: return EROFS;
    case StatusKind::kBusy: return EBUSY;
    case StatusKind::kNoMemory: return ENOMEM;
  }
  return EIO;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text = KindName(kind());
  text += ": ";
  text += rep_->message.empty() ? std::strerror(ToErrno()) : rep_->message.c_str();
  return text;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  std::string text(context);
  text += ": ";
  text += rep_->message.empty() ? std::string(std::strerror(ToErrno())) : rep_->message;
  return {rep_->kind, std::move(text), rep_->error};
}

}  // namespace stepfs
