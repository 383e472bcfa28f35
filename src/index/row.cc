// SPDX-License-Identifier: Apache-2.0
#include "index/row.h"

#include <algorithm>
#include <cassert>

#include "base/hash.h"
#include "base/serial.h"

namespace stepfs::index {
namespace {

std::string Printable(std::string_view key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : key.substr(0, 32)) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  if (key.size() > 32) text += "...";
  return text;
}

}  // namespace

std::uint64_t RowChecksum(std::size_t table, std::string_view key, std::string_view value) {
  assert(key.size() <= kMaxKeyBytes);
  std::array<std::byte, 3 + kMaxKeyBytes + 8> buffer;
  buffer[0] = static_cast<std::byte>(table);
  StoreLittle(static_cast<std::uint16_t>(key.size()), buffer.data() + 1);
  const Bytes raw_key = AsBytes(key);
  std::copy(raw_key.begin(), raw_key.end(), buffer.begin() + 3);
  StoreLittle(Hash64(value), buffer.data() + 3 + key.size());
  return Hash64(Bytes(buffer).first(3 + key.size() + 8));
}

Result<std::string_view> OpenRow(std::size_t table, std::string_view key, std::string_view stored) {
  if (key.size() <= kMaxKeyBytes && stored.size() >= kRowChecksumBytes) {
    const std::string_view value = stored.substr(0, stored.size() - kRowChecksumBytes);
    const auto found = LoadLittle<std::uint64_t>(AsBytes(stored).data() + value.size());
    if (found == RowChecksum(table, key, value)) return value;
  }
  return Status::Corruption(std::string("index table ") + kTableNames[table] + ": the row with key " + Printable(key) +
                            " does not match its checksum");
}

}  // namespace stepfs::index
