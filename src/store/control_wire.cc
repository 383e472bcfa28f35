// SPDX-License-Identifier: Apache-2.0
#include "store/control_wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace stepfs::store {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

int AttachSocket(int socket, const std::string& store, SocketSide side) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = store + "/" + kSocketName;
  Descriptor directory;
  if (path.size() >= sizeof address.sun_path) {
    directory = Descriptor(open(store.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0) return errno;
    path = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + kSocketName;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (side == SocketSide::kBind && unlink(path.c_str()) != 0 && errno != ENOENT) return errno;
  const int failed =
      side == SocketSide::kBind ? bind(socket, generic, sizeof address) : connect(socket, generic, sizeof address);
  return failed == 0 ? 0 : errno;
}

Status Wire::SendAll(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Status::FromErrno(errno, "control socket");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return {};
}

Status Wire::Send(const Json& message) { return SendAll(AsBytes(ToLine(message) + "\n")); }

Status Wire::SendData(Bytes bytes) {
  STEPFS_RETURN_IF_ERROR(Send({{"data", bytes.size()}}));
  return SendAll(bytes);
}

Status Wire::Fill() {
  char piece[4096];
  for (;;) {
    const ssize_t got = recv(fd(), piece, sizeof piece, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "control socket");
    if (got == 0) return Status::NotFound("the other side of the control socket has gone");
    buffer_.append(piece, static_cast<std::size_t>(got));
    return {};
  }
}

Result<Json> Wire::Receive() {
  std::size_t searched = 0, end;
  while ((end = buffer_.find('\n', searched)) == buffer_.npos) {
    if (buffer_.size() > kMaxLineBytes) return Status::Corruption("a line on the control socket is too long");
    searched = buffer_.size();
    STEPFS_RETURN_IF_ERROR(Fill());
  }
  Json message = Json::parse(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
  buffer_.erase(0, end + 1);
  if (message.is_discarded()) return Status::Corruption("a line on the control socket is not JSON");
  return message;
}

Status Wire::ReceiveData(MutableBytes out) {
  const std::size_t buffered = std::min(out.size(), buffer_.size());
  std::memcpy(out.data(), buffer_.data(), buffered);
  buffer_.erase(0, buffered);
  for (out = out.subspan(buffered); !out.empty();) {
    const ssize_t got = recv(fd(), out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "control socket");
    if (got == 0) return Status::NotFound("the other side of the control socket has gone");
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Json ErrorToJson(const Status& status) {
  return {{"kind", static_cast<int>(status.kind())},
          {"errno", status.ToErrno()},
          {"message", std::string(status.message())}};
}

Status ErrorFromJson(const Json& error) {
  if (!error.is_object()) return Status::Corruption("a malformed error came over the control socket");
  std::string message = error.value("message", "");
  const int number = error.value("errno", EIO);
  switch (static_cast<StatusKind>(error.value("kind", static_cast<int>(StatusKind::kIo)))) {
    case StatusKind::kNotFound:
      return Status::NotFound(std::move(message));
    case StatusKind::kInvalidArgument:
      return Status::InvalidArgument(std::move(message));
    case StatusKind::kCorruption:
      return Status::Corruption(std::move(message));
    case StatusKind::kUnsupported:
      return Status::Unsupported(std::move(message));
    case StatusKind::kNoSpace:
      return Status::NoSpace(std::move(message));
    case StatusKind::kReadOnly:
      return Status::ReadOnly(std::move(message));
    case StatusKind::kBusy:
      return Status::Busy(std::move(message));
    case StatusKind::kNoMemory:
      return Status::NoMemory(std::move(message));
    case StatusKind::kOk:
    case StatusKind::kIo:
      break;
  }
  // FromErrno appends the errno's text, which the message has already.
  const std::string text = std::string(": ") + std::strerror(number);
  if (message.ends_with(text)) message.resize(message.size() - text.size());
  return message.empty() ? Status::Posix(number) : Status::FromErrno(number, message);
}

}  // namespace stepfs::store
