// SPDX-License-Identifier: Apache-2.0
#include "store/catalog.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "base/serial.h"

namespace stepfs::store {

using index::DentryRecord;
using index::PlaceRecord;
using index::Table;

Nanoseconds Now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return Nanoseconds{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Result<InodeRecord> RowReader::GetInode(InodeNumber ino) const {
  STEPFS_ASSIGN_OR_RETURN(auto value, Raw(Table::kInodes, index::InodeKey(ino)));
  if (!value) return Status::NotFound("no inode " + std::to_string(ino));
  return InodeRecord::Decode(*value);
}

Result<std::optional<DentryRecord>> RowReader::FindDentry(const Place& place) const {
  STEPFS_ASSIGN_OR_RETURN(auto value, Raw(Table::kDentries, index::PlaceKey(place)));
  if (!value) return std::optional<DentryRecord>();
  STEPFS_ASSIGN_OR_RETURN(auto record, DentryRecord::Decode(*value));
  return std::optional(record);
}

Result<PlaceRecord> RowReader::GetPlace(const Place& place) const {
  STEPFS_ASSIGN_OR_RETURN(auto value, Raw(Table::kPlaces, index::PlaceKey(place)));
  if (!value) return PlaceRecord();
  return PlaceRecord::Decode(*value);
}

Result<std::optional<VersionRecord>> RowReader::FindVersion(const Place& place, VersionNumber version) const {
  STEPFS_ASSIGN_OR_RETURN(auto value, Raw(Table::kVersions, index::VersionKey(place, version)));
  if (!value) return std::optional<VersionRecord>();
  STEPFS_ASSIGN_OR_RETURN(auto record, VersionRecord::Decode(*value));
  return std::optional(record);
}

Result<ContentRecord> RowReader::GetContent(ContentId content) const {
  if (content == 0) {
    ContentRecord empty;
    empty.state = ContentState::kInline;
    empty.digest = Hash128({});
    empty.codec = "raw";
    return empty;
  }
  STEPFS_ASSIGN_OR_RETURN(auto value, Raw(Table::kContents, index::ContentKey(content)));
  if (!value) return Status::Corruption("content " + std::to_string(content) + " is referred to, but has no row");
  return ContentRecord::Decode(*value);
}

Result<std::optional<std::string>> Catalog::Raw(Table table, std::string_view key) const {
  return index_.Get(table, key);
}

Result<std::vector<NumberedVersion>> Catalog::Versions(const Place& place) const {
  std::vector<NumberedVersion> versions;
  Status damage;
  STEPFS_RETURN_IF_ERROR(
      index_.Scan(Table::kVersions, index::VersionPrefix(place), {}, [&](std::string_view key, std::string_view value) {
        auto record = VersionRecord::Decode(value);
        if (!record.ok()) {
          damage = record.status();
          return false;
        }
        const auto at = index::VersionFromKey(key);
        if (at && !(record->flags & VersionRecord::kPartial)) {
          versions.push_back({at->version, std::move(*record)});
        }
        return true;
      }));
  STEPFS_RETURN_IF_ERROR(damage);
  return versions;
}

Result<std::optional<NumberedVersion>> Catalog::NewestVersion(
    const Place& place, const std::function<bool(const NumberedVersion&)>& accept) const {
  std::optional<NumberedVersion> newest;
  Status damage;
  STEPFS_RETURN_IF_ERROR(index_.ScanBackward(Table::kVersions, index::VersionPrefix(place), {},
                                             [&](std::string_view key, std::string_view value) {
                                               auto record = VersionRecord::Decode(value);
                                               if (!record.ok()) {
                                                 damage = record.status();
                                                 return false;
                                               }
                                               const auto at = index::VersionFromKey(key);
                                               if (!at || (record->flags & VersionRecord::kPartial)) return true;
                                               NumberedVersion found{at->version, std::move(*record)};
                                               if (accept && !accept(found)) return true;
                                               newest = std::move(found);
                                               return false;
                                             }));
  STEPFS_RETURN_IF_ERROR(damage);
  return newest;
}

Result<std::vector<Place>> Catalog::LinksOf(InodeNumber ino) const {
  std::vector<Place> places;
  STEPFS_RETURN_IF_ERROR(
      index_.Scan(Table::kLinks, index::InodeKey(ino), {}, [&](std::string_view key, std::string_view) {
        if (auto link = index::LinkFromKey(key)) places.push_back(std::move(link->second));
        return true;
      }));
  return places;
}

Result<std::vector<Catalog::Child>> Catalog::Children(InodeNumber directory) const {
  std::vector<Child> children;
  Status damage;
  STEPFS_RETURN_IF_ERROR(index_.Scan(Table::kDentries, index::ChildPrefix(directory), {},
                                     [&](std::string_view key, std::string_view value) {
                                       auto record = DentryRecord::Decode(value);
                                       if (!record.ok()) {
                                         damage = record.status();
                                         return false;
                                       }
                                       children.push_back({std::string(key.substr(8)), *record});
                                       return true;
                                     }));
  STEPFS_RETURN_IF_ERROR(damage);
  return children;
}

Result<std::string> Catalog::PathOf(const Place& place) const {
  // Directories link to their place while they live; a removed one is found among the graves' inode records, whose
  // `target` keeps the last name.
  std::string path = place.name;
  InodeNumber directory = place.parent;
  for (int depth = 0; directory != index::kRootInode; ++depth) {
    if (depth > 4096) return Status::Corruption("directory " + std::to_string(place.parent) + " has no root");
    STEPFS_ASSIGN_OR_RETURN(const InodeRecord record, GetInode(directory));
    STEPFS_ASSIGN_OR_RETURN(const auto links, LinksOf(directory));
    path.insert(0, (links.empty() ? record.target : links.front().name) + "/");
    directory = record.parent;
  }
  return path;
}

Result<std::optional<std::string>> Transaction::Raw(Table table, std::string_view key) const {
  if (auto found = changes_.find({table, std::string(key)}); found != changes_.end()) return found->second;
  return catalog_.Raw(table, key);
}

void Transaction::Put(Table table, std::string_view key, std::string_view value) {
  changes_[{table, std::string(key)}] = std::string(value);
}

void Transaction::Delete(Table table, std::string_view key) { changes_[{table, std::string(key)}] = std::nullopt; }

void Transaction::PutInode(InodeNumber ino, const InodeRecord& record) {
  Put(Table::kInodes, index::InodeKey(ino), record.Encode());
}
void Transaction::DeleteInode(InodeNumber ino) { Delete(Table::kInodes, index::InodeKey(ino)); }

void Transaction::PutDentry(const Place& place, const DentryRecord& record) {
  Put(Table::kDentries, index::PlaceKey(place), record.Encode());
  Put(Table::kLinks, index::LinkKey(record.ino, place), {});
}
void Transaction::DeleteDentry(const Place& place, InodeNumber ino) {
  Delete(Table::kDentries, index::PlaceKey(place));
  Delete(Table::kLinks, index::LinkKey(ino, place));
}

void Transaction::PutPlace(const Place& place, const PlaceRecord& record) {
  Put(Table::kPlaces, index::PlaceKey(place), record.Encode());
}

void Transaction::PutVersion(const Place& place, VersionNumber version, const VersionRecord& record) {
  Put(Table::kVersions, index::VersionKey(place, version), record.Encode());
}
void Transaction::DeleteVersion(const Place& place, VersionNumber version) {
  Delete(Table::kVersions, index::VersionKey(place, version));
}

void Transaction::PutContent(ContentId content, const ContentRecord& record) {
  Put(Table::kContents, index::ContentKey(content), record.Encode());
}

namespace {

Result<std::uint64_t> TakeNumber(Transaction& transaction, std::string_view key, std::uint64_t first) {
  STEPFS_ASSIGN_OR_RETURN(auto value, transaction.Raw(Table::kState, key));
  std::uint64_t number = first;
  if (value) {
    ByteReader reader(*value);
    number = reader.Fixed<std::uint64_t>();
    if (!reader.AtEnd()) return Status::Corruption("index: counter " + std::string(key) + " is malformed");
  }
  ByteWriter next;
  next.Fixed(number + 1);
  transaction.Put(Table::kState, key, next.bytes());
  return number;
}

}  // namespace

Result<InodeNumber> Transaction::NewInode() { return TakeNumber(*this, index::kNextInodeKey, index::kRootInode + 1); }
Result<ContentId> Transaction::NewContent() { return TakeNumber(*this, index::kNextContentKey, 1); }

Status Transaction::AddReference(ContentId content) {
  if (content == 0) return {};
  STEPFS_ASSIGN_OR_RETURN(ContentRecord record, GetContent(content));
  ++record.references;
  PutContent(content, record);
  return {};
}

Status Transaction::DropReference(ContentId content) {
  if (content == 0) return {};
  STEPFS_ASSIGN_OR_RETURN(ContentRecord record, GetContent(content));
  if (record.references == 0)
    return Status::Corruption("content " + std::to_string(content) + " has no reference left");
  --record.references;
  PutContent(content, record);
  return ForgetIfUnused(content, std::move(record));
}

Status Transaction::ForgetIfUnused(ContentId content, ContentRecord record) {
  // Iterative: forgetting a delta may free its base, and so on down a chain.
  std::vector<std::pair<ContentId, ContentRecord>> candidates{{content, std::move(record)}};
  while (!candidates.empty()) {
    auto [id, candidate] = std::move(candidates.back());
    candidates.pop_back();
    if (candidate.references != 0) continue;
    bool has_dependents = false;
    const std::string prefix = index::ContentKey(id);
    STEPFS_RETURN_IF_ERROR(
        catalog_.index_.Scan(Table::kDependents, prefix, {}, [&](std::string_view key, std::string_view) {
          const auto changed = changes_.find({Table::kDependents, std::string(key)});
          has_dependents = changed == changes_.end() || changed->second.has_value();
          return !has_dependents;
        }));
    for (auto at = changes_.lower_bound({Table::kDependents, prefix});
         at != changes_.end() && at->first.first == Table::kDependents && at->first.second.starts_with(prefix); ++at) {
      has_dependents = has_dependents || at->second.has_value();
    }
    if (has_dependents) continue;

    Delete(Table::kContents, index::ContentKey(id));
    Delete(Table::kSketches, index::ContentKey(id));
    if (candidate.digest) Delete(Table::kDigests, index::DigestKey(*candidate.digest, candidate.size, id));
    std::vector<ContentId> needed = candidate.sources;
    if (candidate.state == ContentState::kAlias) needed.push_back(candidate.alias_of);
    for (const ContentId source : needed) {
      Delete(Table::kDependents, index::DependentKey(source, id));
      STEPFS_ASSIGN_OR_RETURN(ContentRecord source_record, GetContent(source));
      candidates.emplace_back(source, std::move(source_record));
    }
    if (candidate.state == ContentState::kSealed && candidate.blob != 0) {
      STEPFS_ASSIGN_OR_RETURN(auto pack_row, Raw(Table::kPacks, index::ContentKey(candidate.blob)));
      if (pack_row) {
        STEPFS_ASSIGN_OR_RETURN(index::PackRecord pack, index::PackRecord::Decode(*pack_row));
        if (--pack.live == 0) {
          Delete(Table::kPacks, index::ContentKey(candidate.blob));
        } else {
          Put(Table::kPacks, index::ContentKey(candidate.blob), pack.Encode());
          candidate.blob = 0;  // The file stays for the others.
        }
      }
    }
    dropped_.push_back({id, std::move(candidate)});
  }
  return {};
}

Status Transaction::Commit() {
  if (changes_.empty()) return {};
  index::WriteBatch batch;
  for (const auto& [at, value] : changes_) {
    if (value) {
      batch.Put(at.first, at.second, *value);
    } else {
      batch.Delete(at.first, at.second);
    }
  }
  auto sequence = catalog_.index_.Commit(batch);
  if (!sequence.ok()) return sequence.status();
  changes_.clear();
  return {};
}

}  // namespace stepfs::store
