// SPDX-License-Identifier: Apache-2.0
//
// The control socket STORE/control.sock (mode 0600): how a command asks the process that owns a store. Only root and
// the user the owner runs as are answered. Each connection carries one request at a time; several connections are
// served at once, so that a `status` need not wait for a `sync`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "store/report.h"

namespace stepfs::store {

class ControlServer {
 public:
  // Called from several threads at once.
  using Handler = std::function<Result<Json>(const Json& request, ReplySink& sink)>;

  // REQUIRES: this process holds the lock of the store, so that a socket found there is a leftover.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& store, Handler handler);
  // Removes the socket, tells running commands that nobody listens any more (ReplySink), waits for them.
  ~ControlServer();

 private:
  ControlServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Asks the owner of the store. kNotFound with a message when no process answers there (the caller may open the store
// itself then); kIo with EACCES when the store is another user's. Failures of the command come back as the owner had
// them.
class ControlClient {
 public:
  static Result<ControlClient> Connect(const std::string& store);
  ControlClient(ControlClient&&) noexcept;
  ~ControlClient();

  // Sends the request and passes what comes before the result to `sink`. When sink.Progress says false, or the sink
  // fails, the connection is of no more use.
  Result<Json> Call(const Json& request, ReplySink& sink);

 private:
  ControlClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfs::store
