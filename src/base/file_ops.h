// SPDX-License-Identifier: Apache-2.0
//
// FileOps: the seam between stepfs and the file system under its store. Everything the store and the journal do to
// files goes through it, so that tests can fail the Nth call, drop unsynced writes, or cut the power between any two.
// The interface is here so that index and store share it; the one for real files is store/file_ops_posix.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stepfs {

// An open file. Closed by its destructor. Calls from several threads are allowed, as for a descriptor.
class File {
 public:
  virtual ~File() = default;
  // Bytes read, short only at the end of the file.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, MutableBytes out) const = 0;
  // Writes everything or fails; after a failure any prefix may have been written.
  virtual Status WriteAt(std::uint64_t offset, Bytes bytes) = 0;
  virtual Status Truncate(std::uint64_t size) = 0;
  // Data and what is needed to find it (fdatasync).
  virtual Status Sync() = 0;
  virtual Result<std::uint64_t> Size() const = 0;
  // The descriptor, for what has no portable form here (splice, leases, passthrough, SEEK_HOLE); -1 if there is none.
  virtual int fd() const = 0;
};

class FileOps {
 public:
  virtual ~FileOps() = default;

  enum class Mode {
    kRead,        // Must exist.
    kReadWrite,   // Must exist.
    kCreate,      // Made if absent, kept if there.
    kCreateNew,   // Must not exist. Mode 0600.
  };
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, Mode mode) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  virtual Status MakeDirectory(const std::string& path) = 0;  // Ok when it is there already. Mode 0700.
  virtual Status SyncDirectory(const std::string& path) = 0;
  // Names in a directory, without "." and "..", in no order.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
};

}  // namespace stepfs
