// SPDX-License-Identifier: Apache-2.0
//
// A mount from beginning to end: check, go into the background, open the store, mount, serve, unmount, close.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "codec/frame.h"
#include "store/store.h"

namespace stepfs::fs {

// May others than who mounts use it: as on any file system when root mounts.
bool AllowOtherByDefault();

struct MountOptions {
  std::string store;  // Made when it is absent.
  std::string mountpoint;
  bool foreground = false;
  bool allow_other = AllowOtherByDefault();
  std::string index_directory;    // Empty: in the store.
  std::uint64_t cache_bytes = 0;  // Budget for raw copies of the newest versions; 0: a tenth of the free space.
  int encode_threads = 0;         // 0: as many as there are processors.
  codec::CodecChoice codec = codec::CodecChoice::kDefault;
  bool durable_close = false;  // close(2) waits for the disk.
  bool passthrough = true;     // Let the kernel read and write the store's files itself where it can.

  // All of them are called in the process that serves (the daemon), but on_ready.
  std::function<Status(store::Store&)> on_open;  // The store is open, the mount not there yet. A failure ends it.
  std::function<void(store::Store&)> on_close;   // The mount is gone; the store closes next. Only after on_open was ok.
  std::function<void(const store::SealReport&)> on_seal;
  std::function<void(const std::string&)> on_warning;  // Default: a warning in the log.
  std::function<void()> on_ready;  // The mount answers. In the foreground another thread calls it, else the caller's.
};

// Mounts. In the foreground it returns when the mount has gone and the store is closed. Otherwise it returns as soon as
// the mount answers or has failed; the daemon that serves it is a child process, which ends by std::exit without
// returning. REQUIRES, for the background: this process has one thread.
//
// SIGTERM, SIGINT and SIGHUP end a served mount cleanly. The message of a failure says what to do.
Status Mount(const MountOptions& options);

// Unmounts what Mount() mounted at `mountpoint`, and waits until its daemon has closed the store: everything that was
// acknowledged is then in the store and on disk. kBusy, with the processes that hold it, when it is in use; kNotFound
// when no stepfs is mounted there.
Status Unmount(const std::string& mountpoint);

}  // namespace stepfs::fs
