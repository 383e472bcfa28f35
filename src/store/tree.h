// SPDX-License-Identifier: Apache-2.0
//
// Tree: the live file tree with POSIX semantics, without FUSE: names, attributes, open files, and the rules by which
// what was written becomes versions (docs/versions.md). The file system layer translates kernel requests into these
// calls; tests call it directly.
//
// Permissions are the kernel's business (default_permissions): the tree does not check modes, only what POSIX says of
// the objects (EEXIST, ENOTEMPTY, EISDIR, ...), given as Status::Posix(errno).
//
// Thread-safe. Calls on different files do not wait for each other's disk I/O.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/catalog.h"
#include "store/content_store.h"
#include "store/sealer.h"

namespace stepfs::store {

// Who asks: owner and group of what is made.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct Attributes {
  InodeNumber ino = 0;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t nlink = 0;
  std::uint64_t rdev = 0;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;  // Of 512 bytes: what is stored. Never 0 for a non-empty file.
  Nanoseconds atime = 0;
  Nanoseconds mtime = 0;
  Nanoseconds ctime = 0;
};

struct AttributeChange {
  std::optional<std::uint32_t> mode;  // Permission bits.
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> size;
  std::optional<Nanoseconds> atime;
  std::optional<Nanoseconds> mtime;
  std::optional<Nanoseconds> ctime;
};

struct TreeOptions {
  bool durable_close = false;                     // close(2) waits for the disk as well.
  Nanoseconds provisional_after = 5'000'000'000;  // Flushed and unchanged for so long: committed provisionally.
};

struct FileState;  // One inode's open data; internal.

// An open file description. Made by Tree::Open and Create, given back by Tree::Release.
struct OpenFile {
  std::shared_ptr<FileState> state;
  bool writable = false;
  bool append = false;
};
using OpenFilePtr = std::unique_ptr<OpenFile>;

class Tree {
 public:
  Tree(const TreeOptions& options, FileOps& files, Catalog& catalog, ContentStore& contents, Sealer& sealer);
  ~Tree();

  // ---- Names. `name` is one component; names over 255 bytes give ENAMETOOLONG, ".stepfs" anywhere EEXIST for making.
  Result<Attributes> Lookup(InodeNumber parent, std::string_view name);
  // `mode` with type: regular files, fifos, sockets, devices. The umask has been applied. setgid directories hand down
  // their group (and to directories the bit).
  Result<Attributes> MakeNode(InodeNumber parent, std::string_view name, std::uint32_t mode, std::uint64_t rdev,
                              const Caller& caller);
  Result<Attributes> MakeDirectory(InodeNumber parent, std::string_view name, std::uint32_t mode, const Caller& caller);
  Result<Attributes> MakeSymlink(InodeNumber parent, std::string_view name, std::string_view target,
                                 const Caller& caller);
  Result<Attributes> Link(InodeNumber ino, InodeNumber new_parent, std::string_view new_name);
  Status Unlink(InodeNumber parent, std::string_view name);
  Status RemoveDirectory(InodeNumber parent, std::string_view name);
  // flags: RENAME_NOREPLACE, RENAME_EXCHANGE or 0.
  Status Rename(InodeNumber parent, std::string_view name, InodeNumber new_parent, std::string_view new_name,
                unsigned flags);
  Result<std::string> ReadSymlink(InodeNumber ino);
  struct DirectoryEntry {
    std::string name;
    InodeNumber ino = 0;
    std::uint32_t type = 0;  // S_IFMT bits.
  };
  // All entries but "." and "..", as of one moment, in byte order.
  Result<std::vector<DirectoryEntry>> ReadDirectory(InodeNumber ino);
  Result<InodeNumber> ParentOf(InodeNumber directory);

  // ---- Attributes.
  Result<Attributes> GetAttributes(InodeNumber ino);
  Result<Attributes> SetAttributes(InodeNumber ino, const AttributeChange& change);
  Result<std::string> GetXattr(InodeNumber ino, std::string_view name);  // ENODATA when absent.
  // flags: XATTR_CREATE, XATTR_REPLACE or 0.
  Status SetXattr(InodeNumber ino, std::string_view name, std::string_view value, int flags);
  Result<std::vector<std::string>> ListXattrs(InodeNumber ino);
  Status RemoveXattr(InodeNumber ino, std::string_view name);

  // ---- Data. `flags` are open(2)'s: access mode, O_TRUNC, O_APPEND count.
  Result<OpenFilePtr> Open(InodeNumber ino, int flags);
  Result<std::pair<Attributes, OpenFilePtr>> Create(InodeNumber parent, std::string_view name, std::uint32_t mode,
                                                    int flags, const Caller& caller);
  // Bytes read: short only at the end of the file.
  Result<std::size_t> Read(OpenFile& file, std::uint64_t offset, MutableBytes out);
  Result<std::size_t> Write(OpenFile& file, std::uint64_t offset, Bytes bytes);
  Status Flush(OpenFile& file);      // close(2) of a descriptor: idempotent.
  Status Release(OpenFilePtr file);  // The last reference is gone: commits when it was the last writer.
  Status Fsync(OpenFile& file);
  Status SyncDirectory(InodeNumber ino);
  // mode: 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | KEEP_SIZE, FALLOC_FL_ZERO_RANGE; others EOPNOTSUPP.
  Status Allocate(OpenFile& file, int mode, std::uint64_t offset, std::uint64_t length);
  // whence: SEEK_DATA or SEEK_HOLE. ENXIO beyond the end.
  Result<std::uint64_t> Seek(OpenFile& file, std::uint64_t offset, int whence);

  // The inode is no longer known to the kernel: unlinked inodes without open files are dropped.
  void Forget(InodeNumber ino);

  // ---- Background duties, called by the store.
  // Makes everything that was closed durable: staging data, then the journal.
  Status SyncAll();
  // Provisional commits that are due, write-back of attributes of files that are being written, data syncs.
  void RunDuties();
  // Commits everything written by closed files. `at_end`: nobody will write any more, so files that were not released
  // (the kernel's RELEASE comes late, or never when a mount ends) are committed as well.
  Status CommitAll(bool at_end = false);

  // Judges, once at start after an end that was not clean, what was being written then (docs/versions.md, "After a
  // crash"). `same_session`: the page cache survived, so every byte that was written is there.
  Status Recover(bool same_session, struct RecoveryReport& report);
  // Queues everything that waits for the encoder or the disk; once at start, after Recover.
  Status QueueStaged();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// What recovery found at start; as made by a clean end.
struct RecoveryReport {
  bool was_clean = true;
  bool same_session = false;      // Same boot and mount: the page cache was not lost.
  std::uint64_t adopted = 0;      // Files whose last data was proven and kept.
  std::uint64_t rolled_back = 0;  // Files that went back to their previous version.
  std::vector<std::string> messages;
};

}  // namespace stepfs::store
