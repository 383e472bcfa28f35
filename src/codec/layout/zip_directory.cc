// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/zip_directory.h"

#include <algorithm>

#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kEnd64LocatorBytes = 20;
constexpr std::uint64_t kLocalHeaderBytes = 30;

// Where the directory lies, counted from the archive's own begin.
struct EndRecord {
  std::uint64_t entries = 0;
  std::uint64_t directory_bytes = 0;
  std::uint64_t directory_offset = 0;
  std::uint64_t directory_end = 0;  // Offset in the source of the byte after the directory.
};

// The offset of the end record of an archive that ends at `end`, whose comment may be up to 64 KiB long.
Result<std::optional<std::uint64_t>> FindEndRecord(const ByteSource& source, std::uint64_t end) {
  if (end < kEndBytes) return std::optional<std::uint64_t>();
  for (const std::uint64_t reach : {kEndBytes, kEndBytes + 0xffff}) {
    ByteVector tail(static_cast<std::size_t>(std::min(reach, end)));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(end - tail.size(), tail));
    for (std::size_t comment = 0; comment + kEndBytes <= tail.size(); ++comment) {
      const std::byte* record = tail.data() + (tail.size() - kEndBytes - comment);
      if (LoadLittle<std::uint32_t>(record) == kEnd && LoadLittle<std::uint16_t>(record + 20) == comment) {
        return std::optional(end - kEndBytes - comment);
      }
    }
  }
  return std::optional<std::uint64_t>();
}

Result<std::optional<EndRecord>> ReadEndRecord(const ByteSource& source, std::uint64_t at) {
  EndRecord end;
  SourceWindow window(source, at);
  window.Skip(10);
  end.entries = window.Fixed<std::uint16_t>();
  end.directory_bytes = window.Fixed<std::uint32_t>();
  end.directory_offset = window.Fixed<std::uint32_t>();
  end.directory_end = at;
  if (!window.ok()) return NothingFrom<EndRecord>(window);
  if (at < kEnd64LocatorBytes + kEnd64Bytes) return std::optional(end);

  // A zip64 end record without extensible data stands directly before its locator.
  SourceWindow wide(source, at - kEnd64LocatorBytes - kEnd64Bytes);
  const auto signature = wide.Fixed<std::uint32_t>();
  wide.Skip(28);
  const auto entries = wide.Fixed<std::uint64_t>();
  const auto directory_bytes = wide.Fixed<std::uint64_t>();
  const auto directory_offset = wide.Fixed<std::uint64_t>();
  const auto locator = wide.Fixed<std::uint32_t>();
  if (!wide.ok()) return NothingFrom<EndRecord>(wide);
  if (signature == kEnd64 && locator == kEnd64Locator) {
    end = {entries, directory_bytes, directory_offset, at - kEnd64LocatorBytes - kEnd64Bytes};
  }
  return std::optional(end);
}

// Replaces the fields that are all ones by those of the zip64 extra field, which has them in this order.
void ApplyZip64(Bytes extra, std::uint64_t& bytes, std::uint64_t& stored_bytes, std::uint64_t& local_header) {
  ByteReader reader(extra);
  while (reader.ok() && reader.remaining() >= 4) {
    const auto id = reader.Fixed<std::uint16_t>();
    ByteReader field(reader.Raw(reader.Fixed<std::uint16_t>()));
    if (id != 1) continue;
    if (bytes == 0xffffffff) bytes = field.Fixed<std::uint64_t>();
    if (stored_bytes == 0xffffffff) stored_bytes = field.Fixed<std::uint64_t>();
    if (local_header == 0xffffffff) local_header = field.Fixed<std::uint64_t>();
    return;
  }
}

}  // namespace

Result<std::optional<ZipDirectory>> ReadZipDirectory(const ByteSource& source, std::uint64_t end) {
  const std::optional<ZipDirectory> none;
  STEPFS_ASSIGN_OR_RETURN(const auto at, FindEndRecord(source, end));
  if (!at) return none;
  STEPFS_ASSIGN_OR_RETURN(const auto record, ReadEndRecord(source, *at));
  if (!record || record->directory_bytes > record->directory_end || record->directory_bytes > kMaxHeaderBytes) {
    return none;
  }
  const std::uint64_t directory_begin = record->directory_end - record->directory_bytes;
  if (record->directory_offset > directory_begin) return none;

  ZipDirectory directory;
  directory.begin = directory_begin - record->directory_offset;
  SourceWindow window(source, directory_begin, record->directory_end);
  while (window.ok() && window.remaining() > 0) {
    if (window.Fixed<std::uint32_t>() != kCentralHeader) break;
    ZipMember member;
    window.Skip(6);
    member.method = window.Fixed<std::uint16_t>();
    window.Skip(8);
    std::uint64_t stored_bytes = window.Fixed<std::uint32_t>();
    std::uint64_t bytes = window.Fixed<std::uint32_t>();
    const auto name_bytes = window.Fixed<std::uint16_t>();
    const auto extra_bytes = window.Fixed<std::uint16_t>();
    const auto comment_bytes = window.Fixed<std::uint16_t>();
    window.Skip(8);
    std::uint64_t local_header = window.Fixed<std::uint32_t>();
    member.name = AsText(window.Take(name_bytes));
    ApplyZip64(window.Take(extra_bytes), bytes, stored_bytes, local_header);
    window.Skip(comment_bytes);
    member.stored_bytes = stored_bytes;
    if (!window.ok() || local_header > directory_begin - directory.begin) break;
    member.local_header = directory.begin + local_header;
    directory.members.push_back(std::move(member));
  }
  if (!window.failure().ok()) return window.failure();
  if (!window.ok() || window.remaining() > 0 || directory.members.size() != record->entries) return none;
  return std::optional(std::move(directory));
}

Result<std::optional<std::uint64_t>> ZipDataOffset(const ByteSource& source, const ZipMember& member) {
  const std::optional<std::uint64_t> none;
  if (member.local_header > source.size() || source.size() - member.local_header < kLocalHeaderBytes) return none;
  std::byte header[kLocalHeaderBytes];
  STEPFS_RETURN_IF_ERROR(source.ReadAt(member.local_header, header));
  if (LoadLittle<std::uint32_t>(header) != kLocalHeader) return none;
  const std::uint64_t data = member.local_header + kLocalHeaderBytes + LoadLittle<std::uint16_t>(header + 26) +
                             LoadLittle<std::uint16_t>(header + 28);
  if (data > source.size() || member.stored_bytes > source.size() - data) return none;
  return std::optional(data);
}

}  // namespace stepfs::codec
