// SPDX-License-Identifier: Apache-2.0
#include "store/predecessor.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "store/step_name.h"

namespace stepfs::store {
namespace {

using index::Table;

constexpr int kAncestors = 4;             // How far up a step-numbered directory is looked for.
constexpr std::uint64_t kSizeFactor = 4;  // Without a common fingerprint, sizes may differ by so much.

bool PlausibleSizes(std::uint64_t a, std::uint64_t b) { return std::max(a, b) / kSizeFactor <= std::min(a, b); }

// Names in a directory, living or removed, that have the pattern of `name` and other steps; the one that `name` most
// likely follows first: the greatest smaller step, then smaller ones, then greater ones.
Result<std::vector<std::string>> StepSiblings(const Catalog& catalog, InodeNumber directory, std::string_view name) {
  const StepName own = ParseStepName(name);
  std::vector<std::string> siblings;
  if (!own.has_steps()) return siblings;
  std::set<std::string> names;
  for (const Table table : {Table::kPlaces, Table::kDentries}) {
    STEPFS_RETURN_IF_ERROR(
        catalog.index().Scan(table, index::ChildPrefix(directory), {}, [&](std::string_view key, std::string_view) {
          names.emplace(key.substr(8));
          return true;
        }));
  }
  std::vector<std::pair<std::vector<std::uint64_t>, std::string>> found;
  for (const std::string& other : names) {
    StepName parsed = ParseStepName(other);
    if (other != name && parsed.pattern == own.pattern) found.emplace_back(std::move(parsed.steps), other);
  }
  std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
    const bool a_before = a.first < own.steps, b_before = b.first < own.steps;
    if (a_before != b_before) return a_before;
    return a.first > b.first;
  });
  for (auto& entry : found) siblings.push_back(std::move(entry.second));
  return siblings;
}

// The directories that a name in `parent` is or was: the living one, then removed ones, latest first.
Result<std::vector<InodeNumber>> DirectoriesAt(const Catalog& catalog, const Place& place) {
  std::vector<InodeNumber> directories;
  STEPFS_ASSIGN_OR_RETURN(const auto dentry, catalog.FindDentry(place));
  if (dentry && dentry->type == S_IFDIR) directories.push_back(dentry->ino);
  STEPFS_RETURN_IF_ERROR(catalog.index().ScanBackward(Table::kGraves, index::VersionPrefix(place), {},
                                                      [&](std::string_view, std::string_view value) {
                                                        auto grave = index::GraveRecord::Decode(value);
                                                        if (grave.ok()) directories.push_back(grave->ino);
                                                        return directories.size() < 3;
                                                      }));
  return directories;
}

}  // namespace

Status PredecessorFinder::Load() {
  return catalog_.index().Scan(Table::kContents, {}, {}, [&](std::string_view key, std::string_view value) {
    auto row = ContentRecord::Decode(value);
    const auto id = index::NumberFromKey(key);
    if (row.ok() && id && row->state == ContentState::kSealed) Remember(*id, row->fingerprint);
    return true;
  });
}

void PredecessorFinder::Remember(ContentId content, const Digest& fingerprint) {
  if (fingerprint == Digest{}) return;
  auto& contents = by_fingerprint_[fingerprint];
  contents.push_front(content);
  if (contents.size() > kPerFingerprint) contents.pop_back();
}

Status PredecessorFinder::ConsiderContent(ContentId content, std::vector<Candidate>& candidates) const {
  if (content == 0) return {};
  auto row = catalog_.GetContent(content);
  if (row.ok() && row->state == ContentState::kAlias) {
    content = row->alias_of;
    row = catalog_.GetContent(content);
  }
  if (row.ok() && row->state == ContentState::kSealed && row->size > 0)
    candidates.push_back({content, std::move(*row)});
  return {};
}

Status PredecessorFinder::Consider(const Place& place, VersionNumber before, std::vector<Candidate>& candidates) const {
  STEPFS_ASSIGN_OR_RETURN(const auto version, catalog_.NewestVersion(place, [&](const NumberedVersion& at) {
    return at.version < before && at.record.size > 0;
  }));
  if (!version) return {};
  return ConsiderContent(version->record.content, candidates);
}

Status PredecessorFinder::ConsiderSteps(const Place& place, std::vector<Candidate>& candidates) const {
  constexpr VersionNumber kAny = ~VersionNumber{0};
  constexpr std::size_t kEnough = 2;
  const std::size_t had = candidates.size();
  STEPFS_ASSIGN_OR_RETURN(const auto names, StepSiblings(catalog_, place.parent, place.name));
  for (const std::string& name : names) {
    STEPFS_RETURN_IF_ERROR(Consider({place.parent, name}, kAny, candidates));
    if (candidates.size() >= had + kEnough) return {};
  }
  // Up the tree: a/checkpoint-200/b/file -> a/checkpoint-100/b/file.
  std::vector<std::string> below{place.name};
  InodeNumber directory = place.parent;
  for (int level = 0; level < kAncestors && directory != index::kRootInode; ++level) {
    auto record = catalog_.GetInode(directory);
    if (!record.ok()) return {};
    STEPFS_ASSIGN_OR_RETURN(const auto links, catalog_.LinksOf(directory));
    const std::string name = links.empty() ? record->target : links.front().name;
    const InodeNumber parent = record->parent;
    STEPFS_ASSIGN_OR_RETURN(const auto siblings, StepSiblings(catalog_, parent, name));
    for (const std::string& sibling : siblings) {
      STEPFS_ASSIGN_OR_RETURN(std::vector<InodeNumber> at, DirectoriesAt(catalog_, {parent, sibling}));
      for (std::size_t i = below.size(); i-- > 1 && !at.empty();) {
        std::vector<InodeNumber> deeper;
        for (const InodeNumber ino : at) {
          STEPFS_ASSIGN_OR_RETURN(const auto found, DirectoriesAt(catalog_, {ino, below[i]}));
          deeper.insert(deeper.end(), found.begin(), found.end());
        }
        at = std::move(deeper);
      }
      for (const InodeNumber ino : at) {
        STEPFS_RETURN_IF_ERROR(Consider({ino, below.front()}, kAny, candidates));
        if (candidates.size() >= had + kEnough) return {};
      }
    }
    below.push_back(name);
    directory = parent;
  }
  return {};
}

Result<std::optional<ContentId>> PredecessorFinder::Find(ContentId target, const ContentRecord& row,
                                                         const codec::Layout& layout) {
  std::vector<Candidate> candidates;
  if (row.origin_version != 0) {
    STEPFS_RETURN_IF_ERROR(Consider(row.origin, row.origin_version, candidates));
    STEPFS_RETURN_IF_ERROR(ConsiderSteps(row.origin, candidates));
  }
  const bool has_tensors = layout.fingerprint != Digest{};
  if (has_tensors) {
    if (auto known = by_fingerprint_.find(layout.fingerprint); known != by_fingerprint_.end()) {
      for (const ContentId content : known->second) STEPFS_RETURN_IF_ERROR(ConsiderContent(content, candidates));
    }
    for (const Candidate& candidate : candidates) {
      if (candidate.content != target && candidate.row.fingerprint == layout.fingerprint) {
        return std::optional(candidate.content);
      }
    }
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.content != target && PlausibleSizes(candidate.row.size, row.size)) {
      return std::optional(candidate.content);
    }
  }
  return std::optional<ContentId>();
}

}  // namespace stepfs::store
