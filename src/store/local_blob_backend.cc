// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <charconv>

#include "store/blob_backend.h"

namespace stepfs::store {
namespace {

class LocalBlobBackend final : public BlobBackend {
 public:
  LocalBlobBackend(std::string directory, FileOps& files) : directory_(std::move(directory)), files_(files) {}

  class LocalWriter final : public Writer {
   public:
    LocalWriter(LocalBlobBackend& backend, std::uint64_t blob, std::unique_ptr<File> file)
        : backend_(backend), blob_(blob), file_(std::move(file)) {}
    ~LocalWriter() override {
      file_.reset();
      if (!published_) (void)backend_.files_.Unlink(backend_.TemporaryPath(blob_));
    }
    Status Append(Bytes bytes) override {
      STEPFS_RETURN_IF_ERROR(file_->WriteAt(bytes_, bytes));
      bytes_ += bytes.size();
      return {};
    }
    Status Publish() override {
      STEPFS_RETURN_IF_ERROR(file_->Sync());
      STEPFS_RETURN_IF_ERROR(backend_.files_.MakeDirectory(backend_.FolderOf(blob_)));
      STEPFS_RETURN_IF_ERROR(backend_.files_.Rename(backend_.TemporaryPath(blob_), backend_.PathOf(blob_)));
      published_ = true;
      STEPFS_RETURN_IF_ERROR(backend_.files_.SyncDirectory(backend_.FolderOf(blob_)));
      return backend_.files_.SyncDirectory(backend_.directory_);
    }
    std::uint64_t bytes() const override { return bytes_; }

   private:
    LocalBlobBackend& backend_;
    const std::uint64_t blob_;
    std::unique_ptr<File> file_;
    std::uint64_t bytes_ = 0;
    bool published_ = false;
  };

  Result<std::unique_ptr<Writer>> Create(std::uint64_t blob) override {
    (void)files_.Unlink(TemporaryPath(blob));
    STEPFS_ASSIGN_OR_RETURN(auto file, files_.Open(TemporaryPath(blob), FileOps::Mode::kCreateNew));
    return std::unique_ptr<Writer>(std::make_unique<LocalWriter>(*this, blob, std::move(file)));
  }

  Result<std::shared_ptr<const ByteSource>> Open(std::uint64_t blob) override { return OpenFile(blob, false); }
  Result<std::shared_ptr<const ByteSource>> OpenForReadBack(std::uint64_t blob) override {
    return OpenFile(blob, true);
  }

  Status Delete(std::uint64_t blob) override {
    Status status = files_.Unlink(PathOf(blob));
    return status.ToErrno() == ENOENT ? Status() : status;
  }

  Result<std::vector<Entry>> List() override {
    std::vector<Entry> entries;
    STEPFS_ASSIGN_OR_RETURN(const auto folders, files_.List(directory_));
    for (const std::string& folder : folders) {
      if (folder.size() != 2) continue;
      STEPFS_ASSIGN_OR_RETURN(const auto names, files_.List(directory_ + "/" + folder));
      for (const std::string& name : names) {
        Entry entry;
        if (!NumberFromHexName(name, entry.blob)) continue;
        STEPFS_ASSIGN_OR_RETURN(auto file, files_.Open(PathOf(entry.blob), FileOps::Mode::kRead));
        STEPFS_ASSIGN_OR_RETURN(entry.bytes, file->Size());
        entries.push_back(entry);
      }
    }
    return entries;
  }

  Status ReplaceHead(const std::string& name, const std::string& expected, const std::string& value) override {
    STEPFS_ASSIGN_OR_RETURN(const std::string current, ReadHead(name));
    if (current != expected) return Status::Busy("head " + name + " was changed by another writer");
    const std::string path = directory_ + "/" + name;
    (void)files_.Unlink(path + ".tmp");
    STEPFS_ASSIGN_OR_RETURN(auto file, files_.Open(path + ".tmp", FileOps::Mode::kCreateNew));
    STEPFS_RETURN_IF_ERROR(file->WriteAt(0, AsBytes(value)));
    STEPFS_RETURN_IF_ERROR(file->Sync());
    STEPFS_RETURN_IF_ERROR(files_.Rename(path + ".tmp", path));
    return files_.SyncDirectory(directory_);
  }
  Result<std::string> ReadHead(const std::string& name) override {
    auto file = files_.Open(directory_ + "/" + name, FileOps::Mode::kRead);
    if (!file.ok()) return file.status().ToErrno() == ENOENT ? Result<std::string>(std::string()) : file.status();
    STEPFS_ASSIGN_OR_RETURN(const std::uint64_t size, (*file)->Size());
    std::string value(static_cast<std::size_t>(size), '\0');
    STEPFS_ASSIGN_OR_RETURN(const std::size_t got, (*file)->ReadAt(0, std::as_writable_bytes(std::span(value))));
    value.resize(got);
    return value;
  }

 private:
  std::string FolderOf(std::uint64_t blob) const { return directory_ + "/" + HexName(blob).substr(14); }
  std::string PathOf(std::uint64_t blob) const { return FolderOf(blob) + "/" + HexName(blob); }
  std::string TemporaryPath(std::uint64_t blob) const { return directory_ + "/" + HexName(blob) + ".tmp"; }

  Result<std::shared_ptr<const ByteSource>> OpenFile(std::uint64_t blob, bool from_disk) {
    auto file = files_.Open(PathOf(blob), FileOps::Mode::kRead);
    if (!file.ok()) {
      if (file.status().ToErrno() == ENOENT) return Status::Corruption("blob " + HexName(blob) + " is missing");
      return file.status();
    }
    STEPFS_ASSIGN_OR_RETURN(const std::uint64_t size, (*file)->Size());
    if (from_disk && (*file)->fd() >= 0) (void)posix_fadvise((*file)->fd(), 0, 0, POSIX_FADV_DONTNEED);
    return std::shared_ptr<const ByteSource>(std::make_shared<FileSource>(
        std::shared_ptr<File>(std::move(*file)), std::uint64_t{0}, size, "blob " + HexName(blob)));
  }

  const std::string directory_;
  FileOps& files_;
};

}  // namespace

std::unique_ptr<BlobBackend> NewLocalBlobBackend(const std::string& directory, FileOps& files) {
  return std::make_unique<LocalBlobBackend>(directory, files);
}

std::string HexName(std::uint64_t number) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4) name[i] = kDigits[number & 15];
  return name;
}

bool NumberFromHexName(const std::string& name, std::uint64_t& number) {
  if (name.size() != 16) return false;
  const auto parsed = std::from_chars(name.data(), name.data() + 16, number, 16);
  return parsed.ec == std::errc() && parsed.ptr == name.data() + 16;
}

Status FileSource::ReadAt(std::uint64_t offset, MutableBytes out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Status::InvalidArgument(name_ + ": read beyond its end");
  }
  STEPFS_ASSIGN_OR_RETURN(const std::size_t got, file_->ReadAt(offset_ + offset, out));
  if (got != out.size()) {
    return Status::Corruption(name_ + ": " + std::to_string(out.size()) + " bytes expected at " +
                              std::to_string(offset_ + offset) + ", " + std::to_string(got) + " found");
  }
  return {};
}

}  // namespace stepfs::store
