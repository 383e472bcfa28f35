// SPDX-License-Identifier: Apache-2.0
#include "fs/versions_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <set>

namespace stepfs::fs {
namespace {

using index::InodeNumber;
using index::Place;
using store::Attributes;
using store::History;
using store::VersionInfo;
using store::VersionNumber;
using store::VersionRecord;
using Kind = VirtualNode::Kind;

constexpr std::string_view kVersionsName = "versions";
constexpr std::string_view kDeletedName = "deleted";
constexpr std::string_view kPartialPrefix = "partial-";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::uint32_t kReadBits = 0555;

std::string VersionName(VersionNumber version) {
  char text[32];
  std::snprintf(text, sizeof text, "v%06llu", static_cast<unsigned long long>(version));
  return text;
}

std::string PartialName(std::uint64_t number) { return std::string(kPartialPrefix) + std::to_string(number); }
std::string StepName(std::int64_t step) { return std::string(kStepPrefix) + std::to_string(step); }

template <typename Integer>
std::optional<Integer> ParseInteger(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The number behind a prefix, if `spell` writes it exactly so: there is one name for each thing.
template <typename Integer, typename Spell>
std::optional<Integer> NumberIn(std::string_view name, std::string_view prefix, Spell spell) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = ParseInteger<Integer>(name.substr(prefix.size()));
  return number && spell(*number) == name ? number : std::nullopt;
}

std::optional<VersionNumber> VersionIn(std::string_view name) {
  return NumberIn<VersionNumber>(name, "v", [](VersionNumber number) { return VersionName(number); });
}

VirtualNode VersionNode(const Place& place, VersionNumber key, const VersionRecord& record) {
  return {Kind::kVersion, place.parent, place.name, key, record.content, record.size};
}

VirtualNode VersionNode(const VersionInfo& info) {
  const bool partial = (info.record.flags & VersionRecord::kPartial) != 0;
  return VersionNode(info.place, info.version | (partial ? index::kPartialNumbers : 0), info.record);
}

Status Absent() { return Status::Posix(ENOENT); }

// Permission bits of a version that do not give more than the living file does now.
std::uint32_t Narrowed(const VersionRecord& version, const Attributes& living) {
  const std::uint32_t others = living.mode & 07;
  const std::uint32_t owner = version.uid == living.uid ? living.mode >> 6 & 07 : others;
  const std::uint32_t group = version.gid == living.gid ? living.mode >> 3 & 07 : others;
  return version.mode & (owner << 6 | group << 3 | others);
}

}  // namespace

Result<VirtualNode> VersionsTree::TopOf(InodeNumber directory) const {
  STEPFS_ASSIGN_OR_RETURN(const Attributes attributes, store_.tree().GetAttributes(directory));
  if (!S_ISDIR(attributes.mode)) return Status::Posix(ENOTDIR);
  if (attributes.nlink == 0) return Absent();
  return VirtualNode{Kind::kTop, directory};
}

Result<VirtualNode> VersionsTree::Lookup(const VirtualNode& parent, std::string_view name) const {
  if (name.size() > 255) return Status::Posix(ENAMETOOLONG);
  const Place place{parent.directory, std::string(name)};
  switch (parent.kind) {
    case Kind::kTop:
      if (name == kVersionsName) return VirtualNode{Kind::kVersions, parent.directory};
      if (name == kDeletedName) return VirtualNode{Kind::kDeleted, parent.directory};
      return Absent();
    case Kind::kVersions: {
      STEPFS_ASSIGN_OR_RETURN(const auto dentry, store_.catalog().FindDentry(place));
      if (!dentry || dentry->type != S_IFREG) return Absent();
      STEPFS_ASSIGN_OR_RETURN(const auto newest, store_.catalog().NewestVersion(place));
      if (!newest) return Absent();
      return VirtualNode{Kind::kVersionsOf, parent.directory, place.name};
    }
    case Kind::kDeleted: {
      STEPFS_ASSIGN_OR_RETURN(const bool deleted, WasDeleted(place));
      if (!deleted) return Absent();
      return VirtualNode{Kind::kDeletedOf, parent.directory, place.name};
    }
    case Kind::kVersionsOf:
      return LookupVersion(parent, name);
    case Kind::kDeletedOf:
      return LookupDeleted(parent, name);
    case Kind::kGrave:
      return LookupInGrave(parent, name);
    case Kind::kVersion:
      break;
  }
  return Status::Posix(ENOTDIR);
}

Result<VirtualNode> VersionsTree::LookupVersion(const VirtualNode& parent, std::string_view name) const {
  if (const auto number = VersionIn(name)) {
    STEPFS_ASSIGN_OR_RETURN(const auto record, store_.catalog().FindVersion(parent.place(), *number));
    if (!record) return Absent();
    return VersionNode(parent.place(), *number, *record);
  }
  if (const auto step = NumberIn<std::int64_t>(name, kStepPrefix, StepName)) {
    STEPFS_ASSIGN_OR_RETURN(const auto versions, store_.history().Versions(parent.place()));
    const auto found =
        std::find_if(versions.rbegin(), versions.rend(), [&](const VersionInfo& info) { return info.step == step; });
    if (found != versions.rend()) return VersionNode(*found);
  }
  return Absent();
}

Result<bool> VersionsTree::WasDeleted(const Place& place) const {
  STEPFS_ASSIGN_OR_RETURN(const auto record, store_.catalog().GetPlace(place));
  if (record.next_partial > 1) return true;
  if (record.next_grave > 1) {
    STEPFS_ASSIGN_OR_RETURN(const auto graves, store_.history().Graves(place));
    if (!graves.empty()) return true;
  }
  if (record.deleted_through == 0) return false;
  STEPFS_ASSIGN_OR_RETURN(const auto newest,
                          store_.catalog().NewestVersion(place, [&](const store::NumberedVersion& version) {
                            return version.version <= record.deleted_through;
                          }));
  return newest.has_value();
}

Result<VirtualNode> VersionsTree::LookupDeleted(const VirtualNode& parent, std::string_view name) const {
  const Place place = parent.place();
  if (const auto number = VersionIn(name)) {
    STEPFS_ASSIGN_OR_RETURN(const auto place_record, store_.catalog().GetPlace(place));
    if (*number > place_record.deleted_through) return Absent();
    STEPFS_ASSIGN_OR_RETURN(const auto record, store_.catalog().FindVersion(place, *number));
    if (!record) return Absent();
    return VersionNode(place, *number, *record);
  }
  if (const auto number = NumberIn<std::uint64_t>(name, kPartialPrefix, PartialName)) {
    const VersionNumber key = *number | index::kPartialNumbers;
    STEPFS_ASSIGN_OR_RETURN(const auto record, store_.catalog().FindVersion(place, key));
    if (!record) return Absent();
    return VersionNode(place, key, *record);
  }
  if (const auto number =
          NumberIn<std::uint64_t>(name, "", [](std::uint64_t value) { return std::to_string(value); })) {
    STEPFS_ASSIGN_OR_RETURN(const auto graves, store_.history().Graves(place));
    for (const History::Grave& grave : graves) {
      if (grave.number == *number) return VirtualNode{Kind::kGrave, grave.ino};
    }
  }
  return Absent();
}

Result<VirtualNode> VersionsTree::LookupInGrave(const VirtualNode& parent, std::string_view name) const {
  const Place place{parent.directory, std::string(name)};
  STEPFS_ASSIGN_OR_RETURN(const auto newest, store_.catalog().NewestVersion(place));
  STEPFS_ASSIGN_OR_RETURN(const auto graves, store_.history().Graves(place));
  if (newest) {
    // A name may have been a file and a directory in turn: the later one counts.
    STEPFS_ASSIGN_OR_RETURN(const auto record, store_.catalog().GetPlace(place));
    if (graves.empty() || graves.back().time < record.deleted_time) {
      return VersionNode(place, newest->version, newest->record);
    }
  }
  if (graves.empty()) return Absent();
  return VirtualNode{Kind::kGrave, graves.back().ino};
}

Result<std::vector<VersionsTree::Entry>> VersionsTree::List(const VirtualNode& directory) const {
  const History& history = store_.history();
  std::vector<Entry> entries;
  switch (directory.kind) {
    case Kind::kTop:
      entries.push_back({std::string(kDeletedName), {Kind::kDeleted, directory.directory}});
      entries.push_back({std::string(kVersionsName), {Kind::kVersions, directory.directory}});
      return entries;
    case Kind::kVersions: {
      STEPFS_ASSIGN_OR_RETURN(const auto names, history.LiveNames(directory.directory));
      for (const std::string& name : names) entries.push_back({name, {Kind::kVersionsOf, directory.directory, name}});
      return entries;
    }
    case Kind::kDeleted: {
      STEPFS_ASSIGN_OR_RETURN(const auto names, history.DeletedNames(directory.directory));
      for (const std::string& name : names) entries.push_back({name, {Kind::kDeletedOf, directory.directory, name}});
      return entries;
    }
    case Kind::kVersionsOf: {
      STEPFS_ASSIGN_OR_RETURN(const auto versions, history.Versions(directory.place()));
      std::set<std::int64_t> steps;
      for (const VersionInfo& info : versions) entries.push_back({VersionName(info.version), VersionNode(info)});
      for (auto info = versions.rbegin(); info != versions.rend(); ++info) {
        if (info->step && steps.insert(*info->step).second) {
          entries.push_back({StepName(*info->step), VersionNode(*info)});
        }
      }
      return entries;
    }
    case Kind::kDeletedOf: {
      STEPFS_ASSIGN_OR_RETURN(const auto versions, history.DeletedVersions(directory.place()));
      STEPFS_ASSIGN_OR_RETURN(const auto partials, history.Partials(directory.place()));
      STEPFS_ASSIGN_OR_RETURN(const auto graves, history.Graves(directory.place()));
      for (const VersionInfo& info : versions) entries.push_back({VersionName(info.version), VersionNode(info)});
      for (const VersionInfo& info : partials) entries.push_back({PartialName(info.version), VersionNode(info)});
      for (const History::Grave& grave : graves) {
        entries.push_back({std::to_string(grave.number), {Kind::kGrave, grave.ino}});
      }
      return entries;
    }
    case Kind::kGrave: {
      STEPFS_ASSIGN_OR_RETURN(const auto names, history.DeletedNames(directory.directory));
      for (const std::string& name : names) {
        auto node = LookupInGrave(directory, name);
        if (node.ok()) {
          entries.push_back({name, std::move(*node)});
        } else if (node.status().ToErrno() != ENOENT) {
          return node.status();
        }
      }
      return entries;
    }
    case Kind::kVersion:
      break;
  }
  return Status::Posix(ENOTDIR);
}

Result<VirtualNode> VersionsTree::ParentOf(const VirtualNode& node) const {
  switch (node.kind) {
    case Kind::kVersionsOf:
    case Kind::kVersion:
      return VirtualNode{Kind::kVersions, node.directory};
    case Kind::kDeletedOf:
      return VirtualNode{Kind::kDeleted, node.directory};
    case Kind::kGrave: {
      // A removed directory's record keeps its last name and parent.
      STEPFS_ASSIGN_OR_RETURN(const auto record, store_.catalog().GetInode(node.directory));
      STEPFS_ASSIGN_OR_RETURN(const auto parent, store_.catalog().GetInode(record.parent));
      if (parent.nlink == 0) return VirtualNode{Kind::kGrave, record.parent};
      return VirtualNode{Kind::kDeletedOf, record.parent, record.target};
    }
    case Kind::kTop:
    case Kind::kVersions:
    case Kind::kDeleted:
      break;
  }
  return VirtualNode{Kind::kTop, node.directory};
}

Result<Attributes> VersionsTree::AttributesOf(const VirtualNode& node) const {
  if (!node.is_file()) {
    STEPFS_ASSIGN_OR_RETURN(Attributes attributes, store_.tree().GetAttributes(node.directory));
    attributes.mode = S_IFDIR | (attributes.mode & kReadBits);
    attributes.nlink = 2;
    return attributes;
  }
  STEPFS_ASSIGN_OR_RETURN(const VersionInfo info, InfoOf(node));
  Attributes attributes;
  attributes.mode = info.record.mode;
  STEPFS_ASSIGN_OR_RETURN(const auto dentry, store_.catalog().FindDentry(node.place()));
  if (dentry && dentry->type == S_IFREG) {
    auto living = store_.tree().GetAttributes(dentry->ino);
    if (living.ok()) attributes.mode = Narrowed(info.record, *living);
  }
  attributes.mode = S_IFREG | (attributes.mode & kReadBits);
  attributes.uid = info.record.uid;
  attributes.gid = info.record.gid;
  attributes.nlink = 1;
  attributes.size = info.record.size;
  if (attributes.size > 0) attributes.blocks = std::max<std::uint64_t>(1, (info.stored_bytes + 511) / 512);
  attributes.atime = attributes.mtime = info.record.mtime;
  attributes.ctime = info.record.time;
  return attributes;
}

Result<VersionInfo> VersionsTree::InfoOf(const VirtualNode& node) const {
  auto info = store_.history().Version(node.place(), node.version);
  if (!info.ok() && info.status().kind() != StatusKind::kNotFound) return info;
  if (!info.ok() || info->record.content != node.content || info->record.size != node.size) {
    return Status::Posix(ESTALE);
  }
  return info;
}

Result<std::shared_ptr<const ByteSource>> VersionsTree::Open(const VirtualNode& node) const {
  STEPFS_ASSIGN_OR_RETURN(const VersionInfo info, InfoOf(node));
  return store_.history().Open(info);
}

std::string VersionsTree::Describe(const VirtualNode& node) const {
  if (node.kind == Kind::kVersion) {
    const std::string path = store_.history().PathOf(node.place()).value_or(node.name);
    const VersionNumber number = node.version & ~index::kPartialNumbers;
    return path + (number == node.version ? ", version " : ", partial ") + std::to_string(number);
  }
  return std::string(kTopName) + " of inode " + std::to_string(node.directory);
}

}  // namespace stepfs::fs
