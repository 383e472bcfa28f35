// SPDX-License-Identifier: Apache-2.0
//
// BlobBackend: where sealed blobs live. Blobs are immutable and self-describing, so they may lie in a local directory
// (the first implementation), or in an object store: nothing outside an implementation may assume a local file.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/file_ops.h"

namespace stepfs::store {

class BlobBackend {
 public:
  virtual ~BlobBackend() = default;

  // A blob that is being written. Nothing is visible before Publish.
  class Writer : public ByteSink {
   public:
    // Durable and visible under its number when it returns. A writer that dies without it leaves nothing behind.
    virtual Status Publish() = 0;
    virtual std::uint64_t bytes() const = 0;
  };
  virtual Result<std::unique_ptr<Writer>> Create(std::uint64_t blob) = 0;

  // Reads ranges. kCorruption when there is no such blob: callers ask only for what the index lists.
  virtual Result<std::shared_ptr<const ByteSource>> Open(std::uint64_t blob) = 0;
  // Reads a blob that was just written from the disk, not from memory, as far as the system allows.
  virtual Result<std::shared_ptr<const ByteSource>> OpenForReadBack(std::uint64_t blob) = 0;
  virtual Status Delete(std::uint64_t blob) = 0;  // Ok when it is not there.
  struct Entry {
    std::uint64_t blob = 0;
    std::uint64_t bytes = 0;
  };
  virtual Result<std::vector<Entry>> List() = 0;

  // A small named object that is replaced only while it still has the expected value (empty: absent): the head pointer
  // of a store on shared storage. kBusy when somebody else changed it.
  virtual Status ReplaceHead(const std::string& name, const std::string& expected, const std::string& value) = 0;
  virtual Result<std::string> ReadHead(const std::string& name) = 0;  // Empty when absent.
};

// Files STORE/blobs/xx/<16 hex digits>, xx being the last two digits.
std::unique_ptr<BlobBackend> NewLocalBlobBackend(const std::string& directory, FileOps& files);

// 16 lower-case hexadecimal digits, and back (nothing for any other text).
std::string HexName(std::uint64_t number);
bool NumberFromHexName(const std::string& name, std::uint64_t& number);

// A range of an open file as a source. Keeps the file open.
class FileSource final : public ByteSource {
 public:
  FileSource(std::shared_ptr<File> file, std::uint64_t offset, std::uint64_t size, std::string name)
      : file_(std::move(file)), offset_(offset), size_(size), name_(std::move(name)) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override;

 private:
  std::shared_ptr<File> file_;
  std::uint64_t offset_;
  std::uint64_t size_;
  std::string name_;
};

}  // namespace stepfs::store
