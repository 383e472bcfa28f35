// SPDX-License-Identifier: Apache-2.0
//
// Text for people: sizes, times, tables, names that may hold anything.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace stepfs::cli {

// "512 B", "6.3 MiB": binary units, at most four digits.
std::string HumanSize(std::uint64_t bytes);
// "16", "64K", "1.5G", "2TiB": bytes, in binary units. Nothing for anything else or beyond 2^63.
std::optional<std::uint64_t> ParseSize(std::string_view text);

// Control characters as \n, \t, \x1b: what is printed cannot steer a terminal, and stays on one line.
std::string Printable(std::string_view text);

// "2026-12-01T01:02:03.000000004Z" -> "2026-12-01 01:02:03" (UTC). Anything else stays as it is.
std::string ShortTime(std::string_view rfc3339);

// Rows with columns as wide as their widest cell. Cells are made Printable.
class Table {
 public:
  // Right-aligned columns are for numbers.
  struct Column {
    std::string title;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: as many cells as columns.
  void AddRow(const std::vector<std::string>& cells);
  void Print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepfs::cli
