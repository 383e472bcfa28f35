// SPDX-License-Identifier: Apache-2.0
#include "store/content_store.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>
#include <thread>
#include <unordered_map>

#include "store/content_store_impl.h"

namespace stepfs::store {
namespace {

constexpr int kMaxChain = 64;  // Far above any depth that is written: a cycle in a damaged index must end.
constexpr int kRetries = 8;    // A content may be sealed, reopened or evicted between looking and opening.

// Bytes that are in the index row.
class OwnedSource final : public ByteSource {
 public:
  explicit OwnedSource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    return MemorySource(AsBytes(bytes_)).ReadAt(offset, out);
  }

 private:
  const std::string bytes_;
};

// A file that is being written: as long as it is now.
class OpenSource final : public ByteSource {
 public:
  explicit OpenSource(std::shared_ptr<File> file) : file_(std::move(file)) {}
  std::uint64_t size() const override { return file_->Size().value_or(0); }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    STEPFS_ASSIGN_OR_RETURN(const std::size_t got, file_->ReadAt(offset, out));
    if (got != out.size()) return Status::InvalidArgument("read beyond the end of an open staging file");
    return {};
  }

 private:
  std::shared_ptr<File> file_;
};

}  // namespace

ContentStore::ContentStore() : impl_(std::make_unique<Impl>()) {}
ContentStore::~ContentStore() = default;

Result<std::unique_ptr<ContentStore>> ContentStore::Open(const ContentStoreOptions& options, FileOps& files,
                                                         Catalog& catalog) {
  std::unique_ptr<ContentStore> store(new ContentStore());
  Impl& impl = *store->impl_;
  impl.options = options;
  impl.files = &files;
  impl.catalog = &catalog;
  impl.threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const char* folder : {"/staging", "/blobs", "/cache"}) {
    STEPFS_RETURN_IF_ERROR(files.MakeDirectory(options.root + folder));
  }
  STEPFS_RETURN_IF_ERROR(files.SyncDirectory(options.root));

  std::uint64_t budget = options.cache_bytes;
  if (budget == 0) {
    struct statvfs info {};
    budget = statvfs(options.root.c_str(), &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize / 10
                                                       : std::uint64_t{1} << 30;
  }
  impl.blobs = NewLocalBlobBackend(options.root + "/blobs", files);
  impl.snapshots = std::make_unique<SnapshotCache>(options.root + "/cache", budget, files);
  impl.chunks = std::make_unique<ChunkCache>(options.decoded_chunk_bytes);
  STEPFS_RETURN_IF_ERROR(impl.snapshots->Adopt([&](std::uint64_t content, std::uint64_t& size) {
    auto row = catalog.GetContent(content);
    if (!row.ok() || row->state != ContentState::kSealed || !row->digest) return false;
    size = row->size;
    return true;
  }));
  return store;
}

std::string ContentStore::StagingPath(ContentId content) const {
  return impl_->options.root + "/staging/" + HexName(content);
}

Result<std::shared_ptr<File>> ContentStore::CreateStaging(ContentId content) {
  STEPFS_ASSIGN_OR_RETURN(auto file, impl_->files->Open(StagingPath(content), FileOps::Mode::kCreateNew));
  std::lock_guard lock(impl_->mutex);
  impl_->unsynced_names.insert(content);
  return std::shared_ptr<File>(std::move(file));
}

Result<std::shared_ptr<File>> ContentStore::OpenStaging(ContentId content) {
  STEPFS_ASSIGN_OR_RETURN(auto file, impl_->files->Open(StagingPath(content), FileOps::Mode::kReadWrite));
  return std::shared_ptr<File>(std::move(file));
}

Status ContentStore::RemoveStaging(ContentId content) {
  Status status = impl_->files->Unlink(StagingPath(content));
  return status.ToErrno() == ENOENT ? Status() : status;
}

Result<std::vector<ContentId>> ContentStore::ListStaging() const {
  STEPFS_ASSIGN_OR_RETURN(const auto names, impl_->files->List(impl_->options.root + "/staging"));
  std::vector<ContentId> contents;
  for (const std::string& name : names) {
    std::uint64_t content = 0;
    if (NumberFromHexName(name, content)) contents.push_back(content);
  }
  std::sort(contents.begin(), contents.end());
  return contents;
}

Status ContentStore::SyncStaging(ContentId content, File& file) {
  STEPFS_RETURN_IF_ERROR(file.Sync());
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->unsynced_names.contains(content)) return {};
  }
  STEPFS_RETURN_IF_ERROR(impl_->files->SyncDirectory(impl_->options.root + "/staging"));
  std::lock_guard lock(impl_->mutex);
  impl_->unsynced_names.erase(content);
  return {};
}

Status ContentStore::SyncStaging(ContentId content) {
  STEPFS_ASSIGN_OR_RETURN(auto file, impl_->files->Open(StagingPath(content), FileOps::Mode::kRead));
  return SyncStaging(content, *file);
}

std::shared_ptr<const ByteSource> ContentStore::Impl::StagedSource(ContentId content, std::uint64_t size,
                                                                   Status& failure) {
  std::lock_guard lock(mutex);
  auto& slot = staged_sources[{content, size}];
  if (auto source = slot.lock()) return source;
  auto file = files->Open(options.root + "/staging/" + HexName(content), FileOps::Mode::kRead);
  if (!file.ok()) {
    staged_sources.erase({content, size});
    failure = file.status();
    return nullptr;
  }
  std::shared_ptr<const ByteSource> source = std::make_shared<FileSource>(
      std::shared_ptr<File>(std::move(*file)), std::uint64_t{0}, size, "staging file " + HexName(content));
  slot = source;
  if (staged_sources.size() > 1024)
    std::erase_if(staged_sources, [](const auto& entry) { return entry.second.expired(); });
  return source;
}

Result<std::shared_ptr<const ByteSource>> ContentStore::Impl::OpenSealed(ContentId content, const ContentRecord& row,
                                                                         int depth, bool use_raw) {
  if (depth > kMaxChain) {
    return Status::Corruption("content " + std::to_string(content) + ": its chain of bases does not end");
  }
  if (use_raw && row.digest) {
    if (auto snapshot = snapshots->Open(content, row.size, *row.digest, options.on_warning)) return snapshot;
  }
  {
    std::lock_guard lock(mutex);
    if (auto found = frames.find(content); found != frames.end()) {
      if (auto frame = found->second.lock()) return std::shared_ptr<const ByteSource>(frame);
    }
  }
  std::vector<std::shared_ptr<const ByteSource>> sources;
  for (const ContentId id : row.sources) {
    STEPFS_ASSIGN_OR_RETURN(auto source, OpenAny(id, depth + 1));
    sources.push_back(std::move(source));
  }
  STEPFS_ASSIGN_OR_RETURN(auto whole, blobs->Open(row.blob));
  auto blob = std::make_shared<SliceSource>(std::move(whole), row.blob_offset, row.stored_bytes);
  STEPFS_ASSIGN_OR_RETURN(
      auto frame, FrameSource::Open(content, "content " + std::to_string(content) + " (blob " + HexName(row.blob) + ")",
                                    std::move(blob), std::move(sources), row.size, row.digest ? &*row.digest : nullptr,
                                    *chunks, threads));
  std::lock_guard lock(mutex);
  if (frames.size() > 1024) std::erase_if(frames, [](const auto& entry) { return entry.second.expired(); });
  frames[content] = frame;
  recent_frames.push_back(frame);
  if (recent_frames.size() > 32) recent_frames.pop_front();
  return std::shared_ptr<const ByteSource>(frame);
}

Result<std::shared_ptr<const ByteSource>> ContentStore::Impl::OpenAny(ContentId content, int depth) {
  Status failure;
  for (int attempt = 0; attempt < kRetries; ++attempt) {
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, catalog->GetContent(content));
    switch (row.state) {
      case ContentState::kInline:
        if (row.inline_bytes.size() != row.size) {
          return Status::Corruption("content " + std::to_string(content) + ": inline bytes do not have its size");
        }
        return std::shared_ptr<const ByteSource>(std::make_shared<OwnedSource>(std::move(row.inline_bytes)));
      case ContentState::kAlias:
        if (depth > kMaxChain)
          return Status::Corruption("content " + std::to_string(content) + ": aliases in a circle");
        return OpenAny(row.alias_of, depth + 1);
      case ContentState::kDamaged:
        return Status::Corruption("content " + std::to_string(content) + " is known to be damaged");
      case ContentState::kOpen: {
        auto file = files->Open(options.root + "/staging/" + HexName(content), FileOps::Mode::kRead);
        if (file.ok()) {
          std::shared_ptr<const ByteSource> source =
              std::make_shared<OpenSource>(std::shared_ptr<File>(std::move(*file)));
          std::lock_guard lock(mutex);
          open_sources.emplace(content, source);
          if (open_sources.size() > 1024) {
            std::erase_if(open_sources, [](const auto& entry) { return entry.second.expired(); });
          }
          return source;
        }
        failure = file.status();
        break;
      }
      case ContentState::kStaged:
        if (auto source = StagedSource(content, row.size, failure)) return source;
        break;
      case ContentState::kSealed:
        return OpenSealed(content, row, depth, true);
    }
    // The file was renamed or removed in between: the row says where the bytes are now.
  }
  return Status::Corruption("content " + std::to_string(content) +
                            ": its file cannot be opened: " + failure.ToString());
}

Result<std::shared_ptr<const ByteSource>> ContentStore::OpenContent(ContentId content) {
  return impl_->OpenAny(content, 0);
}

std::string ContentStore::BlobPath(std::uint64_t blob) const {
  return impl_->options.root + "/blobs/" + HexName(blob).substr(14) + "/" + HexName(blob);
}

void ContentStore::RemoveFilesOf(const Transaction::Dropped& dropped) {
  (void)RemoveStaging(dropped.content);
  impl_->snapshots->Remove(dropped.content);
  if (dropped.record.state == ContentState::kSealed && dropped.record.blob != 0) {
    if (Status status = impl_->blobs->Delete(dropped.record.blob); !status.ok() && impl_->options.on_warning) {
      impl_->options.on_warning("blob " + HexName(dropped.record.blob) + " could not be removed: " + status.ToString());
    }
  }
}

Status ContentStore::AdoptStagingAsSnapshot(ContentId content) {
  STEPFS_ASSIGN_OR_RETURN(const ContentRecord row, impl_->catalog->GetContent(content));
  return impl_->AdoptStaging(content, row.size, false);
}

Status ContentStore::Impl::AdoptStaging(ContentId content, std::uint64_t size, bool verified) {
  std::weak_ptr<const ByteSource> user;
  {
    std::lock_guard lock(mutex);
    if (auto found = staged_sources.find({content, size}); found != staged_sources.end()) user = found->second;
    unsynced_names.erase(content);
  }
  return snapshots->AdoptFile(content, options.root + "/staging/" + HexName(content), size, verified, std::move(user));
}

bool ContentStore::Impl::IsReadFromStaging(ContentId content) {
  std::lock_guard lock(mutex);
  for (auto at = staged_sources.lower_bound({content, 0}); at != staged_sources.end() && at->first.first == content;
       ++at) {
    if (!at->second.expired()) return true;
  }
  const auto [first, last] = open_sources.equal_range(content);
  return std::any_of(first, last, [](const auto& entry) { return !entry.second.expired(); });
}

Result<bool> ContentStore::TakeOverSnapshot(ContentId content, ContentId successor) {
  // Who opened the file when it was a staging file still reads it: its bytes must not change.
  if (impl_->IsReadFromStaging(content)) return false;
  STEPFS_ASSIGN_OR_RETURN(const bool taken, impl_->snapshots->TakeOver(content, StagingPath(successor)));
  if (taken) {
    std::lock_guard lock(impl_->mutex);
    impl_->unsynced_names.insert(successor);
  }
  return taken;
}

bool ContentStore::HasSnapshot(ContentId content) const { return impl_->snapshots->Has(content); }
void ContentStore::SetLive(ContentId content, bool live) { impl_->snapshots->SetLive(content, live); }
void ContentStore::EmptyCache() {
  impl_->snapshots->Evict(true);
  impl_->chunks->Clear();
}

ContentStore::DiskUse ContentStore::disk_use() const {
  DiskUse use;
  use.cache = impl_->snapshots->bytes();
  const auto sum = [&](const std::string& folder) {
    std::uint64_t bytes = 0;
    if (auto names = impl_->files->List(folder); names.ok()) {
      for (const std::string& name : *names) {
        auto file = impl_->files->Open(folder + "/" + name, FileOps::Mode::kRead);
        if (file.ok()) bytes += (*file)->Size().value_or(0);
      }
    }
    return bytes;
  };
  use.staging = sum(impl_->options.root + "/staging");
  if (auto blobs = impl_->blobs->List(); blobs.ok()) {
    for (const auto& entry : *blobs) use.blobs += entry.bytes;
  }
  return use;
}

}  // namespace stepfs::store
