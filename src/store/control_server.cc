// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "store/control.h"
#include "store/control_wire.h"

namespace stepfs::store {
namespace {

constexpr std::size_t kMaxConnections = 32;
// A client that does not read for so long is given up.
constexpr timeval kSendTimeout = {30, 0};

class WireSink final : public ReplySink {
 public:
  WireSink(Wire& wire, const std::atomic<bool>& stopping) : wire_(wire), stopping_(stopping) {}

  bool Progress(std::uint64_t done, std::uint64_t total) override {
    return !stopping_ && Keep(wire_.Send({{"progress", {done, total}}})).ok();
  }
  Status Item(const Json& item) override { return Keep(wire_.Send({{"item", item}})); }
  Status Data(Bytes bytes) override { return Keep(wire_.SendData(bytes)); }

  bool broken() const { return broken_; }

 private:
  Status Keep(Status status) {
    broken_ = broken_ || !status.ok();
    return status;
  }

  Wire& wire_;
  const std::atomic<bool>& stopping_;
  bool broken_ = false;
};

}  // namespace

struct ControlServer::Impl {
  std::string store;
  Handler handler;
  Descriptor listener;
  Descriptor wake;  // An eventfd, readable once the server stops.
  std::atomic<bool> stopping{false};
  std::thread acceptor;

  struct Connection {
    explicit Connection(Descriptor socket) : wire(std::move(socket)) {}
    Wire wire;
    std::thread thread;
    std::atomic<bool> ended{false};
  };
  std::mutex mutex;
  std::list<Connection> connections;  // Guarded by mutex; joined and erased by the acceptor, or at the end.

  void Accept();
  void Serve(Connection& connection);
  void Reap();
};

// The peer must be root or who runs this process: others have no business with the store, whatever its mode allows.
static Status CheckPeer(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return Status::FromErrno(errno, "SO_PEERCRED");
  if (peer.uid == 0 || peer.uid == geteuid()) return {};
  return Status::FromErrno(EACCES, "the store belongs to another user");
}

void ControlServer::Impl::Serve(Connection& connection) {
  Wire& wire = connection.wire;
  const Status allowed = CheckPeer(wire.fd());
  while (!stopping) {
    auto request = wire.Receive();
    if (!request.ok() && request.status().kind() != StatusKind::kCorruption) break;
    Result<Json> result = request;
    WireSink sink(wire, stopping);
    if (!allowed.ok()) {
      result = allowed;
    } else if (request.ok()) {
      result = handler(*request, sink);
    }
    if (sink.broken()) break;
    const Status sent =
        result.ok() ? wire.Send({{"result", *result}}) : wire.Send({{"error", ErrorToJson(result.status())}});
    if (!sent.ok() || !request.ok() || !allowed.ok()) break;
  }
  shutdown(wire.fd(), SHUT_RDWR);
  connection.ended = true;
}

void ControlServer::Impl::Reap() {
  std::lock_guard lock(mutex);
  for (auto at = connections.begin(); at != connections.end();) {
    if (!at->ended) {
      ++at;
      continue;
    }
    at->thread.join();
    at = connections.erase(at);
  }
}

void ControlServer::Impl::Accept() {
  while (!stopping) {
    pollfd waiting[2] = {{listener.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0 && errno != EINTR) break;
    if (stopping || !(waiting[0].revents & POLLIN)) continue;
    Reap();
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) continue;
    (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
    std::lock_guard lock(mutex);
    if (connections.size() >= kMaxConnections) continue;
    Connection& connection = connections.emplace_back(std::move(socket));
    connection.thread = std::thread([this, &connection] { Serve(connection); });
  }
}

ControlServer::ControlServer() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& store, Handler handler) {
  std::unique_ptr<ControlServer> server(new ControlServer());
  Impl& impl = *server->impl_;
  impl.handler = std::move(handler);
  impl.listener = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  impl.wake = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (impl.listener.get() < 0 || impl.wake.get() < 0) return Status::FromErrno(errno, "control socket");
  // The mode of the socket becomes that of the file at bind: it is never open to others, not even for a moment.
  if (fchmod(impl.listener.get(), 0600) != 0) return Status::FromErrno(errno, "control socket");
  if (const int error = AttachSocket(impl.listener.get(), store, SocketSide::kBind); error != 0) {
    return Status::FromErrno(error, "making " + store + "/" + kSocketName);
  }
  impl.store = store;
  if (listen(impl.listener.get(), 16) != 0)
    return Status::FromErrno(errno, "listening at " + store + "/" + kSocketName);
  impl.acceptor = std::thread([&impl] { impl.Accept(); });
  return server;
}

ControlServer::~ControlServer() {
  Impl& impl = *impl_;
  impl.stopping = true;
  if (impl.wake.get() >= 0) (void)eventfd_write(impl.wake.get(), 1);
  if (impl.acceptor.joinable()) impl.acceptor.join();
  if (!impl.store.empty()) (void)unlink((impl.store + "/" + kSocketName).c_str());
  for (Impl::Connection& connection : impl.connections) shutdown(connection.wire.fd(), SHUT_RDWR);
  for (Impl::Connection& connection : impl.connections) connection.thread.join();
}

}  // namespace stepfs::store
