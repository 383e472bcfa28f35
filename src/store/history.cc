// SPDX-License-Identifier: Apache-2.0
#include "store/history.h"

#include <sys/stat.h>

#include <set>

#include "store/step_name.h"

namespace stepfs::store {

using index::Table;

namespace {

// Distinct names among the keys of a table below a directory.
Result<std::set<std::string>> NamesIn(const Catalog& catalog, Table table, InodeNumber directory) {
  std::set<std::string> names;
  STEPFS_RETURN_IF_ERROR(
      catalog.index().Scan(table, index::ChildPrefix(directory), {}, [&](std::string_view key, std::string_view) {
        if (const auto at = index::VersionFromKey(key)) names.insert(at->place.name);
        return true;
      }));
  return names;
}

}  // namespace

std::string_view StateName(const VersionInfo& info) {
  if (info.record.flags & VersionRecord::kPartial) return "partial";
  switch (info.content.state) {
    case ContentState::kOpen:
    case ContentState::kStaged:
      return "staged";
    case ContentState::kSealed:
    case ContentState::kInline:
    case ContentState::kAlias:
      return "sealed";
    case ContentState::kDamaged:
      return "damaged";
  }
  return "damaged";
}

Result<VersionInfo> History::Describe(const Place& place, const NumberedVersion& version) const {
  VersionInfo info;
  info.place = place;
  info.version = version.version & ~index::kPartialNumbers;
  info.record = version.record;
  STEPFS_ASSIGN_OR_RETURN(info.content, catalog_.GetContent(version.record.content));
  if (info.content.state == ContentState::kAlias) {
    info.alias = true;
    STEPFS_ASSIGN_OR_RETURN(info.content, catalog_.GetContent(info.content.alias_of));
  } else if (info.content.state == ContentState::kOpen || info.content.state == ContentState::kStaged) {
    info.stored_bytes = version.record.size;
  } else {
    info.stored_bytes = info.content.stored_bytes;
  }
  if (!info.content.sources.empty()) {
    STEPFS_ASSIGN_OR_RETURN(const ContentRecord base, catalog_.GetContent(info.content.sources.front()));
    info.base_place = base.origin;
    info.base_version = base.origin_version;
    info.base_digest = base.digest;
  }
  info.step = version.record.step;
  if (!info.step) {
    if (auto path = catalog_.PathOf(place); path.ok()) info.step = StepOfPath(*path);
  }
  return info;
}

Result<std::vector<std::string>> History::LiveNames(InodeNumber directory) const {
  STEPFS_ASSIGN_OR_RETURN(const auto names, NamesIn(catalog_, Table::kVersions, directory));
  std::vector<std::string> living;
  for (const std::string& name : names) {
    STEPFS_ASSIGN_OR_RETURN(const auto dentry, catalog_.FindDentry({directory, name}));
    if (dentry && dentry->type == S_IFREG) living.push_back(name);
  }
  return living;
}

Result<std::vector<std::string>> History::DeletedNames(InodeNumber directory) const {
  STEPFS_ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn(catalog_, Table::kGraves, directory));
  STEPFS_ASSIGN_OR_RETURN(const auto versioned, NamesIn(catalog_, Table::kVersions, directory));
  for (const std::string& name : versioned) {
    const Place place{directory, name};
    STEPFS_ASSIGN_OR_RETURN(const auto record, catalog_.GetPlace(place));
    bool removed = record.next_partial > 1;
    if (!removed && record.deleted_through > 0) {
      STEPFS_ASSIGN_OR_RETURN(const auto oldest, catalog_.NewestVersion(place, [&](const NumberedVersion& at) {
        return at.version <= record.deleted_through;
      }));
      removed = oldest.has_value();
    }
    if (removed) names.insert(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::vector<VersionInfo>> History::Versions(const Place& place) const {
  STEPFS_ASSIGN_OR_RETURN(const auto versions, catalog_.Versions(place));
  std::vector<VersionInfo> infos;
  for (const NumberedVersion& version : versions) {
    STEPFS_ASSIGN_OR_RETURN(auto info, Describe(place, version));
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<std::vector<VersionInfo>> History::DeletedVersions(const Place& place) const {
  STEPFS_ASSIGN_OR_RETURN(const auto record, catalog_.GetPlace(place));
  STEPFS_ASSIGN_OR_RETURN(auto infos, Versions(place));
  std::erase_if(infos, [&](const VersionInfo& info) { return info.version > record.deleted_through; });
  return infos;
}

Result<std::vector<VersionInfo>> History::Partials(const Place& place) const {
  std::vector<NumberedVersion> partials;
  STEPFS_RETURN_IF_ERROR(catalog_.index().Scan(Table::kVersions, index::VersionPrefix(place),
                                               index::VersionKey(place, index::kPartialNumbers),
                                               [&](std::string_view key, std::string_view value) {
                                                 const auto at = index::VersionFromKey(key);
                                                 auto record = VersionRecord::Decode(value);
                                                 if (at && at->place == place && record.ok()) {
                                                   partials.push_back({at->version, std::move(*record)});
                                                 }
                                                 return true;
                                               }));
  std::vector<VersionInfo> infos;
  for (const NumberedVersion& partial : partials) {
    STEPFS_ASSIGN_OR_RETURN(auto info, Describe(place, partial));
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<VersionInfo> History::Version(const Place& place, VersionNumber version) const {
  STEPFS_ASSIGN_OR_RETURN(const auto record, catalog_.FindVersion(place, version));
  if (!record) {
    return Status::NotFound(catalog_.PathOf(place).value_or(place.name) + " has no version " + std::to_string(version));
  }
  return Describe(place, {version, *record});
}

Result<std::vector<History::Grave>> History::Graves(const Place& place) const {
  std::vector<Grave> graves;
  STEPFS_RETURN_IF_ERROR(catalog_.index().Scan(Table::kGraves, index::VersionPrefix(place), {},
                                               [&](std::string_view key, std::string_view value) {
                                                 const auto at = index::VersionFromKey(key);
                                                 auto record = index::GraveRecord::Decode(value);
                                                 if (at && record.ok()) {
                                                   graves.push_back({at->version, record->ino, record->time});
                                                 }
                                                 return true;
                                               }));
  return graves;
}

namespace {

// The first `size` bytes of a content that may have grown since.
class PrefixSource final : public ByteSource {
 public:
  PrefixSource(std::shared_ptr<const ByteSource> whole, std::uint64_t size) : whole_(std::move(whole)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size_ || out.size() > size_ - offset)
      return Status::InvalidArgument("read beyond the end of a version");
    return whole_->ReadAt(offset, out);
  }

 private:
  const std::shared_ptr<const ByteSource> whole_;
  const std::uint64_t size_;
};

}  // namespace

Result<std::shared_ptr<const ByteSource>> History::Open(const VersionInfo& info) const {
  auto source = contents_.OpenContent(info.record.content);
  if (!source.ok() || (*source)->size() < info.record.size) {
    const std::string name =
        catalog_.PathOf(info.place).value_or(info.place.name) + ", version " + std::to_string(info.version);
    if (!source.ok()) return source.status().WithContext(name);
    return Status::Corruption(name + ": " + std::to_string((*source)->size()) + " bytes found, expected " +
                              std::to_string(info.record.size));
  }
  if ((*source)->size() == info.record.size) return source;
  return std::shared_ptr<const ByteSource>(std::make_shared<PrefixSource>(std::move(*source), info.record.size));
}

Result<std::vector<VersionInfo>> History::Below(InodeNumber directory) const {
  std::vector<VersionInfo> infos;
  std::vector<InodeNumber> directories{directory};
  std::set<InodeNumber> seen;
  while (!directories.empty()) {
    const InodeNumber at = directories.back();
    directories.pop_back();
    if (!seen.insert(at).second) continue;
    STEPFS_ASSIGN_OR_RETURN(const auto names, NamesIn(catalog_, Table::kVersions, at));
    for (const std::string& name : names) {
      STEPFS_ASSIGN_OR_RETURN(auto versions, Versions({at, name}));
      STEPFS_ASSIGN_OR_RETURN(auto partials, Partials({at, name}));
      infos.insert(infos.end(), std::make_move_iterator(versions.begin()), std::make_move_iterator(versions.end()));
      infos.insert(infos.end(), std::make_move_iterator(partials.begin()), std::make_move_iterator(partials.end()));
    }
    STEPFS_ASSIGN_OR_RETURN(const auto children, catalog_.Children(at));
    for (const auto& child : children) {
      if (child.dentry.type == S_IFDIR) directories.push_back(child.dentry.ino);
    }
    STEPFS_ASSIGN_OR_RETURN(const auto graves, NamesIn(catalog_, Table::kGraves, at));
    for (const std::string& name : graves) {
      STEPFS_ASSIGN_OR_RETURN(const auto removed, Graves({at, name}));
      for (const Grave& grave : removed) directories.push_back(grave.ino);
    }
  }
  return infos;
}

Result<History::Target> History::Resolve(std::string_view path) const {
  Target target;
  target.directory = index::kRootInode;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    path = slash == path.npos ? std::string_view() : path.substr(slash + 1);
    if (name.empty() || name == ".") continue;
    if (!target.directory) return Status::Posix(ENOTDIR);
    target.place = {*target.directory, std::string(name)};
    target.directory.reset();
    STEPFS_ASSIGN_OR_RETURN(const auto dentry, catalog_.FindDentry(target.place));
    if (dentry && dentry->type == S_IFDIR) {
      target.directory = dentry->ino;
      continue;
    }
    if (dentry) continue;
    STEPFS_ASSIGN_OR_RETURN(const auto newest, catalog_.NewestVersion(target.place));
    STEPFS_ASSIGN_OR_RETURN(const auto graves, Graves(target.place));
    if (!newest && graves.empty()) {
      return Status::NotFound("there is no " + std::string(name) + ", and none was there before");
    }
    if (!newest || !path.empty()) target.directory = graves.empty() ? std::nullopt : std::optional(graves.back().ino);
  }
  return target;
}

}  // namespace stepfs::store
