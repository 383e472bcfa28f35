// SPDX-License-Identifier: Apache-2.0
//
// Protobuf messages read field by field (protobuf.dev, "Encoding"), as far as layout parsers need it.
#pragma once

#include <cstdint>

#include "codec/layout/source_window.h"

namespace stepfs::codec::protobuf {

enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  std::uint64_t number = 0;
  std::uint64_t wire_type = 0;
  std::uint64_t value = 0;  // Of a kVarint; the length of a kBytes, whose content begins at the window's position.
  std::uint64_t end = 0;    // Offset behind the field.
};

// At most 10 bytes, least significant group first.
std::uint64_t Varint(SourceWindow& window);
// Fails the window for groups, field number 0 and content beyond its end.
Field ReadField(SourceWindow& window);

}  // namespace stepfs::codec::protobuf
