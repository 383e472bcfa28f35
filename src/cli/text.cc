// SPDX-License-Identifier: Apache-2.0
#include "cli/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace stepfs::cli {
namespace {

constexpr std::string_view kUnits = "KMGTPE";

// Columns a UTF-8 text takes: continuation bytes take none.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string HumanSize(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %ciB", value, kUnits[unit]);
  return text;
}

std::optional<std::uint64_t> ParseSize(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!unit.empty() && unit != "B") {
    const auto at = kUnits.substr(0, 4).find(static_cast<char>(unit.front() & ~0x20));
    if (at == std::string_view::npos) return std::nullopt;
    for (std::size_t i = 0; i <= at; ++i) value *= 1024;
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "B" && unit != "iB") return std::nullopt;
  }
  if (!(value < 9.2e18)) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      printable += "\\n";
    } else if (c == '\t') {
      printable += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      printable += escaped;
    } else {
      printable += c;
    }
  }
  return printable;
}

std::string ShortTime(std::string_view rfc3339) {
  if (rfc3339.size() < 20 || rfc3339[10] != 'T') return std::string(rfc3339);
  std::string text(rfc3339.substr(0, 19));
  text[10] = ' ';
  return text;
}

void Table::AddRow(const std::vector<std::string>& cells) {
  auto& row = rows_.emplace_back();
  for (const std::string& cell : cells) row.push_back(Printable(cell));
}

void Table::Print(std::ostream& out) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = WidthOf(columns_[column].title);
    for (const auto& row : rows_) width = std::max(width, WidthOf(row[column]));
    widths.push_back(width);
  }
  const auto print = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string& cell = cell_of(column);
      const std::string padding(widths[column] - WidthOf(cell), ' ');
      if (column > 0) line += "  ";
      line += columns_[column].right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  };
  print([&](std::size_t column) -> const std::string& { return columns_[column].title; });
  for (const auto& row : rows_) print([&](std::size_t column) -> const std::string& { return row[column]; });
}

}  // namespace stepfs::cli
