// SPDX-License-Identifier: Apache-2.0
//
// Store: one open store directory. Owns every part of it and their order of birth and death: the exclusive lock, the
// format file, the index, contents, sealer, tree, history, the threads that sync and checkpoint, and recovery at start.
//
// Open after daemonizing. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "store/content_store.h"
#include "store/history.h"
#include "store/sealer.h"
#include "store/tree.h"

namespace stepfs::store {

struct StoreOptions {
  std::string root;             // The store directory; made (0700) when it is absent and `create` is set.
  std::string index_directory;  // Empty: root/index.
  bool create = true;
  bool start_threads = true;      // Off in tests that step through the work themselves.
  std::uint64_t cache_bytes = 0;  // 0: a tenth of the free space.
  int encode_threads = 0;
  codec::CodecChoice codec = codec::CodecChoice::kDefault;
  bool durable_close = false;
  std::string boot_id;       // Empty: that of the running system. Tests pretend to have rebooted.
  FileOps* files = nullptr;  // nullptr: real files.
  std::function<void(const SealReport&)> on_seal;
  std::function<void(const std::string&)> on_warning;
};

class Store {
 public:
  // kBusy when another process owns the store; kUnsupported for an unknown format or feature, a network file system
  // under the index, or a store that other users may write to; kNotFound when absent and !create. The message says
  // what to do. Nothing is changed by a refused open.
  static Result<std::unique_ptr<Store>> Open(const StoreOptions& options);
  // Close() if that was not called.
  ~Store();

  // Commits and syncs everything, checkpoints, marks the session clean. Does not wait for the encoder.
  Status Close();

  // Lets go of the store as a killed process would: nothing is committed, synced or marked clean.
  void AbandonForTesting();

  Tree& tree();
  History& history();
  Catalog& catalog();
  ContentStore& contents();
  Sealer& sealer();
  const RecoveryReport& recovery() const;
  const std::string& root() const;
  const std::string& uuid() const;

  // Makes everything closed durable and waits for the encoder (`stepfs sync`).
  Status SyncAndDrain(const std::function<bool(std::uint64_t done_bytes, std::uint64_t total_bytes)>& progress);

  struct Usage {
    std::uint64_t logical_bytes = 0;  // Of all versions.
    std::uint64_t stored_bytes = 0;   // What they need, encoded (staged ones: raw).
    std::uint64_t versions = 0;
    std::uint64_t backlog_bytes = 0;
    ContentStore::DiskUse disk;
    std::uint64_t index_bytes = 0;
    std::vector<std::string> warnings;
  };
  Result<Usage> GetUsage() const;

  // Reads everything stored and checks it: checksums, or with `deep` every version decoded and compared with its
  // digest.
  struct Damage {
    std::string path;
    VersionNumber version = 0;
    std::string what;
  };
  Result<std::vector<Damage>> Verify(bool deep,
                                     const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress);

 private:
  Store();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfs::store
