// SPDX-License-Identifier: Apache-2.0
//
// The central directory of a zip archive (PKWARE APPNOTE 6.3, with zip64). Sizes come from there, since torch leaves
// them 0 in local headers; where a member's data begins is told by its local header alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace stepfs::codec {

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;  // 0: stored, 8: deflate.
  std::uint64_t stored_bytes = 0;
  std::uint64_t local_header = 0;  // Offset in the source.
};

struct ZipDirectory {
  std::uint64_t begin = 0;         // Offset in the source of the archive's first byte.
  std::vector<ZipMember> members;  // As the directory lists them.
};

// The archive whose last byte is source[end - 1]. It may begin anywhere: where, follows from the directory's own
// offsets. Nothing when no archive ends there, its directory is malformed or is above 64 MiB. Failures of `source` come
// back.
// REQUIRES: end <= source.size().
Result<std::optional<ZipDirectory>> ReadZipDirectory(const ByteSource& source, std::uint64_t end);

// Offset of the first data byte of a member; nothing when its local header is not there or its data would pass the end
// of the source.
Result<std::optional<std::uint64_t>> ZipDataOffset(const ByteSource& source, const ZipMember& member);

}  // namespace stepfs::codec
