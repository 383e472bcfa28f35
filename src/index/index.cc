// SPDX-License-Identifier: Apache-2.0
#include "index/index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/serial.h"
#include "index/journal.h"
#include "index/lmdb.h"
#include "index/lmdb_check.h"
#include "index/overlay.h"
#include "index/row.h"

namespace stepfs::index {
namespace {

constexpr std::string_view kAppliedKey = "applied";

// One table of LMDB inside a read transaction, checksums verified where a row is looked at.
class TableCursor final : public RowCursor {
 public:
  TableCursor(Cursor cursor, Table table) : cursor_(std::move(cursor)), table_(static_cast<std::size_t>(table)) {}

  Status SeekAtLeast(std::string_view key) override { return cursor_.SeekAtLeast(key); }
  Status SeekBelow(std::optional<std::string_view> key) override { return cursor_.SeekBelow(key); }
  Status Next() override { return cursor_.Next(); }
  Status Previous() override { return cursor_.Previous(); }
  bool valid() const override { return cursor_.valid(); }
  std::string_view key() const override { return cursor_.key(); }
  Result<std::optional<std::string_view>> value() const override {
    STEPFS_ASSIGN_OR_RETURN(const std::string_view value, OpenRow(table_, cursor_.key(), cursor_.value()));
    return std::optional(value);
  }

 private:
  Cursor cursor_;
  const std::size_t table_;
};

// The first string behind all that start with `prefix`; nothing when there is none.
std::optional<std::string> EndOfPrefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return {};
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

Status PutRow(WriteTxn& txn, std::size_t table, std::string_view key, std::string_view value) {
  STEPFS_ASSIGN_OR_RETURN(const std::span<std::byte> stored, txn.Reserve(table, key, value.size() + kRowChecksumBytes));
  std::copy(AsBytes(value).begin(), AsBytes(value).end(), stored.begin());
  StoreLittle(RowChecksum(table, key, value), stored.data() + value.size());
  return {};
}

Status CheckBatch(const WriteBatch& batch) {
  std::size_t bytes = 0;
  for (const WriteBatch::Change& change : batch.changes()) {
    if (change.key.empty() || change.key.size() > kMaxKeyBytes) {
      return Status::InvalidArgument("index: a key has " + std::to_string(change.key.size()) + " bytes, not 1 to 511");
    }
    constexpr std::size_t kFramingBytes = 16;  // More than operation, table and both lengths take.
    const std::size_t change_bytes = change.key.size() + (change.value ? change.value->size() : 0) + kFramingBytes;
    if (change_bytes > kMaxBatchBytes - bytes) return Status::InvalidArgument("index: the batch is larger than 1 GiB");
    bytes += change_bytes;
  }
  return {};
}

}  // namespace

void WriteBatch::Put(Table table, std::string_view key, std::string_view value) {
  changes_.push_back({table, std::string(key), std::string(value)});
}

void WriteBatch::Delete(Table table, std::string_view key) {
  changes_.push_back({table, std::string(key), std::nullopt});
}

// A reader takes, in this order: the generations, the newest sequence number, an LMDB transaction; and starts over when
// the generations changed meanwhile. A checkpoint freezes a generation, commits it to LMDB, and only then lets go of
// it. So a row is always in at least one place that the reader looks at, and LMDB never holds more than the reader's
// sequence number covers.
struct Index::Impl {
  struct Generations {
    std::shared_ptr<Generation> active;
    std::shared_ptr<const Generation> frozen;  // Being moved to LMDB, or null.
    std::uint64_t frozen_sequence = 0;         // Its last one.
  };

  // What one reading call sees.
  struct View {
    std::shared_ptr<const Generations> generations;
    std::uint64_t sequence = 0;
    std::uint64_t epoch = 0;

    const Generation::Row* Find(Table table, std::string_view key) const {
      const Generation::Row* row = generations->active->Find(table, key, sequence);
      if (row == nullptr && generations->frozen != nullptr) row = generations->frozen->Find(table, key, sequence);
      return row;
    }
  };

  std::unique_ptr<Env> env;
  std::unique_ptr<Journal> journal;
  Recovery recovery;

  // Lock order: checkpoint, commit, generations.
  std::mutex checkpoint_mutex;
  std::uint64_t applied = 0;  // Last sequence number in LMDB. Guarded by checkpoint_mutex.
  std::mutex commit_mutex;
  mutable std::mutex generations_mutex;
  std::shared_ptr<const Generations> generations;  // Guarded by generations_mutex. Its `active` changes only under
                                                   // commit_mutex as well.
  std::atomic<std::uint64_t> epoch{0};             // Of `generations`.
  std::atomic<std::uint64_t> visible{0};           // Last sequence number that readers see. Written under commit_mutex.

  View TakeView() const {
    const std::scoped_lock lock(generations_mutex);
    return {generations, visible.load(std::memory_order_acquire), epoch.load(std::memory_order_relaxed)};
  }

  void SetGenerations(Generations next) {
    auto owned = std::make_shared<const Generations>(std::move(next));
    const std::scoped_lock lock(generations_mutex);
    generations.swap(owned);  // The old ones die behind the lock.
    epoch.fetch_add(1, std::memory_order_release);
  }

  Result<std::pair<View, ReadTxn>> BeginRead() const {
    for (;;) {
      View view = TakeView();
      STEPFS_ASSIGN_OR_RETURN(ReadTxn txn, env->BeginRead());
      if (epoch.load(std::memory_order_acquire) == view.epoch) return std::pair(std::move(view), std::move(txn));
    }
  }

  Status ReadApplied() {
    STEPFS_ASSIGN_OR_RETURN(const ReadTxn txn, env->BeginRead());
    STEPFS_ASSIGN_OR_RETURN(const auto stored, txn.Get(kJournalTable, kAppliedKey));
    if (!stored) return {};
    STEPFS_ASSIGN_OR_RETURN(const std::string_view value, OpenRow(kJournalTable, kAppliedKey, *stored));
    ByteReader reader(value);
    applied = reader.Fixed<std::uint64_t>();
    return reader.AtEnd() ? Status() : Status::Corruption("index: the applied sequence number does not parse");
  }

  Status Scan(Table table, std::string_view prefix, std::string_view from, Direction direction,
              const Visitor& visit) const {
    STEPFS_ASSIGN_OR_RETURN(const auto reading, BeginRead());
    const auto& [view, txn] = reading;
    STEPFS_ASSIGN_OR_RETURN(Cursor lmdb_cursor, Cursor::Open(txn, static_cast<std::size_t>(table)));
    TableCursor stored(std::move(lmdb_cursor), table);
    GenerationCursor active(*view.generations->active, table, view.sequence);
    std::optional<GenerationCursor> frozen;
    std::array<RowCursor*, 3> cursors = {&active, &stored, &stored};
    std::size_t count = 2;
    if (view.generations->frozen != nullptr) {
      cursors[1] = &frozen.emplace(*view.generations->frozen, table, view.sequence);
      count = 3;
    }
    const std::span<RowCursor* const> sources(cursors.data(), count);
    for (RowCursor* cursor : sources) {
      STEPFS_RETURN_IF_ERROR(direction == Direction::kAscending ? cursor->SeekAtLeast(std::max(prefix, from))
                                                                : SeekBackward(*cursor, prefix, from));
    }
    return VisitRows(sources, direction, [&](std::string_view key, std::string_view value) {
      return key.starts_with(prefix) && visit(key, value);
    });
  }

  static Status SeekBackward(RowCursor& cursor, std::string_view prefix, std::string_view from) {
    const std::optional<std::string> end = EndOfPrefix(prefix);
    // The next string after `from` is `from` with a zero byte.
    if (!from.empty() && (!end || from < *end)) return cursor.SeekBelow(std::string(from) + '\0');
    return cursor.SeekBelow(end ? std::optional<std::string_view>(*end) : std::nullopt);
  }

  // The changes of a generation and the number of its last one, in one transaction.
  Status Apply(const Generation& generation, std::uint64_t sequence) {
    for (;;) {
      STEPFS_ASSIGN_OR_RETURN(WriteTxn txn, env->BeginWrite());
      Status status = WriteAll(txn, generation, sequence);
      if (status.ok()) status = txn.Commit();
      if (status.ok()) return {};
      if (!txn.map_full()) return status.WithContext("index checkpoint");
      { const WriteTxn aborted = std::move(txn); }
      STEPFS_RETURN_IF_ERROR(env->GrowMap());
    }
  }

  static Status WriteAll(WriteTxn& txn, const Generation& generation, std::uint64_t sequence) {
    for (std::size_t number = 0; number < kTableCount; ++number) {
      GenerationCursor rows(generation, static_cast<Table>(number), sequence);
      for (Status moved = rows.SeekAtLeast({}); rows.valid(); moved = rows.Next()) {
        STEPFS_RETURN_IF_ERROR(moved);
        STEPFS_ASSIGN_OR_RETURN(const std::optional<std::string_view> value, rows.value());
        STEPFS_RETURN_IF_ERROR(value ? PutRow(txn, number, rows.key(), *value) : txn.Delete(number, rows.key()));
      }
    }
    ByteWriter applied_value;
    applied_value.Fixed(sequence);
    return PutRow(txn, kJournalTable, kAppliedKey, applied_value.bytes());
  }

  // REQUIRES: checkpoint_mutex held. Moves the frozen generation, if there is one.
  Status ApplyFrozen() {
    const std::shared_ptr<const Generations> current = TakeView().generations;
    if (current->frozen == nullptr) return {};
    STEPFS_RETURN_IF_ERROR(Apply(*current->frozen, current->frozen_sequence));
    applied = current->frozen_sequence;
    SetGenerations({current->active, nullptr, 0});
    journal->DropThrough(applied);
    return {};
  }

  Status Checkpoint() {
    const std::scoped_lock checkpoint_lock(checkpoint_mutex);
    STEPFS_RETURN_IF_ERROR(ApplyFrozen());  // Left by a checkpoint that failed.
    if (visible.load(std::memory_order_acquire) == applied) return {};
    // On a full disk this may fail: then the next commit tries, after this checkpoint has removed old segments.
    (void)journal->PrepareSegment();
    {
      const std::scoped_lock commit_lock(commit_mutex);
      journal->Rotate();
      SetGenerations({std::make_shared<Generation>(), TakeView().generations->active, visible.load()});
    }
    return ApplyFrozen();
  }
};

Index::Index() : impl_(std::make_unique<Impl>()) {}
Index::~Index() = default;

Result<std::unique_ptr<Index>> Index::Open(const IndexOptions& options) {
  if (options.files == nullptr) return Status::InvalidArgument("index: no file operations given");
  STEPFS_RETURN_IF_ERROR(CheckLmdbFile(options.lmdb_directory + "/data.mdb"));
  std::unique_ptr<Index> index(new Index);
  Impl& impl = *index->impl_;
  STEPFS_ASSIGN_OR_RETURN(impl.env, Env::Open(options.lmdb_directory, options.map_bytes, kTableNames));
  STEPFS_RETURN_IF_ERROR(impl.ReadApplied());
  const auto active = std::make_shared<Generation>();
  const auto replay = [&](std::uint64_t sequence, const WriteBatch& batch) -> Status {
    active->Insert(Generation::Prepare(batch, sequence));
    return {};
  };
  STEPFS_ASSIGN_OR_RETURN(
      impl.journal, Journal::Open(*options.files, options.journal_directory, impl.applied, replay, &impl.recovery));
  impl.visible = impl.journal->last_sequence();
  impl.SetGenerations({active, nullptr, 0});
  return index;
}

Result<std::optional<std::string>> Index::Get(Table table, std::string_view key) const {
  if (key.empty() || key.size() > kMaxKeyBytes) return std::optional<std::string>();
  // Most of what is asked for was written lately: look before paying for a transaction.
  const Impl::View recent = impl_->TakeView();
  if (const Generation::Row* row = recent.Find(table, key)) return row->value;
  STEPFS_ASSIGN_OR_RETURN(const auto reading, impl_->BeginRead());
  const auto& [view, txn] = reading;
  if (view.epoch != recent.epoch || view.sequence != recent.sequence) {
    if (const Generation::Row* row = view.Find(table, key)) return row->value;
  }
  STEPFS_ASSIGN_OR_RETURN(const std::optional<std::string_view> stored, txn.Get(static_cast<std::size_t>(table), key));
  if (!stored) return std::optional<std::string>();
  STEPFS_ASSIGN_OR_RETURN(const std::string_view value, OpenRow(static_cast<std::size_t>(table), key, *stored));
  return std::optional(std::string(value));
}

Status Index::Scan(Table table, std::string_view prefix, std::string_view from, const Visitor& visit) const {
  return impl_->Scan(table, prefix, from, Direction::kAscending, visit);
}

Status Index::ScanBackward(Table table, std::string_view prefix, std::string_view from, const Visitor& visit) const {
  return impl_->Scan(table, prefix, from, Direction::kDescending, visit);
}

Result<std::uint64_t> Index::Commit(const WriteBatch& batch) {
  STEPFS_RETURN_IF_ERROR(CheckBatch(batch));
  const std::scoped_lock lock(impl_->commit_mutex);
  if (batch.empty()) return impl_->visible.load();
  const std::uint64_t sequence = impl_->visible.load() + 1;
  // Everything that may run out of memory comes before the journal knows of the batch.
  Generation::Rows rows = Generation::Prepare(batch, sequence);
  STEPFS_RETURN_IF_ERROR(impl_->journal->Append(sequence, batch));
  // By way of a view: a checkpoint that ends now replaces the pair of generations, though not the active one.
  impl_->TakeView().generations->active->Insert(std::move(rows));
  impl_->visible.store(sequence, std::memory_order_release);
  return sequence;
}

Status Index::SyncJournal() {
  if (impl_->journal->Sync().ok()) return {};
  // The journal's file may have lost pages for good; the rows are still in memory, and LMDB is another way to the disk.
  return impl_->Checkpoint();
}

Status Index::Checkpoint() { return impl_->Checkpoint(); }

const Recovery& Index::recovery() const { return impl_->recovery; }
std::uint64_t Index::journal_bytes() const { return impl_->journal->bytes(); }
std::uint64_t Index::lmdb_bytes() const { return impl_->env->file_bytes(); }

Result<std::uint64_t> Index::Verify(const std::function<void(Table, std::string_view key)>& report) const {
  STEPFS_ASSIGN_OR_RETURN(const ReadTxn txn, impl_->env->BeginRead());
  std::uint64_t damaged = 0;
  for (std::size_t number = 0; number < kTableCount; ++number) {
    STEPFS_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Open(txn, number));
    for (Status moved = cursor.SeekAtLeast({});; moved = cursor.Next()) {
      STEPFS_RETURN_IF_ERROR(moved);
      if (!cursor.valid()) break;
      if (OpenRow(number, cursor.key(), cursor.value()).ok()) continue;
      ++damaged;
      report(static_cast<Table>(number), cursor.key());
    }
  }
  return damaged;
}

}  // namespace stepfs::index
