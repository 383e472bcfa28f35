// SPDX-License-Identifier: Apache-2.0
//
// StoreDirectory: the outermost shell of a store: may it be opened at all, is it ours, whose turn is it. Checks
// ownership and file system type, reads or writes format.json, and holds the exclusive lock for its lifetime.
#pragma once

#include <string>

#include "base/result.h"

namespace stepfs::store {

class StoreDirectory {
 public:
  // kNotFound, kUnsupported, kBusy or kIo with a message that says what to do; nothing is changed by a refusal.
  // `index_directory` (absolute, or empty for root/index) is remembered in root/index-directory, so that a later open
  // need not name it, and one that names another is refused: an empty index would hide everything stored.
  static Result<StoreDirectory> Open(const std::string& root, const std::string& index_directory, bool create);
  StoreDirectory(StoreDirectory&& other) noexcept;
  StoreDirectory& operator=(StoreDirectory&&) = delete;
  ~StoreDirectory();

  const std::string& uuid() const { return uuid_; }
  const std::string& index_directory() const { return index_directory_; }  // Where the index is.

 private:
  StoreDirectory() = default;
  int lock_fd_ = -1;
  std::string uuid_;
  std::string index_directory_;
};

// Evidence of which boot and which mount of the store's file system this is: boot_id, and STATX_MNT_ID_UNIQUE (0 where
// the kernel has none).
std::string BootId();
std::uint64_t UniqueMountId(const std::string& path);

}  // namespace stepfs::store
