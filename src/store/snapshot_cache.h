// SPDX-License-Identifier: Apache-2.0
//
// SnapshotCache: raw copies of sealed contents in STORE/cache, named by content number, within a byte budget. A
// snapshot is complete or absent. Those left by an earlier run are compared with their digest before they are first
// used.
//
// Thread-safe; its lock is a leaf and is not held while a snapshot is hashed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/hash.h"
#include "store/blob_backend.h"

namespace stepfs::store {

class SnapshotCache {
 public:
  SnapshotCache(std::string directory, std::uint64_t budget_bytes, FileOps& files)
      : directory_(std::move(directory)), budget_(budget_bytes), files_(files) {}

  // Takes stock of what an earlier run left. `size_of` tells the size of a sealed content, nothing for any other
  // number.
  Status Adopt(const std::function<bool(std::uint64_t content, std::uint64_t& size)>& size_of);

  // The snapshot as a source, or null when there is none (or it turned out damaged and was removed; `warn` is told).
  // `digest` and `size` are those of the content.
  std::shared_ptr<const ByteSource> Open(std::uint64_t content, std::uint64_t size, const Digest& digest,
                                         const std::function<void(const std::string&)>& warn);
  bool Has(std::uint64_t content) const;

  // Renames `path` into the cache. `user` reads the same file already: as long as it lives, the snapshot cannot be
  // taken over. `verified`: its bytes were compared with the sealed form in this run.
  Status AdoptFile(std::uint64_t content, const std::string& path, std::uint64_t size, bool verified,
                   std::weak_ptr<const ByteSource> user);
  // Renames a verified snapshot that nobody reads to `path`. False when that is not so.
  Result<bool> TakeOver(std::uint64_t content, const std::string& path);
  void Remove(std::uint64_t content);
  void SetLive(std::uint64_t content, bool live);
  // Down to the budget; `everything`: to nothing. Files that are open stay readable to those who have them.
  void Evict(bool everything = false);
  std::uint64_t bytes() const;

 private:
  struct Entry {
    std::uint64_t size = 0;
    bool verified = false;
    std::uint64_t last_use = 0;
    std::weak_ptr<const ByteSource> source;  // Handed out; shared by all readers.
  };
  std::shared_ptr<const ByteSource> Find(std::uint64_t content, std::uint64_t size, bool& verified);
  std::string PathOf(std::uint64_t content) const { return directory_ + "/" + HexName(content); }
  void RemoveLocked(std::map<std::uint64_t, Entry>::iterator entry);

  const std::string directory_;
  const std::uint64_t budget_;
  FileOps& files_;
  mutable std::mutex mutex_;
  std::mutex verify_mutex_;  // One verification at a time; taken before mutex_.
  std::map<std::uint64_t, Entry> entries_;
  std::set<std::uint64_t> live_;
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace stepfs::store
