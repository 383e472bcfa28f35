// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/protobuf.h"

namespace stepfs::codec::protobuf {

std::uint64_t Varint(SourceWindow& window) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint64_t b = window.Fixed<std::uint8_t>();
    value |= (b & 0x7f) << shift;
    if (b < 0x80) return value;
  }
  window.Fail();
  return 0;
}

Field ReadField(SourceWindow& window) {
  Field field;
  const std::uint64_t key = Varint(window);
  field.number = key >> 3;
  field.wire_type = key & 7;
  switch (field.wire_type) {
    case kVarint:
      field.value = Varint(window);
      break;
    case kFixed64:
      window.Skip(8);
      break;
    case kFixed32:
      window.Skip(4);
      break;
    case kBytes:
      field.value = Varint(window);
      if (field.value > window.remaining()) window.Fail();
      break;
    default:
      window.Fail();
      break;
  }
  if (field.number == 0) window.Fail();
  field.end = window.position() + (field.wire_type == kBytes && window.ok() ? field.value : 0);
  return field;
}

}  // namespace stepfs::codec::protobuf
