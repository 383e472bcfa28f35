// SPDX-License-Identifier: Apache-2.0
//
// Open files and directories of the mount, by the number the kernel carries for us (fuse_file_info::fh). A handle lives
// from the reply to OPEN, CREATE or OPENDIR to RELEASE or RELEASEDIR; the kernel never uses a number outside that time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/byte_source.h"
#include "store/tree.h"

namespace stepfs::fs {

// Either a file of the live tree or an old version.
struct FileHandle {
  store::OpenFilePtr live;
  std::shared_ptr<const ByteSource> version;
};

struct ListedEntry {
  std::string name;
  std::uint64_t ino = 0;
  std::uint32_t type = 0;  // S_IFMT bits.
};

// A listing is taken when it is read from its start, and stays as it was until the next rewind: offset n is the n-th
// entry of it.
struct DirectoryHandle {
  std::mutex mutex;
  bool listed = false;               // Guarded by mutex.
  std::vector<ListedEntry> entries;  // Guarded by mutex. With "." and "..".
};

// Thread-safe. The numbers are addresses, so that finding a handle costs nothing; the set owns what is never released.
template <typename Handle>
class HandleTable {
 public:
  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() {
    for (Handle* handle : handles_) delete handle;
  }

  std::uint64_t Add(std::unique_ptr<Handle> handle) {
    std::lock_guard lock(mutex_);
    handles_.insert(handle.get());
    return reinterpret_cast<std::uintptr_t>(handle.release());
  }
  // REQUIRES: `number` came from Add() and was not taken.
  Handle& Get(std::uint64_t number) const { return *Pointer(number); }
  std::unique_ptr<Handle> Take(std::uint64_t number) {
    std::lock_guard lock(mutex_);
    handles_.erase(Pointer(number));
    return std::unique_ptr<Handle>(Pointer(number));
  }

 private:
  static Handle* Pointer(std::uint64_t number) {
    return reinterpret_cast<Handle*>(static_cast<std::uintptr_t>(number));
  }

  std::mutex mutex_;
  std::unordered_set<Handle*> handles_;  // Guarded by mutex_.
};

}  // namespace stepfs::fs
