// SPDX-License-Identifier: Apache-2.0
//
// Catalog: typed rows of the index, and transactions over them.
//
// Reading single rows needs no lock. Whoever changes rows opens a Transaction: it holds the catalog's one mutex from
// construction to destruction, reads its own changes, and commits them atomically (journalled, not synced). Nothing
// slow happens inside one: no file I/O but the journal append.
//
// Lock order of the store: FileState::io (ascending inode numbers) -> catalog mutex -> FileState::meta, ContentStore
// and Sealer internals.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "index/index.h"
#include "index/schema.h"

namespace stepfs::store {

using index::ContentId;
using index::ContentRecord;
using index::ContentState;
using index::InodeNumber;
using index::InodeRecord;
using index::Nanoseconds;
using index::Place;
using index::VersionNumber;
using index::VersionRecord;

Nanoseconds Now();

// Typed reads shared by Catalog and Transaction. "Find" gives nothing for a row that is not there; "Get" gives
// kNotFound (inodes) or kCorruption (contents, which something refers to).
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual Result<std::optional<std::string>> Raw(index::Table table, std::string_view key) const = 0;

  Result<InodeRecord> GetInode(InodeNumber ino) const;
  Result<std::optional<index::DentryRecord>> FindDentry(const Place& place) const;
  Result<index::PlaceRecord> GetPlace(const Place& place) const;  // A fresh record when there is none.
  Result<std::optional<VersionRecord>> FindVersion(const Place& place, VersionNumber version) const;
  // The empty content (id 0) has a record too: kInline, size 0.
  Result<ContentRecord> GetContent(ContentId content) const;
};

struct NumberedVersion {
  VersionNumber version = 0;
  VersionRecord record;
};

class Catalog : public RowReader {
 public:
  explicit Catalog(index::Index& index) : index_(index) {}

  Result<std::optional<std::string>> Raw(index::Table table, std::string_view key) const override;
  index::Index& index() const { return index_; }

  // Versions of a place, ascending; partial leftovers are not among them.
  Result<std::vector<NumberedVersion>> Versions(const Place& place) const;
  // The newest version for which `accept` holds (any, when null).
  Result<std::optional<NumberedVersion>> NewestVersion(
      const Place& place, const std::function<bool(const NumberedVersion&)>& accept = nullptr) const;
  // Places that link to an inode. One but for hard links; none for unlinked inodes.
  Result<std::vector<Place>> LinksOf(InodeNumber ino) const;
  // Names of a directory with their inodes, in byte order.
  struct Child {
    std::string name;
    index::DentryRecord dentry;
  };
  Result<std::vector<Child>> Children(InodeNumber directory) const;
  // Path of a place from the root, without a leading slash ("run1/last.pt"); of a removed directory its last path.
  Result<std::string> PathOf(const Place& place) const;

 private:
  friend class Transaction;
  index::Index& index_;
  std::mutex mutex_;
};

class Transaction : public RowReader {
 public:
  explicit Transaction(Catalog& catalog) : catalog_(catalog), lock_(catalog.mutex_) {}

  Result<std::optional<std::string>> Raw(index::Table table, std::string_view key) const override;

  void PutInode(InodeNumber ino, const InodeRecord& record);
  void DeleteInode(InodeNumber ino);
  void PutDentry(const Place& place, const index::DentryRecord& record);  // Also the reverse row in kLinks.
  void DeleteDentry(const Place& place, InodeNumber ino);
  void PutPlace(const Place& place, const index::PlaceRecord& record);
  void PutVersion(const Place& place, VersionNumber version, const VersionRecord& record);
  void DeleteVersion(const Place& place, VersionNumber version);
  void PutContent(ContentId content, const ContentRecord& record);
  void Put(index::Table table, std::string_view key, std::string_view value);
  void Delete(index::Table table, std::string_view key);

  Result<InodeNumber> NewInode();
  Result<ContentId> NewContent();

  // One more inode or version refers to the content (the empty content is not counted).
  Status AddReference(ContentId content);
  // One less. A content that nothing refers to and nothing depends on is forgotten: its rows go, and its files are
  // listed in dropped() for removal once the commit is durable. One that others depend on stays until they are gone.
  Status DropReference(ContentId content);

  struct Dropped {
    ContentId content = 0;
    ContentRecord record;
  };
  const std::vector<Dropped>& dropped() const { return dropped_; }

  // Journals the changes; afterwards the transaction is empty and may be used on. After a failure nothing changed.
  Status Commit();

 private:
  Status ForgetIfUnused(ContentId content, ContentRecord record);

  Catalog& catalog_;
  std::unique_lock<std::mutex> lock_;
  std::map<std::pair<index::Table, std::string>, std::optional<std::string>> changes_;
  std::vector<Dropped> dropped_;
};

}  // namespace stepfs::store
