// SPDX-License-Identifier: Apache-2.0
//
// What the rows of the index hold: key builders and records with their encodings. docs/index_schema.md is the
// byte-exact description. Records grow only at their end: a decoder ignores trailing bytes it does not know, and a
// field that a shorter record lacks has its default.
//
// A *place* is (inode number of the parent directory, name). A *content* is an immutable run of bytes once it is
// committed; a *version* is a content seen at a place, numbered from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace stepfs::index {

using InodeNumber = std::uint64_t;    // Persistent. The root is 1; 0 is none.
using ContentId = std::uint64_t;      // Persistent, never reused. 0 is the empty content.
using VersionNumber = std::uint64_t;  // 1, 2, ... within a place, never reused. 0 is none.
using Nanoseconds = std::int64_t;     // Since 1970-01-01 UTC.

inline constexpr InodeNumber kRootInode = 1;

struct Place {
  InodeNumber parent = 0;
  std::string name;  // One path component, 1 to 255 bytes, no '/' and no NUL.
  auto operator<=>(const Place&) const = default;
};

// ---- Keys. Integers in keys are big-endian, so that key order is number order.
std::string InodeKey(InodeNumber ino);                              // kInodes
std::string PlaceKey(const Place& place);                           // kDentries, kPlaces: parent, name
std::string ChildPrefix(InodeNumber parent);                        // All places of a directory
std::string LinkKey(InodeNumber ino, const Place& place);           // kLinks: ino, parent, name
std::string XattrKey(InodeNumber ino, std::string_view name);       // kXattrs: ino, name
std::string VersionPrefix(const Place& place);                      // kVersions, kGraves: parent, name, NUL
std::string VersionKey(const Place& place, VersionNumber version);  // ... and the number
std::string ContentKey(ContentId content);                          // kContents, kPending, kPacks, kSketches
std::string DigestKey(const Digest& digest, std::uint64_t size, ContentId content);  // kDigests
std::string DigestPrefix(const Digest& digest, std::uint64_t size);
std::string DependentKey(ContentId base, ContentId dependent);  // kDependents

// ---- Taking keys apart. Nothing for a key that no builder makes.
std::optional<Place> PlaceFromKey(std::string_view key);  // PlaceKey
std::optional<std::pair<InodeNumber, Place>> LinkFromKey(std::string_view key);
struct VersionAt {
  Place place;
  VersionNumber version = 0;
};
std::optional<VersionAt> VersionFromKey(std::string_view key);  // VersionKey (and grave keys)
std::optional<std::uint64_t> NumberFromKey(std::string_view key, std::size_t offset = 0);  // 8 bytes at offset

// ---- Records. Encode() gives the value of a row; the static Decode() is kCorruption for bytes that are none.

// kInodes. What stat(2) shows, and what the inode's name and data are.
struct InodeRecord {
  std::uint32_t mode = 0;  // File type and permission bits, as in st_mode.
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t rdev = 0;
  std::uint32_t nlink = 0;  // 0: unlinked, kept while it is open or as a grave.
  std::uint64_t size = 0;   // Logical bytes; of a symbolic link the length of its target.
  Nanoseconds atime = 0;
  Nanoseconds mtime = 0;
  Nanoseconds ctime = 0;
  ContentId content = 0;      // Regular files.
  bool uncommitted = false;   // Regular files: the data has changed since the newest version.
  bool closed = false;        // Uncommitted data: its writer's close was answered (FLUSH), nothing written since.
  InodeNumber parent = 0;     // Directories: for "..", and the place's first half.
  std::uint64_t entries = 0;  // Directories: number of dentries.
  std::string target;         // Symbolic links.

  std::string Encode() const;
  static Result<InodeRecord> Decode(std::string_view value);
};

// kDentries.
struct DentryRecord {
  InodeNumber ino = 0;
  std::uint32_t type = 0;  // mode & S_IFMT.

  std::string Encode() const;
  static Result<DentryRecord> Decode(std::string_view value);
};

// kPlaces. Exists from the first commit, link removal or grave at a place on, and outlives them, so that numbers are
// never reused.
struct PlaceRecord {
  VersionNumber next_version = 1;
  VersionNumber deleted_through = 0;  // Versions up to this one were there when the name was last removed.
  Nanoseconds deleted_time = 0;       // When that was.
  std::uint64_t next_grave = 1;       // K of the next removed directory of this name.
  std::uint64_t next_partial = 1;     // K of the next incomplete leftover.

  std::string Encode() const;
  static Result<PlaceRecord> Decode(std::string_view value);
};

// Incomplete leftovers have numbers from here on, so that they never collide with versions.
inline constexpr VersionNumber kPartialNumbers = VersionNumber{1} << 63;

// kVersions.
struct VersionRecord {
  enum Flag : std::uint32_t {
    kFsynced = 1,      // fsync(2) returned for it: never coalesced away.
    kProvisional = 2,  // Committed while a descriptor was still open; a later write takes it back.
    kUnclosed = 4,     // Its writer died or failed before closing it: not hidden, but marked.
    kPartial = 8,      // Incomplete leftover of a crash, keyed by kPartialNumbers + K of its partial-K.
    kReplacing = 16,   // Came by rename over an existing file.
  };

  ContentId content = 0;
  std::uint64_t size = 0;  // The version is the first `size` bytes of the content.
  InodeNumber ino = 0;     // Whose data it was.
  Nanoseconds time = 0;    // Of the commit.
  Nanoseconds mtime = 0;
  std::uint32_t mode = 0;  // The writer's, with write bits.
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t flags = 0;
  std::optional<std::int64_t> step;

  std::string Encode() const;
  static Result<VersionRecord> Decode(std::string_view value);
};

// Where a content's bytes are. Persisted.
enum class ContentState : std::uint8_t {
  kOpen = 1,     // staging/<id>: being written.
  kStaged = 2,   // staging/<id>: complete, waits for the encoder.
  kSealed = 3,   // blobs/: encoded, verified, durable.
  kInline = 4,   // In the record itself.
  kAlias = 5,    // Byte-identical to `alias_of`.
  kDamaged = 6,  // Known to be unreadable.
};

// kContents.
struct ContentRecord {
  ContentState state = ContentState::kOpen;
  std::uint64_t size = 0;        // Logical bytes. Of an open content: when it was last journalled.
  std::uint32_t references = 0;  // Inodes and versions that refer to it. Dependents are counted by their own rows.
  // Staged contents: bytes known to be on disk, unchanged since. == size of a kStaged content: it is durable.
  std::uint64_t synced_size = 0;
  bool overwritten_since_sync = false;  // Bytes below synced_size changed after the sync.
  Nanoseconds time = 0;                 // Of the creation of its staging file.
  std::optional<Digest> digest;         // Of the whole content, once it was hashed.

  // Sealed contents.
  std::uint64_t blob = 0;          // Number of the blob file.
  std::uint64_t blob_offset = 0;   // Of the frame in it (not 0 in packs).
  std::uint64_t stored_bytes = 0;  // Length of the frame; of an inline content the length of its encoding.
  std::vector<ContentId> sources;  // In the order of the frame's source list; the first is the base. Empty: anchor.
  std::uint32_t depth = 0;         // Links to the anchor.
  std::string codec;               // The frame's dominant codec.
  bool lossless = true;

  ContentId alias_of = 0;    // kAlias. Never itself an alias.
  std::string inline_bytes;  // kInline: the bytes themselves.

  // What the content is, for choosing bases.
  Place origin;  // Where it was first committed, and as which version.
  VersionNumber origin_version = 0;
  std::string format;  // Layout::format, empty until parsed.
  Digest fingerprint;  // Layout::fingerprint.
  // Times it was reopened for writing after a commit: the same state and size need not mean the same bytes.
  std::uint32_t reopened = 0;
  std::uint32_t tensors = 0;  // Number of tensors found.

  std::string Encode() const;
  static Result<ContentRecord> Decode(std::string_view value);
};

// kGraves: a removed directory, keyed like a version with K as the number.
struct GraveRecord {
  InodeNumber ino = 0;  // Its inode record stays, with nlink 0.
  Nanoseconds time = 0;

  std::string Encode() const;
  static Result<GraveRecord> Decode(std::string_view value);
};

// kPacks: a blob file that holds several frames.
struct PackRecord {
  std::uint64_t bytes = 0;
  std::uint32_t live = 0;  // Contents still in it; the file goes when none is.

  std::string Encode() const;
  static Result<PackRecord> Decode(std::string_view value);
};

// kState rows, by key.
inline constexpr std::string_view kNextInodeKey = "next_inode";      // u64, little-endian
inline constexpr std::string_view kNextContentKey = "next_content";  // u64, little-endian
inline constexpr std::string_view kSessionKey = "session";           // SessionRecord
inline constexpr std::string_view kClockKey = "clock";               // u64: latest commit time handed out

// Which boot and which mount of the store's file system wrote last: evidence for recovery.
struct SessionRecord {
  std::string boot_id;
  std::uint64_t mount_id = 0;  // STATX_MNT_ID_UNIQUE of the store, 0 where the kernel has none.
  bool clean = false;          // Everything was synced when it ended.

  std::string Encode() const;
  static Result<SessionRecord> Decode(std::string_view value);
};

}  // namespace stepfs::index
