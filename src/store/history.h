// SPDX-License-Identifier: Apache-2.0
//
// History: what was at a place before. Read-only views for the .stepfs tree, the command line and JSON output.
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "store/catalog.h"
#include "store/content_store.h"

namespace stepfs::store {

// One version with all that is told about it (semantics of the JSON fields: docs/cli.md).
struct VersionInfo {
  Place place;
  VersionNumber version = 0;
  VersionRecord record;
  ContentRecord content;            // Of the content itself; of an alias, of what it is an alias of.
  bool alias = false;               // Stored once, under another version.
  std::uint64_t stored_bytes = 0;   // 0 for an alias; staged: the raw bytes.
  std::optional<Place> base_place;  // Of the delta's base, as it was first committed.
  VersionNumber base_version = 0;
  std::optional<Digest> base_digest;
  std::optional<std::int64_t> step;
};

// "staged", "sealing", "sealed", "damaged", "partial".
std::string_view StateName(const VersionInfo& info);

class History {
 public:
  History(Catalog& catalog, ContentStore& contents) : catalog_(catalog), contents_(contents) {}

  // Names in a directory that have versions: of living files, or of names that were removed.
  Result<std::vector<std::string>> LiveNames(InodeNumber directory) const;
  // Names that were removed: files with deleted versions, directories with graves, leftovers of crashes.
  Result<std::vector<std::string>> DeletedNames(InodeNumber directory) const;

  // All versions of a place, ascending.
  Result<std::vector<VersionInfo>> Versions(const Place& place) const;
  // Those that were there when the name was last removed (also when it has been made again since).
  Result<std::vector<VersionInfo>> DeletedVersions(const Place& place) const;
  Result<std::vector<VersionInfo>> Partials(const Place& place) const;  // VersionInfo::version is K.
  Result<VersionInfo> Version(const Place& place, VersionNumber version) const;
  // Removed directories of that name: (K, inode number).
  struct Grave {
    std::uint64_t number = 0;
    InodeNumber ino = 0;
    Nanoseconds time = 0;
  };
  Result<std::vector<Grave>> Graves(const Place& place) const;

  // The bytes of a version.
  Result<std::shared_ptr<const ByteSource>> Open(const VersionInfo& info) const;

  // Everything below a directory (or one file), for `stepfs log`: living and removed.
  Result<std::vector<VersionInfo>> Below(InodeNumber directory) const;

  // "run1/last.pt" -> its place; kNotFound when neither a name nor a history is there. "" is the root directory.
  struct Target {
    Place place;                           // Of a file or directory; parent 0 for the root.
    std::optional<InodeNumber> directory;  // Set when it is a directory.
  };
  Result<Target> Resolve(std::string_view path) const;
  Result<std::string> PathOf(const Place& place) const { return catalog_.PathOf(place); }

 private:
  Result<VersionInfo> Describe(const Place& place, const NumberedVersion& version) const;

  Catalog& catalog_;
  ContentStore& contents_;
};

}  // namespace stepfs::store
