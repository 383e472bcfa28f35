// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "store/file_ops_posix.h"
#include "store/store_directory.h"
#include "store/verify.h"

namespace stepfs::store {
namespace {

using index::Table;

constexpr auto kDutyInterval = std::chrono::milliseconds(100);
constexpr auto kCheckpointInterval = std::chrono::seconds(5);
constexpr std::uint64_t kCheckpointBytes = std::uint64_t{8} << 20;

}  // namespace

struct Store::Impl {
  StoreOptions options;
  FileOps* files = nullptr;
  std::unique_ptr<StoreDirectory> directory;
  std::unique_ptr<index::Index> index;
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<ContentStore> contents;
  std::unique_ptr<Sealer> sealer;
  std::unique_ptr<Tree> tree;
  std::unique_ptr<History> history;
  RecoveryReport recovery;
  bool closed = false;

  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::thread duties;

  std::string CurrentBoot() const { return options.boot_id.empty() ? BootId() : options.boot_id; }
  Status WriteSession(bool clean);
  Status MakeRoot();
  Status Recover();
  void RunDuties();
  void StopThreads();
};

Status Store::Impl::WriteSession(bool clean) {
  index::SessionRecord session{CurrentBoot(), UniqueMountId(options.root), clean};
  Transaction transaction(*catalog);
  transaction.Put(Table::kState, index::kSessionKey, session.Encode());
  STEPFS_RETURN_IF_ERROR(transaction.Commit());
  return index->SyncJournal();
}

Status Store::Impl::MakeRoot() {
  Transaction transaction(*catalog);
  STEPFS_ASSIGN_OR_RETURN(const auto row, transaction.Raw(Table::kInodes, index::InodeKey(index::kRootInode)));
  if (row) return {};
  InodeRecord root;
  root.mode = S_IFDIR | 0755;
  root.uid = geteuid();
  root.gid = getegid();
  root.nlink = 2;
  root.atime = root.mtime = root.ctime = Now();
  root.parent = index::kRootInode;
  transaction.PutInode(index::kRootInode, root);
  return transaction.Commit();
}

Status Store::Impl::Recover() {
  STEPFS_ASSIGN_OR_RETURN(const auto row, catalog->Raw(Table::kState, index::kSessionKey));
  if (row) {
    STEPFS_ASSIGN_OR_RETURN(const auto session, index::SessionRecord::Decode(*row));
    recovery.was_clean = session.clean;
    const std::uint64_t mount = UniqueMountId(options.root);
    recovery.same_session =
        !session.boot_id.empty() && session.boot_id == CurrentBoot() && mount != 0 && session.mount_id == mount;
  }
  if (!recovery.was_clean) STEPFS_RETURN_IF_ERROR(tree->Recover(recovery.same_session, recovery));
  STEPFS_RETURN_IF_ERROR(tree->QueueStaged());
  return WriteSession(false);
}

void Store::Impl::RunDuties() {
  auto last_checkpoint = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex);
  while (!stopping) {
    wake.wait_for(lock, kDutyInterval);
    if (stopping) break;
    lock.unlock();
    tree->RunDuties();
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t journal = index->journal_bytes();
    if (journal > kCheckpointBytes || (journal > 0 && now - last_checkpoint > kCheckpointInterval)) {
      if (Status status = index->Checkpoint(); !status.ok() && options.on_warning) {
        options.on_warning("the index could not be written: " + status.ToString());
      }
      last_checkpoint = now;
    }
    lock.lock();
  }
}

void Store::Impl::StopThreads() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  if (duties.joinable()) duties.join();
  if (sealer) sealer->Stop();
}

Store::Store() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  std::unique_ptr<Store> store(new Store());
  Impl& impl = *store->impl_;
  impl.options = options;
  impl.files = options.files ? options.files : &PosixFileOps();
  STEPFS_ASSIGN_OR_RETURN(auto directory, StoreDirectory::Open(options.root, options.index_directory, options.create));
  impl.directory = std::make_unique<StoreDirectory>(std::move(directory));

  index::IndexOptions index_options;
  index_options.lmdb_directory = impl.directory->index_directory();
  index_options.journal_directory = index_options.lmdb_directory + "/journal";
  index_options.files = impl.files;
  STEPFS_RETURN_IF_ERROR(impl.files->MakeDirectory(index_options.lmdb_directory));
  STEPFS_ASSIGN_OR_RETURN(impl.index, index::Index::Open(index_options));
  impl.catalog = std::make_unique<Catalog>(*impl.index);
  STEPFS_RETURN_IF_ERROR(impl.MakeRoot());

  ContentStoreOptions content_options;
  content_options.root = options.root;
  content_options.cache_bytes = options.cache_bytes;
  content_options.on_warning = options.on_warning;
  STEPFS_ASSIGN_OR_RETURN(impl.contents, ContentStore::Open(content_options, *impl.files, *impl.catalog));

  SealerOptions sealer_options;
  sealer_options.codec = options.codec;
  sealer_options.threads = options.encode_threads;
  sealer_options.report = options.on_seal;
  impl.sealer = std::make_unique<Sealer>(sealer_options, *impl.catalog, *impl.contents, *impl.files);

  TreeOptions tree_options;
  tree_options.durable_close = options.durable_close;
  impl.tree = std::make_unique<Tree>(tree_options, *impl.files, *impl.catalog, *impl.contents, *impl.sealer);
  impl.history = std::make_unique<History>(*impl.catalog, *impl.contents);
  STEPFS_RETURN_IF_ERROR(impl.Recover().WithContext("recovering " + options.root));
  if (options.on_warning) {
    for (const std::string& message : impl.recovery.messages) options.on_warning(message);
  }
  if (options.start_threads) {
    impl.sealer->Start();
    impl.duties = std::thread([&impl] { impl.RunDuties(); });
  }
  return store;
}

Store::~Store() {
  if (impl_->index) (void)Close();
}

Status Store::Close() {
  Impl& impl = *impl_;
  if (impl.closed) return {};
  impl.closed = true;
  impl.StopThreads();
  if (!impl.tree) return {};
  Status status = impl.tree->CommitAll(true);
  if (status.ok()) status = impl.tree->SyncAll();
  if (status.ok()) status = impl.WriteSession(true);
  const Status checkpoint = impl.index->Checkpoint();
  return status.ok() ? checkpoint : status;
}

void Store::AbandonForTesting() {
  impl_->closed = true;
  impl_->StopThreads();
}

Tree& Store::tree() { return *impl_->tree; }
History& Store::history() { return *impl_->history; }
Catalog& Store::catalog() { return *impl_->catalog; }
ContentStore& Store::contents() { return *impl_->contents; }
Sealer& Store::sealer() { return *impl_->sealer; }
const RecoveryReport& Store::recovery() const { return impl_->recovery; }
const std::string& Store::root() const { return impl_->options.root; }
const std::string& Store::uuid() const { return impl_->directory->uuid(); }

Status Store::SyncAndDrain(const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  STEPFS_RETURN_IF_ERROR(impl_->tree->CommitAll());
  STEPFS_RETURN_IF_ERROR(impl_->tree->SyncAll());
  STEPFS_RETURN_IF_ERROR(impl_->sealer->Drain(progress));
  return impl_->index->Checkpoint();
}

Result<Store::Usage> Store::GetUsage() const {
  Usage usage;
  STEPFS_RETURN_IF_ERROR(impl_->index->Scan(Table::kVersions, {}, {}, [&](std::string_view, std::string_view value) {
    if (auto version = VersionRecord::Decode(value); version.ok() && !(version->flags & VersionRecord::kPartial)) {
      ++usage.versions;
      usage.logical_bytes += version->size;
    }
    return true;
  }));
  STEPFS_RETURN_IF_ERROR(impl_->index->Scan(Table::kContents, {}, {}, [&](std::string_view, std::string_view value) {
    auto content = ContentRecord::Decode(value);
    if (!content.ok() || content->state == ContentState::kAlias) return true;
    const bool raw = content->state == ContentState::kOpen || content->state == ContentState::kStaged;
    usage.stored_bytes += raw ? content->size : content->stored_bytes;
    return true;
  }));
  usage.backlog_bytes = impl_->sealer->backlog_bytes();
  usage.disk = impl_->contents->disk_use();
  usage.index_bytes = impl_->index->lmdb_bytes() + impl_->index->journal_bytes();
  return usage;
}

Result<std::vector<Store::Damage>> Store::Verify(bool deep,
                                                 const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  return VerifyStore(*impl_->catalog, *impl_->contents, *impl_->history, deep, progress);
}

}  // namespace stepfs::store
