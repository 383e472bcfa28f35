// SPDX-License-Identifier: Apache-2.0
#include "index/lmdb.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace stepfs::index {
namespace {

Status FromLmdb(int error, const char* what) {
  std::string message = std::string("lmdb: ") + what + ": " + mdb_strerror(error);
  switch (error) {
    case MDB_NOTFOUND:
      return Status::NotFound(std::move(message));
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
      return Status::NoSpace(std::move(message));
    case MDB_PAGE_NOTFOUND:
    case MDB_CORRUPTED:
    case MDB_PANIC:
    case MDB_INVALID:
    case MDB_CURSOR_FULL:
      return Status::Corruption(std::move(message));
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
      return Status::Unsupported(std::move(message));
    case MDB_READERS_FULL:
      return Status::Busy(std::move(message));
    default:
      return Status::FromErrno(error > 0 ? error : EIO, std::move(message));
  }
}

MDB_val ToValue(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
std::string_view ToView(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

Status SyncPath(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno(errno, "open " + directory);
  const int error = ::fsync(fd) < 0 ? errno : 0;
  ::close(fd);
  return error ? Status::FromErrno(error, "fsync " + directory) : Status();
}

}  // namespace

ReadTxn::~ReadTxn() {
  if (txn_ != nullptr) env_->Recycle(txn_);
}

Result<std::optional<std::string_view>> ReadTxn::Get(std::size_t table, std::string_view key) const {
  MDB_val raw_key = ToValue(key);
  MDB_val value;
  const int error = mdb_get(txn_, env_->tables_[table], &raw_key, &value);
  if (error == MDB_NOTFOUND) return std::optional<std::string_view>();
  if (error != 0) return FromLmdb(error, "get");
  return std::optional(ToView(value));
}

Result<Cursor> Cursor::Open(const ReadTxn& txn, std::size_t table) {
  MDB_cursor* cursor = nullptr;
  if (const int error = mdb_cursor_open(txn.txn_, txn.env_->tables_[table], &cursor)) {
    return FromLmdb(error, "open cursor");
  }
  return Cursor(cursor);
}

Cursor::~Cursor() {
  if (cursor_ != nullptr) mdb_cursor_close(cursor_);
}

Status Cursor::Move(std::string_view key, int operation) {
  MDB_val raw_key = ToValue(key);
  MDB_val value;
  const int error = mdb_cursor_get(cursor_, &raw_key, &value, static_cast<MDB_cursor_op>(operation));
  valid_ = error == 0;
  if (error == MDB_NOTFOUND) return {};
  if (error != 0) return FromLmdb(error, "move cursor");
  key_ = ToView(raw_key);
  value_ = ToView(value);
  return {};
}

Status Cursor::SeekAtLeast(std::string_view key) { return Move(key, key.empty() ? MDB_FIRST : MDB_SET_RANGE); }

Status Cursor::SeekBelow(std::optional<std::string_view> key) {
  if (!key) return Move({}, MDB_LAST);
  STEPFS_RETURN_IF_ERROR(SeekAtLeast(*key));
  return Move({}, valid_ ? MDB_PREV : MDB_LAST);
}

Status Cursor::Next() { return Move({}, MDB_NEXT); }
Status Cursor::Previous() { return Move({}, MDB_PREV); }

WriteTxn::~WriteTxn() {
  if (txn_ != nullptr) mdb_txn_abort(txn_);
}

Status WriteTxn::Fail(int error, const char* what) {
  map_full_ = error == MDB_MAP_FULL;
  return FromLmdb(error, what);
}

Result<std::span<std::byte>> WriteTxn::Reserve(std::size_t table, std::string_view key, std::size_t bytes) {
  MDB_val raw_key = ToValue(key);
  MDB_val value{bytes, nullptr};
  if (const int error = mdb_put(txn_, env_->tables_[table], &raw_key, &value, MDB_RESERVE)) return Fail(error, "put");
  return std::span(static_cast<std::byte*>(value.mv_data), bytes);
}

Status WriteTxn::Delete(std::size_t table, std::string_view key) {
  MDB_val raw_key = ToValue(key);
  const int error = mdb_del(txn_, env_->tables_[table], &raw_key, nullptr);
  return error == 0 || error == MDB_NOTFOUND ? Status() : Fail(error, "delete");
}

Status WriteTxn::Commit() {
  const int error = mdb_txn_commit(std::exchange(txn_, nullptr));
  return error == 0 ? Status() : Fail(error, "commit");
}

Result<std::unique_ptr<Env>> Env::Open(const std::string& directory, std::uint64_t map_bytes,
                                       std::span<const char* const> table_names) {
  if (::mkdir(directory.c_str(), 0700) < 0 && errno != EEXIST) return Status::FromErrno(errno, "mkdir " + directory);
  constexpr std::uint64_t kLeastMapBytes = std::uint64_t{1} << 20;
  map_bytes = std::max(map_bytes & ~std::uint64_t{0xffff}, kLeastMapBytes);

  std::unique_ptr<Env> env(new Env);
  for (;; map_bytes = std::max(map_bytes / 2, kLeastMapBytes)) {
    if (const int error = mdb_env_create(&env->env_)) return FromLmdb(error, "create environment");
    mdb_env_set_maxdbs(env->env_, static_cast<unsigned>(table_names.size()));
    mdb_env_set_mapsize(env->env_, map_bytes);
    // NOTLS: transactions belong to our pool, not to threads. NORDAHEAD: look-ups are random, and read-ahead would
    // push the trainer's data out of the page cache.
    const int error = mdb_env_open(env->env_, directory.c_str(), MDB_NOTLS | MDB_NORDAHEAD, 0600);
    if (error == 0) break;
    mdb_env_close(std::exchange(env->env_, nullptr));
    // Address space can be limited (ulimit -v, small containers): take what there is.
    if (error != ENOMEM || map_bytes == kLeastMapBytes) return FromLmdb(error, "open environment");
  }
  STEPFS_RETURN_IF_ERROR(env->OpenTables(table_names));
  // LMDB never syncs the directories that lead to its files.
  STEPFS_RETURN_IF_ERROR(SyncPath(directory));
  STEPFS_RETURN_IF_ERROR(SyncPath(directory + "/.."));
  return env;
}

Status Env::OpenTables(std::span<const char* const> table_names) {
  MDB_txn* txn = nullptr;
  if (const int error = mdb_txn_begin(env_, nullptr, 0, &txn)) return FromLmdb(error, "begin");
  for (const char* name : table_names) {
    unsigned table = 0;
    if (const int error = mdb_dbi_open(txn, name, MDB_CREATE, &table)) {
      mdb_txn_abort(txn);
      return FromLmdb(error, "open table");
    }
    tables_.push_back(table);
  }
  // Writes nothing when all tables were there.
  if (const int error = mdb_txn_commit(txn)) return FromLmdb(error, "create tables");
  return {};
}

Env::~Env() {
  for (MDB_txn* txn : idle_) mdb_txn_abort(txn);
  if (env_ != nullptr) mdb_env_close(env_);
}

Result<ReadTxn> Env::BeginRead() {
  MDB_txn* txn = nullptr;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !growing_ && active_readers_ < kMaxReaders; });
    ++active_readers_;
    if (!idle_.empty()) {
      txn = idle_.back();
      idle_.pop_back();
    }
  }
  int error = txn != nullptr ? mdb_txn_renew(txn) : mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn);
  if (error != 0) {
    if (txn != nullptr) mdb_txn_abort(txn);
    Recycle(nullptr);
    return FromLmdb(error, "begin reading");
  }
  return ReadTxn(this, txn);
}

void Env::Recycle(MDB_txn* txn) {
  if (txn != nullptr) mdb_txn_reset(txn);
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (txn != nullptr) idle_.push_back(txn);
    wake = active_readers_-- == kMaxReaders || growing_;
  }
  if (wake) changed_.notify_all();
}

Result<WriteTxn> Env::BeginWrite() {
  MDB_txn* txn = nullptr;
  if (const int error = mdb_txn_begin(env_, nullptr, 0, &txn)) return FromLmdb(error, "begin writing");
  return WriteTxn(this, txn);
}

Status Env::GrowMap() {
  std::unique_lock lock(mutex_);
  growing_ = true;
  changed_.wait(lock, [&] { return active_readers_ == 0; });
  MDB_envinfo info;
  mdb_env_info(env_, &info);
  const int error = mdb_env_set_mapsize(env_, info.me_mapsize * 2);
  growing_ = false;
  changed_.notify_all();
  if (error == ENOMEM) return Status::NoSpace("lmdb: no address space to grow the map");
  return error == 0 ? Status() : FromLmdb(error, "grow the map");
}

std::uint64_t Env::file_bytes() const {
  mdb_filehandle_t fd;
  struct stat attributes;
  if (mdb_env_get_fd(env_, &fd) != 0 || ::fstat(fd, &attributes) < 0) return 0;
  return static_cast<std::uint64_t>(attributes.st_size);
}

}  // namespace stepfs::index
