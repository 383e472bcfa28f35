// SPDX-License-Identifier: Apache-2.0
//
// The rows that are committed but not yet in LMDB. A Generation is an ordered multi-version map (a skip list) that
// collects everything between two checkpoints: each commit adds its rows under its sequence number, and a reader that
// names a sequence number sees exactly the commits up to it, however many follow.
//
// RowCursor is the shape that generations and LMDB share for walking in both directions; VisitRows merges them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "index/index.h"

namespace stepfs::index {

// One writer at a time beside any number of readers, which take no lock. Rows are never changed or removed.
class Generation {
 public:
  static constexpr int kMaxHeight = 12;  // Good for 4^12 rows at one in four growing a level.

  struct Row {
    Table table;
    std::string key;
    std::optional<std::string> value;  // Nothing: deleted.
    std::uint64_t sequence;
    std::uint32_t order;  // Position in its batch: the last change of a key wins.
    int height = 0;
    std::array<std::atomic<Row*>, kMaxHeight> next{};
  };
  // Where a search goes: rows are ordered by table, key, then newest first.
  struct Position {
    Table table;
    std::string_view key;
    std::uint64_t sequence = UINT64_MAX;
    std::uint32_t order = UINT32_MAX;
  };
  using Rows = std::vector<std::unique_ptr<Row>>;

  Generation();
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The rows of a batch, not yet visible to anyone. All memory is allocated here.
  static Rows Prepare(const WriteBatch& batch, std::uint64_t sequence);
  void Insert(Rows rows) noexcept;

  // The newest row of a key with a sequence number <= `sequence`; null when this generation knows nothing of it.
  const Row* Find(Table table, std::string_view key, std::uint64_t sequence) const;
  // The first row at or behind a position, the last one before it; null when there is none.
  const Row* AtOrAfter(const Position& position) const;
  const Row* Before(const Position& position) const;

  bool empty() const { return head_.next[0].load(std::memory_order_acquire) == nullptr; }

 private:
  static bool IsBefore(const Row& row, const Position& position);
  // The rows around a position, as they were at one moment: `after` must not be read again from `before`, where a row
  // may have been inserted since. `path` receives the last row before the position on each level, head_ counting as
  // one.
  struct Place {
    Row* before;
    Row* after;
  };
  Place Descend(const Position& position, std::array<Row*, kMaxHeight>* path) const;
  int RandomHeight();

  Row head_;
  std::uint64_t random_ = 0x9e3779b97f4a7c15;  // Heights only: any sequence does, the same one each time is best.
};

// Walks one table. Invalid before the first seek and after moving off either end.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  virtual Status SeekAtLeast(std::string_view key) = 0;
  // To the last key < `key`; without one, to the last key.
  virtual Status SeekBelow(std::optional<std::string_view> key) = 0;
  // REQUIRES: valid().
  virtual Status Next() = 0;
  virtual Status Previous() = 0;
  virtual bool valid() const = 0;
  // Views stay good while the source (generation or transaction) lives.
  virtual std::string_view key() const = 0;
  // Nothing: the key is deleted as of this source.
  virtual Result<std::optional<std::string_view>> value() const = 0;
};

// A generation as of a sequence number. The generation must outlive it.
class GenerationCursor final : public RowCursor {
 public:
  GenerationCursor(const Generation& generation, Table table, std::uint64_t sequence)
      : generation_(generation), table_(table), sequence_(sequence) {}

  Status SeekAtLeast(std::string_view key) override;
  Status SeekBelow(std::optional<std::string_view> key) override;
  Status Next() override;
  Status Previous() override;
  bool valid() const override { return row_ != nullptr; }
  std::string_view key() const override { return row_->key; }
  Result<std::optional<std::string_view>> value() const override {
    return std::optional<std::string_view>(row_->value);
  }

 private:
  void SettleForward(const Generation::Row* row);
  void SettleBackward(const Generation::Row* row);

  const Generation& generation_;
  const Table table_;
  const std::uint64_t sequence_;
  const Generation::Row* row_ = nullptr;
};

enum class Direction { kAscending, kDescending };

// Calls visit(key, value) for the rows of several sources, already positioned, in key order until it returns false.
// Of sources that know the same key the first in the list wins; a deleted key is passed over.
Status VisitRows(std::span<RowCursor* const> newest_first, Direction direction,
                 const std::function<bool(std::string_view key, std::string_view value)>& visit);

}  // namespace stepfs::index
