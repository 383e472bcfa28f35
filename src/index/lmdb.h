// SPDX-License-Identifier: Apache-2.0
//
// LMDB behind move-only types. Nothing outside lmdb.cc sees <lmdb.h>.
//
// Views that a transaction or cursor returns point into the map and die with the transaction. Statuses: kNotFound,
// kNoSpace (disk or map full), kCorruption (LMDB found its pages inconsistent), kIo with the errno. Tables are named by
// their position in the list given to Open.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

struct MDB_env;
struct MDB_txn;
struct MDB_cursor;

namespace stepfs::index {

class Env;

// A consistent view of all tables. Used by one thread at a time. Short-lived: it holds back the reuse of freed pages
// and the growth of the map.
class ReadTxn {
 public:
  ReadTxn(ReadTxn&& other) noexcept : env_(other.env_), txn_(std::exchange(other.txn_, nullptr)) {}
  ReadTxn& operator=(ReadTxn&&) = delete;
  ~ReadTxn();

  Result<std::optional<std::string_view>> Get(std::size_t table, std::string_view key) const;

 private:
  friend class Env;
  friend class Cursor;
  ReadTxn(Env* env, MDB_txn* txn) : env_(env), txn_(txn) {}

  Env* env_;
  MDB_txn* txn_;
};

// Walks one table in key order. Must not outlive its transaction. Moving off either end makes it invalid.
class Cursor {
 public:
  static Result<Cursor> Open(const ReadTxn& txn, std::size_t table);
  Cursor(Cursor&& other) noexcept
      : cursor_(std::exchange(other.cursor_, nullptr)), valid_(other.valid_), key_(other.key_), value_(other.value_) {}
  Cursor& operator=(Cursor&&) = delete;
  ~Cursor();

  // To the first row with a key >= `key`.
  Status SeekAtLeast(std::string_view key);
  // To the last row with a key < `key`; without one, to the last row.
  Status SeekBelow(std::optional<std::string_view> key);
  // REQUIRES: valid().
  Status Next();
  Status Previous();

  bool valid() const { return valid_; }
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }

 private:
  explicit Cursor(MDB_cursor* cursor) : cursor_(cursor) {}
  Status Move(std::string_view key, int operation);

  MDB_cursor* cursor_;
  bool valid_ = false;
  std::string_view key_;
  std::string_view value_;
};

// At most one at a time in an Env (a second waits for the first). Aborts unless committed.
class WriteTxn {
 public:
  WriteTxn(WriteTxn&& other) noexcept
      : env_(other.env_), txn_(std::exchange(other.txn_, nullptr)), map_full_(other.map_full_) {}
  WriteTxn& operator=(WriteTxn&&) = delete;
  ~WriteTxn();

  // Room for a value of `bytes` under `key`, to be filled before the next call.
  Result<std::span<std::byte>> Reserve(std::size_t table, std::string_view key, std::size_t bytes);
  // Deleting what is not there is fine.
  Status Delete(std::size_t table, std::string_view key);
  // Durable when it returns Ok. Ends the transaction either way.
  Status Commit();

  // The failure just returned was LMDB's own limit, which Env::GrowMap lifts, not the disk's.
  bool map_full() const { return map_full_; }

 private:
  friend class Env;
  WriteTxn(Env* env, MDB_txn* txn) : env_(env), txn_(txn) {}
  Status Fail(int error, const char* what);

  Env* env_;
  MDB_txn* txn_;
  bool map_full_ = false;
};

// Thread-safe. One per directory in a process, one process per directory; transactions must be gone before it.
class Env {
 public:
  // Makes directory and tables if absent. Full sync on every commit. The caller has checked an existing data file
  // (lmdb_check.h): LMDB itself crashes on some damaged ones.
  static Result<std::unique_ptr<Env>> Open(const std::string& directory, std::uint64_t map_bytes,
                                           std::span<const char* const> table_names);
  ~Env();

  // Waits while kMaxReaders transactions are alive.
  Result<ReadTxn> BeginRead();
  Result<WriteTxn> BeginWrite();
  // Doubles the map; waits for readers to finish. REQUIRES: no WriteTxn alive.
  Status GrowMap();
  // Size of the data file.
  std::uint64_t file_bytes() const;

  static constexpr unsigned kMaxReaders = 120;  // Below LMDB's 126 slots: pooled transactions keep theirs.

 private:
  friend class ReadTxn;
  friend class Cursor;
  friend class WriteTxn;
  Env() = default;
  Status OpenTables(std::span<const char* const> table_names);
  void Recycle(MDB_txn* txn);

  MDB_env* env_ = nullptr;
  std::vector<unsigned> tables_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::vector<MDB_txn*> idle_;  // Reset read transactions; renewing one costs no allocation and no lock of LMDB's.
  unsigned active_readers_ = 0;
  bool growing_ = false;
};

}  // namespace stepfs::index
