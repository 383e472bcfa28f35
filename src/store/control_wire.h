// SPDX-License-Identifier: Apache-2.0
//
// The bytes on a control socket. Both sides send lines of JSON. A request is one object; the answer to it is any number
// of
//   {"progress": [done, total]}
//   {"item": ...}
//   {"data": N}        followed by N raw bytes
// and then one of
//   {"result": ...}
//   {"error": {"kind": K, "errno": E, "message": "..."}}
//
// Internal to control_server.cc and control_client.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "store/report.h"

namespace stepfs::store {

inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDataBytes = std::size_t{64} << 20;
inline constexpr const char* kSocketName = "control.sock";

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

// Binds or connects `socket` to STORE/control.sock, also where that path is longer than a socket address can hold.
// Returns 0 or an errno value.
enum class SocketSide { kBind, kConnect };
int AttachSocket(int socket, const std::string& store, SocketSide side);

// One connection; buffers what it reads. Used by one thread at a time, but shutdown(2) of fd() from another ends it.
class Wire {
 public:
  explicit Wire(Descriptor socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }

  Status Send(const Json& message);
  Status SendData(Bytes bytes);

  // The next line, parsed. kNotFound when the other side has closed; kCorruption for what is not JSON or too long.
  Result<Json> Receive();
  Status ReceiveData(MutableBytes out);

 private:
  Status SendAll(Bytes bytes);
  Status Fill();

  Descriptor socket_;
  std::string buffer_;
};

Json ErrorToJson(const Status& status);
Status ErrorFromJson(const Json& error);

}  // namespace stepfs::store
