// SPDX-License-Identifier: Apache-2.0
//
// How a row lies in LMDB: its value followed by 8 bytes of checksum over table, key and value (docs/index_schema.md,
// "Rows"), because LMDB itself would hand out a damaged page without a word.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "index/index.h"

namespace stepfs::index {

inline constexpr std::size_t kRowChecksumBytes = 8;

// LMDB's names of the tables in the order of their numbers, then the one that holds how far the journal was applied.
inline constexpr std::size_t kJournalTable = kTableCount;
inline constexpr std::array<const char*, kTableCount + 1> kTableNames = {
    "state",      "inodes",  "dentries", "links", "xattrs", "versions", "contents", "digests",
    "dependents", "pending", "graves",   "packs", "places", "sketches", "extra",    "journal"};

// REQUIRES: key.size() <= kMaxKeyBytes.
std::uint64_t RowChecksum(std::size_t table, std::string_view key, std::string_view value);

// The value inside what LMDB holds for `key`, a view into `stored`. kCorruption when the checksum does not hold.
Result<std::string_view> OpenRow(std::size_t table, std::string_view key, std::string_view stored);

}  // namespace stepfs::index
