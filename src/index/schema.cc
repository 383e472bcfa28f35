// SPDX-License-Identifier: Apache-2.0
#include "index/schema.h"

#include "base/serial.h"

namespace stepfs::index {
namespace {

// Optional fields that a shorter (older) record lacks read as their defaults: reading stops at the end of the value.
class RecordReader {
 public:
  explicit RecordReader(std::string_view value) : reader_(value) {}

  template <typename T>
  void Number(T& field) {
    if (More()) field = static_cast<T>(reader_.Varint());
  }
  void Signed(std::int64_t& field) {
    if (More()) field = reader_.SignedVarint();
  }
  void Text(std::string& field) {
    if (More()) field = reader_.String();
  }
  void Flag(bool& field) {
    if (More()) field = reader_.Varint() != 0;
  }
  void ReadDigest(Digest& field) {
    if (!More()) return;
    field.low = reader_.Fixed<std::uint64_t>();
    field.high = reader_.Fixed<std::uint64_t>();
  }
  bool More() const { return reader_.remaining() > 0; }
  bool ok() const { return reader_.ok(); }

  Status Finish(const char* what) const {
    if (ok()) return {};
    return Status::Corruption(std::string("index: ") + what + " record is cut short or malformed");
  }

 private:
  ByteReader reader_;
};

void PutDigest(ByteWriter& writer, const Digest& digest) {
  writer.Fixed(digest.low);
  writer.Fixed(digest.high);
}

std::string NumberKey(std::uint64_t number) {
  ByteWriter writer;
  writer.BigEndian(number);
  return writer.Take();
}

}  // namespace

std::string InodeKey(InodeNumber ino) { return NumberKey(ino); }
std::string ContentKey(ContentId content) { return NumberKey(content); }
std::string ChildPrefix(InodeNumber parent) { return NumberKey(parent); }

std::string PlaceKey(const Place& place) { return NumberKey(place.parent) + place.name; }

std::string LinkKey(InodeNumber ino, const Place& place) { return NumberKey(ino) + PlaceKey(place); }

std::string XattrKey(InodeNumber ino, std::string_view name) { return NumberKey(ino).append(name); }

std::string VersionPrefix(const Place& place) { return PlaceKey(place) + '\0'; }

std::string VersionKey(const Place& place, VersionNumber version) { return VersionPrefix(place) + NumberKey(version); }

std::string DigestPrefix(const Digest& digest, std::uint64_t size) {
  return NumberKey(digest.high) + NumberKey(digest.low) + NumberKey(size);
}

std::string DigestKey(const Digest& digest, std::uint64_t size, ContentId content) {
  return DigestPrefix(digest, size) + NumberKey(content);
}

std::string DependentKey(ContentId base, ContentId dependent) { return NumberKey(base) + NumberKey(dependent); }

std::optional<std::uint64_t> NumberFromKey(std::string_view key, std::size_t offset) {
  if (key.size() < offset + 8) return std::nullopt;
  ByteReader reader(key.substr(offset));
  return reader.BigEndian<std::uint64_t>();
}

std::optional<Place> PlaceFromKey(std::string_view key) {
  const auto parent = NumberFromKey(key);
  if (!parent || key.size() < 9) return std::nullopt;
  return Place{*parent, std::string(key.substr(8))};
}

std::optional<std::pair<InodeNumber, Place>> LinkFromKey(std::string_view key) {
  const auto ino = NumberFromKey(key);
  if (!ino) return std::nullopt;
  auto place = PlaceFromKey(key.substr(8));
  if (!place) return std::nullopt;
  return std::pair{*ino, std::move(*place)};
}

std::optional<VersionAt> VersionFromKey(std::string_view key) {
  if (key.size() < 8 + 1 + 1 + 8 || key[key.size() - 9] != '\0') return std::nullopt;
  auto place = PlaceFromKey(key.substr(0, key.size() - 9));
  if (!place) return std::nullopt;
  return VersionAt{std::move(*place), *NumberFromKey(key, key.size() - 8)};
}

std::string InodeRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(mode);
  writer.Varint(uid);
  writer.Varint(gid);
  writer.Varint(rdev);
  writer.Varint(nlink);
  writer.Varint(size);
  writer.SignedVarint(atime);
  writer.SignedVarint(mtime);
  writer.SignedVarint(ctime);
  writer.Varint(content);
  writer.Varint(parent);
  writer.Varint(entries);
  writer.String(target);
  writer.Varint(uncommitted ? 1 : 0);
  writer.Varint(closed ? 1 : 0);
  return writer.Take();
}

Result<InodeRecord> InodeRecord::Decode(std::string_view value) {
  InodeRecord record;
  RecordReader reader(value);
  reader.Number(record.mode);
  reader.Number(record.uid);
  reader.Number(record.gid);
  reader.Number(record.rdev);
  reader.Number(record.nlink);
  reader.Number(record.size);
  reader.Signed(record.atime);
  reader.Signed(record.mtime);
  reader.Signed(record.ctime);
  reader.Number(record.content);
  reader.Number(record.parent);
  reader.Number(record.entries);
  reader.Text(record.target);
  reader.Flag(record.uncommitted);
  reader.Flag(record.closed);
  STEPFS_RETURN_IF_ERROR(reader.Finish("inode"));
  return record;
}

std::string DentryRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(ino);
  writer.Varint(type);
  return writer.Take();
}

Result<DentryRecord> DentryRecord::Decode(std::string_view value) {
  DentryRecord record;
  RecordReader reader(value);
  reader.Number(record.ino);
  reader.Number(record.type);
  STEPFS_RETURN_IF_ERROR(reader.Finish("directory entry"));
  return record;
}

std::string PlaceRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(next_version);
  writer.Varint(deleted_through);
  writer.SignedVarint(deleted_time);
  writer.Varint(next_grave);
  writer.Varint(next_partial);
  return writer.Take();
}

Result<PlaceRecord> PlaceRecord::Decode(std::string_view value) {
  PlaceRecord record;
  RecordReader reader(value);
  reader.Number(record.next_version);
  reader.Number(record.deleted_through);
  reader.Signed(record.deleted_time);
  reader.Number(record.next_grave);
  reader.Number(record.next_partial);
  STEPFS_RETURN_IF_ERROR(reader.Finish("place"));
  return record;
}

std::string VersionRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(content);
  writer.Varint(size);
  writer.Varint(ino);
  writer.SignedVarint(time);
  writer.SignedVarint(mtime);
  writer.Varint(mode);
  writer.Varint(uid);
  writer.Varint(gid);
  writer.Varint(flags);
  writer.Varint(step ? 1 : 0);
  writer.SignedVarint(step.value_or(0));
  return writer.Take();
}

Result<VersionRecord> VersionRecord::Decode(std::string_view value) {
  VersionRecord record;
  RecordReader reader(value);
  bool has_step = false;
  std::int64_t step = 0;
  reader.Number(record.content);
  reader.Number(record.size);
  reader.Number(record.ino);
  reader.Signed(record.time);
  reader.Signed(record.mtime);
  reader.Number(record.mode);
  reader.Number(record.uid);
  reader.Number(record.gid);
  reader.Number(record.flags);
  reader.Flag(has_step);
  reader.Signed(step);
  STEPFS_RETURN_IF_ERROR(reader.Finish("version"));
  if (has_step) record.step = step;
  return record;
}

std::string ContentRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(static_cast<std::uint8_t>(state));
  writer.Varint(size);
  writer.Varint(references);
  writer.Varint(synced_size);
  writer.Varint(overwritten_since_sync ? 1 : 0);
  writer.SignedVarint(time);
  writer.Varint(digest ? 1 : 0);
  PutDigest(writer, digest.value_or(Digest{}));
  writer.Varint(blob);
  writer.Varint(blob_offset);
  writer.Varint(stored_bytes);
  writer.Varint(sources.size());
  for (const ContentId source : sources) writer.Varint(source);
  writer.Varint(depth);
  writer.String(codec);
  writer.Varint(lossless ? 1 : 0);
  writer.Varint(alias_of);
  writer.String(inline_bytes);
  writer.Varint(origin.parent);
  writer.String(origin.name);
  writer.Varint(origin_version);
  writer.String(format);
  PutDigest(writer, fingerprint);
  writer.Varint(tensors);
  writer.Varint(reopened);
  return writer.Take();
}

Result<ContentRecord> ContentRecord::Decode(std::string_view value) {
  ContentRecord record;
  RecordReader reader(value);
  std::uint64_t state = 0;
  bool has_digest = false;
  Digest digest;
  std::uint64_t source_count = 0;
  reader.Number(state);
  reader.Number(record.size);
  reader.Number(record.references);
  reader.Number(record.synced_size);
  reader.Flag(record.overwritten_since_sync);
  reader.Signed(record.time);
  reader.Flag(has_digest);
  reader.ReadDigest(digest);
  reader.Number(record.blob);
  reader.Number(record.blob_offset);
  reader.Number(record.stored_bytes);
  reader.Number(source_count);
  for (std::uint64_t i = 0; i < source_count && reader.More(); ++i) reader.Number(record.sources.emplace_back());
  reader.Number(record.depth);
  reader.Text(record.codec);
  reader.Flag(record.lossless);
  reader.Number(record.alias_of);
  reader.Text(record.inline_bytes);
  reader.Number(record.origin.parent);
  reader.Text(record.origin.name);
  reader.Number(record.origin_version);
  reader.Text(record.format);
  reader.ReadDigest(record.fingerprint);
  reader.Number(record.tensors);
  reader.Number(record.reopened);
  STEPFS_RETURN_IF_ERROR(reader.Finish("content"));
  if (state < 1 || state > 6 || record.sources.size() != source_count) {
    return Status::Corruption("index: content record has state " + std::to_string(state));
  }
  record.state = static_cast<ContentState>(state);
  if (has_digest) record.digest = digest;
  return record;
}

std::string GraveRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(ino);
  writer.SignedVarint(time);
  return writer.Take();
}

Result<GraveRecord> GraveRecord::Decode(std::string_view value) {
  GraveRecord record;
  RecordReader reader(value);
  reader.Number(record.ino);
  reader.Signed(record.time);
  STEPFS_RETURN_IF_ERROR(reader.Finish("grave"));
  return record;
}

std::string PackRecord::Encode() const {
  ByteWriter writer;
  writer.Varint(bytes);
  writer.Varint(live);
  return writer.Take();
}

Result<PackRecord> PackRecord::Decode(std::string_view value) {
  PackRecord record;
  RecordReader reader(value);
  reader.Number(record.bytes);
  reader.Number(record.live);
  STEPFS_RETURN_IF_ERROR(reader.Finish("pack"));
  return record;
}

std::string SessionRecord::Encode() const {
  ByteWriter writer;
  writer.String(boot_id);
  writer.Varint(mount_id);
  writer.Varint(clean ? 1 : 0);
  return writer.Take();
}

Result<SessionRecord> SessionRecord::Decode(std::string_view value) {
  SessionRecord record;
  RecordReader reader(value);
  reader.Text(record.boot_id);
  reader.Number(record.mount_id);
  reader.Flag(record.clean);
  STEPFS_RETURN_IF_ERROR(reader.Finish("session"));
  return record;
}

}  // namespace stepfs::index
