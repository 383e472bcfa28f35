// SPDX-License-Identifier: Apache-2.0
#include "index/overlay.h"

#include <utility>

namespace stepfs::index {

Generation::Generation() { head_.height = kMaxHeight; }

Generation::~Generation() {
  for (Row* row = head_.next[0].load(std::memory_order_relaxed); row != nullptr;) {
    delete std::exchange(row, row->next[0].load(std::memory_order_relaxed));
  }
}

Generation::Rows Generation::Prepare(const WriteBatch& batch, std::uint64_t sequence) {
  Rows rows;
  rows.reserve(batch.changes().size());
  for (const WriteBatch::Change& change : batch.changes()) {
    auto row = std::make_unique<Row>();
    row->table = change.table;
    row->key = change.key;
    row->value = change.value;
    row->sequence = sequence;
    row->order = static_cast<std::uint32_t>(rows.size());
    rows.push_back(std::move(row));
  }
  return rows;
}

void Generation::Insert(Rows rows) noexcept {
  for (std::unique_ptr<Row>& owned : rows) {
    Row* row = owned.release();
    std::array<Row*, kMaxHeight> path;
    Descend({row->table, row->key, row->sequence, row->order}, &path);
    row->height = RandomHeight();
    for (int level = 0; level < row->height; ++level) {
      std::atomic<Row*>& link = path[level]->next[level];
      row->next[level].store(link.load(std::memory_order_relaxed), std::memory_order_relaxed);
      link.store(row, std::memory_order_release);  // Readers that see the row see all of it.
    }
  }
}

bool Generation::IsBefore(const Row& row, const Position& position) {
  if (row.table != position.table) return row.table < position.table;
  if (const int order = std::string_view(row.key).compare(position.key)) return order < 0;
  if (row.sequence != position.sequence) return row.sequence > position.sequence;
  return row.order > position.order;
}

Generation::Place Generation::Descend(const Position& position, std::array<Row*, kMaxHeight>* path) const {
  Place place{const_cast<Row*>(&head_), nullptr};
  for (int level = kMaxHeight - 1; level >= 0; --level) {
    for (;;) {
      place.after = place.before->next[level].load(std::memory_order_acquire);
      if (place.after == nullptr || !IsBefore(*place.after, position)) break;
      place.before = place.after;
    }
    if (path != nullptr) (*path)[level] = place.before;
  }
  return place;
}

const Generation::Row* Generation::AtOrAfter(const Position& position) const {
  return Descend(position, nullptr).after;
}

const Generation::Row* Generation::Before(const Position& position) const {
  const Row* row = Descend(position, nullptr).before;
  return row == &head_ ? nullptr : row;
}

const Generation::Row* Generation::Find(Table table, std::string_view key, std::uint64_t sequence) const {
  const Row* row = AtOrAfter({table, key, sequence});
  return row != nullptr && row->table == table && row->key == key ? row : nullptr;
}

int Generation::RandomHeight() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  int height = 1;
  for (std::uint64_t bits = random_; height < kMaxHeight && (bits & 3) == 0; bits >>= 2) ++height;
  return height;
}

void GenerationCursor::SettleForward(const Generation::Row* row) {
  while (row != nullptr && row->table == table_ && row->sequence > sequence_) {
    row = row->next[0].load(std::memory_order_acquire);
  }
  row_ = row != nullptr && row->table == table_ ? row : nullptr;
}

void GenerationCursor::SettleBackward(const Generation::Row* row) {
  row_ = nullptr;
  while (row != nullptr && row->table == table_) {
    row_ = generation_.Find(table_, row->key, sequence_);
    if (row_ != nullptr) return;
    row = generation_.Before({table_, row->key});  // All of this key's rows are newer than the snapshot.
  }
}

Status GenerationCursor::SeekAtLeast(std::string_view key) {
  SettleForward(generation_.AtOrAfter({table_, key}));
  return {};
}

Status GenerationCursor::SeekBelow(std::optional<std::string_view> key) {
  const auto next_table = static_cast<Table>(static_cast<std::uint8_t>(table_) + 1);
  SettleBackward(generation_.Before(key ? Generation::Position{table_, *key} : Generation::Position{next_table, {}}));
  return {};
}

Status GenerationCursor::Next() {
  // The oldest possible version of this key: whatever follows belongs to another key.
  SettleForward(generation_.AtOrAfter({table_, row_->key, 0, 0}));
  return {};
}

Status GenerationCursor::Previous() {
  SettleBackward(generation_.Before({table_, row_->key}));
  return {};
}

Status VisitRows(std::span<RowCursor* const> newest_first, Direction direction,
                 const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  const bool ascending = direction == Direction::kAscending;
  for (;;) {
    const RowCursor* winner = nullptr;
    for (const RowCursor* cursor : newest_first) {
      if (!cursor->valid()) continue;
      if (winner == nullptr || (ascending ? cursor->key() < winner->key() : cursor->key() > winner->key())) {
        winner = cursor;
      }
    }
    if (winner == nullptr) return {};
    const std::string_view key = winner->key();
    STEPFS_ASSIGN_OR_RETURN(const std::optional<std::string_view> value, winner->value());
    if (value && !visit(key, *value)) return {};
    for (RowCursor* cursor : newest_first) {
      if (!cursor->valid() || cursor->key() != key) continue;
      STEPFS_RETURN_IF_ERROR(ascending ? cursor->Next() : cursor->Previous());
    }
  }
}

}  // namespace stepfs::index
