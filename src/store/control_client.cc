// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "store/control.h"
#include "store/control_wire.h"

namespace stepfs::store {

struct ControlClient::Impl {
  explicit Impl(Descriptor socket) : wire(std::move(socket)) {}
  Wire wire;
};

ControlClient::ControlClient() = default;
ControlClient::ControlClient(ControlClient&&) noexcept = default;
ControlClient::~ControlClient() = default;

Result<ControlClient> ControlClient::Connect(const std::string& store) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return Status::FromErrno(errno, "socket");
  const int error = AttachSocket(socket.get(), store, SocketSide::kConnect);
  if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR) {
    return Status::NotFound("no process serves the store " + store);
  }
  if (error != 0) return Status::FromErrno(error, store + "/" + kSocketName);
  ControlClient client;
  client.impl_ = std::make_unique<Impl>(std::move(socket));
  return client;
}

namespace {

Status PassData(Wire& wire, const Json& length, ReplySink& sink) {
  if (!length.is_number_unsigned() || length.get<std::uint64_t>() > kMaxDataBytes) {
    return Status::Corruption("a malformed length came over the control socket");
  }
  ByteVector bytes(length.get<std::size_t>());
  STEPFS_RETURN_IF_ERROR(wire.ReceiveData(bytes));
  return sink.Data(bytes);
}

bool PassProgress(const Json& progress, ReplySink& sink) {
  if (!progress.is_array() || progress.size() != 2) return true;
  return sink.Progress(progress[0].get<std::uint64_t>(), progress[1].get<std::uint64_t>());
}

}  // namespace

Result<Json> ControlClient::Call(const Json& request, ReplySink& sink) {
  Wire& wire = impl_->wire;
  STEPFS_RETURN_IF_ERROR(wire.Send(request));
  try {
    for (;;) {
      auto message = wire.Receive();
      if (!message.ok()) {
        return message.status().kind() == StatusKind::kNotFound
                   ? Status::FromErrno(EPIPE, "the owner of the store ended before it answered")
                   : message.status();
      }
      if (!message->is_object()) return Status::Corruption("a malformed answer came over the control socket");
      if (message->contains("result")) return (*message)["result"];
      if (message->contains("error")) return ErrorFromJson((*message)["error"]);
      if (message->contains("item")) STEPFS_RETURN_IF_ERROR(sink.Item((*message)["item"]));
      if (message->contains("data")) STEPFS_RETURN_IF_ERROR(PassData(wire, (*message)["data"], sink));
      if (message->contains("progress") && !PassProgress((*message)["progress"], sink)) {
        return Status::FromErrno(ECANCELED, "given up");
      }
    }
  } catch (const nlohmann::json::exception& error) {
    return Status::Corruption("a malformed answer came over the control socket: " + std::string(error.what()));
  }
}

}  // namespace stepfs::store
