// SPDX-License-Identifier: Apache-2.0
#include "store/sealer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/serial.h"
#include "store/content_store_impl.h"
#include "store/predecessor.h"

namespace stepfs::store {
namespace {

using index::Table;

constexpr std::uint64_t kInlineBytes = 1024;
constexpr std::uint64_t kPackedBytes = 64 * 1024;  // Smaller contents share a blob file.
constexpr std::size_t kMostPacked = 256;
constexpr std::uint64_t kCompareWindow = std::uint64_t{8} << 20;
constexpr Nanoseconds kFirstRetry = 1'000'000'000;
constexpr Nanoseconds kLongestRetry = 60'000'000'000;
constexpr Nanoseconds kBusyRetry = 50'000'000;  // Of a file that somebody still has open for writing,
constexpr int kBusyTries = 100;                 // so often before it counts as a failure.
constexpr int kNiceness = 5;                    // Below the training, above idle work.

// What became of a content between looking and switching is not a failure.
Status Superseded() { return Status::Busy("content changed while it was encoded"); }

// Whether a content still holds the bytes that were read when its row was `before`.
bool SameAsRead(const ContentRecord& now, const ContentRecord& before) {
  return now.state == ContentState::kStaged && now.size == before.size && now.reopened == before.reopened;
}

// Hands frames to a blob writer, counting their bytes.
class FrameToBlob final : public ByteSink {
 public:
  explicit FrameToBlob(BlobBackend::Writer& writer) : writer_(writer) {}
  Status Append(Bytes bytes) override { return writer_.Append(bytes); }

 private:
  BlobBackend::Writer& writer_;
};

Result<bool> Equal(const ByteSource& a, const ByteSource& b) {
  if (a.size() != b.size()) return false;
  ByteVector left(static_cast<std::size_t>(std::min(kCompareWindow, a.size())));
  ByteVector right(left.size());
  for (std::uint64_t offset = 0; offset < a.size(); offset += left.size()) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(left.size(), a.size() - offset));
    STEPFS_RETURN_IF_ERROR(a.ReadAt(offset, MutableBytes(left).first(length)));
    STEPFS_RETURN_IF_ERROR(b.ReadAt(offset, MutableBytes(right).first(length)));
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length), right.begin())) return false;
  }
  return true;
}

Result<Digest> DigestOf(const ByteSource& source) {
  DigestBuilder builder;
  ByteVector buffer(static_cast<std::size_t>(std::min(kCompareWindow, source.size())));
  for (std::uint64_t offset = 0; offset < source.size(); offset += buffer.size()) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), source.size() - offset));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(offset, MutableBytes(buffer).first(length)));
    builder.Update(Bytes(buffer).first(length));
  }
  return builder.Finish();
}

// For rebuilding a lost index: what the content was first committed as (docs/format.md, "Sections of the store").
constexpr std::uint32_t kOriginSection = 64;

std::map<std::uint32_t, std::string> OriginSections(const Catalog& catalog, const ContentRecord& row) {
  ByteWriter writer;
  writer.String(catalog.PathOf(row.origin).value_or(row.origin.name));
  writer.Varint(row.origin_version);
  if (auto version = catalog.FindVersion(row.origin, row.origin_version); version.ok() && *version) {
    writer.String((*version)->Encode());
  }
  return {{kOriginSection, writer.Take()}};
}

// A content on its way through.
struct Job {
  ContentId content = 0;
  ContentRecord row;
  std::shared_ptr<const ByteSource> raw;
  Digest digest;
  codec::Layout layout;
  std::optional<ContentId> base;
  ContentRecord base_row;
  std::shared_ptr<const ByteSource> base_bytes;
  codec::EncodeStats stats;
  std::uint64_t blob = 0;
  std::uint64_t blob_offset = 0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

}  // namespace

struct Sealer::Impl {
  SealerOptions options;
  Catalog& catalog;
  ContentStore::Impl& contents;
  FileOps& files;
  PredecessorFinder predecessors;

  std::mutex mutex;
  std::condition_variable changed;
  struct Waiting {
    std::uint64_t bytes = 0;
    Nanoseconds not_before = 0;  // Asked for by Enqueue; does not count while somebody drains.
    Nanoseconds retry_at = 0;    // Always counts.
    int busy = 0;                // Times in a row that somebody had it open.
    int failures = 0;
    Status failure;
  };
  std::map<ContentId, Waiting> queue;  // Guarded by mutex, as all below.
  std::uint64_t done_bytes = 0;
  int drains = 0;  // Somebody waits: delays do not count.
  bool working = false;
  bool stopping = false;
  std::thread thread;

  Impl(const SealerOptions& sealer_options, Catalog& the_catalog, ContentStore& content_store, FileOps& file_ops)
      : options(sealer_options),
        catalog(the_catalog),
        contents(content_store.impl()),
        files(file_ops),
        predecessors(the_catalog) {}

  void Run();
  std::vector<ContentId> NextBatch(std::unique_lock<std::mutex>& lock);
  void SealBatch(const std::vector<ContentId>& batch);
  Status Prepare(Job& job);
  Status CheckNoWriter(ContentId content) const;
  Status SealInline(Job& job);
  Status ShareIfKnown(Job& job, bool& shared);
  Status ChooseBase(Job& job);
  Result<codec::EncodeStats> Encode(Job& job, ByteSink& sink);
  Status ReadBack(const Job& job, const std::shared_ptr<const ByteSource>& blob) const;
  Status Switch(std::vector<Job*>& jobs, bool& referenced);
  void Finish(const Job& job, const Status& status, std::string_view kind);
  void Report(const Job& job, const Status& status, std::string_view kind);
  void SetPriority() const;
};

Sealer::Sealer(const SealerOptions& options, Catalog& catalog, ContentStore& contents, FileOps& files)
    : impl_(std::make_unique<Impl>(options, catalog, contents, files)) {}

Sealer::~Sealer() { Stop(); }

void Sealer::Start() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->thread.joinable()) return;
  impl_->stopping = false;
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

void Sealer::Stop() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void Sealer::Enqueue(ContentId content, Nanoseconds not_before) {
  if (content == 0) return;
  auto row = impl_->catalog.GetContent(content);
  std::lock_guard lock(impl_->mutex);
  auto& waiting = impl_->queue[content];
  waiting.bytes = row.ok() ? row->size : 0;
  waiting.not_before = not_before;
  waiting.retry_at = 0;
  waiting.busy = waiting.failures = 0;
  impl_->changed.notify_all();
}

Status Sealer::Drain(const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->thread.joinable()) return Status::Busy("the encoder is not running");
  const ContentId last = impl_->queue.empty() ? 0 : impl_->queue.rbegin()->first;
  const std::uint64_t done_before = impl_->done_bytes;
  ++impl_->drains;
  for (auto& [content, waiting] : impl_->queue) waiting.busy = waiting.failures = 0, waiting.retry_at = 0;
  impl_->changed.notify_all();
  Status outcome;
  for (;;) {
    std::uint64_t left = 0;
    bool waits = false;
    outcome = Status();
    for (const auto& [content, waiting] : impl_->queue) {
      if (content > last) break;
      left += waiting.bytes;
      if (waiting.failures > 0) {
        if (outcome.ok()) outcome = waiting.failure;
      } else {
        waits = true;
      }
    }
    if (!waits && !impl_->working) break;
    if (impl_->stopping) {
      outcome = Status::Busy("the store is being closed");
      break;
    }
    if (progress) {
      const std::uint64_t done = impl_->done_bytes - done_before;
      lock.unlock();
      const bool go_on = progress(done, done + left);
      lock.lock();
      if (!go_on) break;
    }
    impl_->changed.wait_for(lock, std::chrono::milliseconds(100));
  }
  --impl_->drains;
  return outcome;
}

std::uint64_t Sealer::backlog_bytes() const {
  std::lock_guard lock(impl_->mutex);
  std::uint64_t bytes = 0;
  for (const auto& [content, waiting] : impl_->queue) bytes += waiting.bytes;
  return bytes;
}

std::uint64_t Sealer::backlog_count() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->queue.size();
}

void Sealer::Impl::SetPriority() const {
  // Niceness is per thread on Linux. OpenMP's helpers inherit it from the first region on.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNiceness);
}

void Sealer::Impl::Run() {
  SetPriority();
  (void)predecessors.Load();
  std::unique_lock lock(mutex);
  while (!stopping) {
    const std::vector<ContentId> batch = NextBatch(lock);
    if (batch.empty()) continue;
    working = true;
    lock.unlock();
    SealBatch(batch);
    lock.lock();
    working = false;
    changed.notify_all();
  }
}

std::vector<ContentId> Sealer::Impl::NextBatch(std::unique_lock<std::mutex>& lock) {
  // In order of number, so that a base is sealed before what follows it; small ones together.
  const Nanoseconds now = Now();
  Nanoseconds next = now + 1'000'000'000;
  std::vector<ContentId> batch;
  for (const auto& [content, waiting] : queue) {
    const Nanoseconds due = std::max(waiting.retry_at, drains > 0 ? 0 : waiting.not_before);
    if (due > now) {
      next = std::min(next, std::max(due, now + 10'000'000));
      continue;
    }
    if (waiting.bytes >= kPackedBytes) {
      if (batch.empty()) batch.push_back(content);
      break;
    }
    batch.push_back(content);
    if (batch.size() == kMostPacked) break;
  }
  if (batch.empty()) changed.wait_for(lock, std::chrono::nanoseconds(next - now));
  return batch;
}

void Sealer::Impl::Finish(const Job& job, const Status& status, std::string_view kind) {
  const bool superseded = status.kind() == StatusKind::kBusy;
  {
    std::lock_guard lock(mutex);
    auto waiting = queue.find(job.content);
    if (waiting != queue.end()) {
      if (status.ok() || superseded) {
        // What was reopened is queued again by its next commit; what is leased or mapped is tried again soon.
        auto row = catalog.GetContent(job.content);
        if (superseded && row.ok() && row->state == ContentState::kStaged) {
          waiting->second.retry_at = Now() + (waiting->second.busy < kBusyTries ? kBusyRetry : kFirstRetry);
          if (++waiting->second.busy > kBusyTries) waiting->second.failures = 1;
          waiting->second.failure = status;
        } else {
          done_bytes += waiting->second.bytes;
          queue.erase(waiting);
        }
      } else {
        const int failures = ++waiting->second.failures;
        waiting->second.failure = status;
        waiting->second.retry_at = Now() + std::min(kLongestRetry, kFirstRetry << std::min(failures - 1, 6));
      }
    }
  }
  if (!superseded) Report(job, status, kind);
}

void Sealer::Impl::Report(const Job& job, const Status& status, std::string_view kind) {
  if (!options.report) return;
  SealReport report;
  report.content = job.content;
  report.path = catalog.PathOf(job.row.origin).value_or(job.row.origin.name);
  report.version = job.row.origin_version;
  report.logical_bytes = job.row.size;
  report.stored_bytes = kind == "alias" ? 0 : kind == "inline" ? job.row.size : job.stats.encoded_bytes;
  report.codec = kind;
  if (job.base && job.stats.uses_sources) {
    report.base_path = catalog.PathOf(job.base_row.origin).value_or(job.base_row.origin.name);
    report.base_version = job.base_row.origin_version;
    report.depth = job.base_row.depth + 1;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - job.start).count();
  report.status = status;
  options.report(report);
}

Status Sealer::Impl::CheckNoWriter(ContentId content) const {
  // A read lease is granted only while nobody has the file open for writing or mapped so: an old writer that outlived
  // an earlier mount is found out.
  auto file = files.Open(contents.options.root + "/staging/" + HexName(content), FileOps::Mode::kRead);
  if (!file.ok()) return Superseded();
  const int fd = (*file)->fd();
  // Should somebody open the file for writing in this moment, the kernel sends a signal: one that is ignored by
  // default.
  if (fd >= 0) (void)fcntl(fd, F_SETSIG, SIGURG);
  if (fd < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
    if (fd >= 0) (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return {};
  }
  if (errno == EAGAIN) return Status::Busy("content " + std::to_string(content) + " is still open for writing");
  return {};  // Leases are not to be had here (file system, ownership): the tree's own rules hold.
}

Status Sealer::Impl::Prepare(Job& job) {
  STEPFS_ASSIGN_OR_RETURN(job.row, catalog.GetContent(job.content));
  if (job.row.state != ContentState::kStaged || job.row.references == 0) return Superseded();
  STEPFS_RETURN_IF_ERROR(CheckNoWriter(job.content));
  Status failure;
  job.raw = contents.StagedSource(job.content, job.row.size, failure);
  if (!job.raw) return failure.ToErrno() == ENOENT ? Superseded() : failure;
  STEPFS_ASSIGN_OR_RETURN(job.digest, DigestOf(*job.raw));
  return {};
}

void Sealer::Impl::SealBatch(const std::vector<ContentId>& batch) {
  std::vector<Job> jobs(batch.size());
  std::vector<Job*> packed;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Job& job = jobs[i];
    job.content = batch[i];
    Status status;
    std::string_view kind;
    bool finished = true;
    try {
      bool shared = false;
      status = Prepare(job);
      if (status.ok() && job.row.size > kInlineBytes) status = ShareIfKnown(job, shared);
      if (!status.ok()) {
      } else if (shared) {
        kind = "alias";
      } else if (job.row.size <= kInlineBytes) {
        status = SealInline(job);
        kind = "inline";
      } else {
        finished = false;
        packed.push_back(&job);
      }
    } catch (const std::bad_alloc&) {
      status = Status::NoMemory("sealing content " + std::to_string(job.content));
    }
    if (finished) Finish(job, status, kind);
  }
  if (packed.empty()) return;

  // One blob file for all that is left: usually one content, or several small ones.
  const std::uint64_t blob = packed.front()->content;
  std::vector<Job*> encoded;
  Status failure;
  try {
    auto writer = contents.blobs->Create(blob);
    failure = writer.status();
    if (failure.ok()) {
      FrameToBlob sink(**writer);
      for (Job* job : packed) {
        job->blob = blob;
        job->blob_offset = (*writer)->bytes();
        Status status = ChooseBase(*job);
        if (status.ok()) {
          auto stats = Encode(*job, sink);
          status = stats.status();
          if (stats.ok()) job->stats = std::move(*stats);
        }
        if (!status.ok()) {
          failure = status;  // A frame cut short: the file is given up as a whole.
          break;
        }
        encoded.push_back(job);
      }
      if (failure.ok()) failure = (*writer)->Publish();
    }
    if (failure.ok()) {
      auto read_back = contents.blobs->OpenForReadBack(blob);
      failure = read_back.status();
      for (Job* job : encoded) {
        if (failure.ok()) failure = ReadBack(*job, *read_back);
      }
      bool referenced = false;
      if (failure.ok()) failure = Switch(encoded, referenced);
      if (!referenced) (void)contents.blobs->Delete(blob);
    }
  } catch (const std::bad_alloc&) {
    failure = Status::NoMemory("sealing content " + std::to_string(blob));
  }
  for (Job* job : packed) {
    // In a pack only those that are still in `encoded` were switched; Switch drops the superseded ones.
    const bool switched = std::find(encoded.begin(), encoded.end(), job) != encoded.end();
    const Status status = !failure.ok() ? failure : switched ? Status() : Superseded();
    std::string_view kind;
    std::uint64_t most = 0;
    for (const auto& [codec, bytes] : job->stats.target_bytes_by_codec) {
      if (bytes > most) {
        most = bytes;
        kind = codec::Name(codec);
      }
    }
    Finish(*job, status, kind);
  }
}

Status Sealer::Impl::SealInline(Job& job) {
  std::string bytes(static_cast<std::size_t>(job.row.size), '\0');
  STEPFS_RETURN_IF_ERROR(job.raw->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  if (Hash128(AsBytes(bytes)) != job.digest) return Superseded();
  {
    Transaction transaction(catalog);
    STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(job.content));
    if (!SameAsRead(row, job.row)) return Superseded();
    row.state = ContentState::kInline;
    row.inline_bytes = std::move(bytes);
    row.stored_bytes = row.size;
    row.digest = job.digest;
    row.codec = "raw";
    transaction.PutContent(job.content, row);
    STEPFS_RETURN_IF_ERROR(transaction.Commit());
  }
  STEPFS_RETURN_IF_ERROR(catalog.index().SyncJournal());
  return files.Unlink(contents.options.root + "/staging/" + HexName(job.content));
}

Status Sealer::Impl::ShareIfKnown(Job& job, bool& shared) {
  std::vector<ContentId> known;
  STEPFS_RETURN_IF_ERROR(catalog.index().Scan(Table::kDigests, index::DigestPrefix(job.digest, job.row.size), {},
                                              [&](std::string_view key, std::string_view) {
                                                if (auto id = index::NumberFromKey(key, 24)) known.push_back(*id);
                                                return known.size() < 4;
                                              }));
  for (const ContentId original : known) {
    if (original == job.content) continue;
    auto bytes = contents.OpenAny(original, 0);
    if (!bytes.ok()) continue;
    auto equal = Equal(**bytes, *job.raw);  // xxh3 does not resist an adversary: the bytes decide.
    if (!equal.ok() || !*equal) continue;

    std::vector<Transaction::Dropped> dropped;
    {
      Transaction transaction(catalog);
      STEPFS_ASSIGN_OR_RETURN(ContentRecord row, transaction.GetContent(job.content));
      STEPFS_ASSIGN_OR_RETURN(const auto original_row, transaction.Raw(Table::kContents, index::ContentKey(original)));
      if (!SameAsRead(row, job.row) || !original_row) return Superseded();
      row.state = ContentState::kAlias;
      row.alias_of = original;
      row.digest = job.digest;
      row.codec = "equal";
      transaction.PutContent(job.content, row);
      transaction.Put(Table::kDependents, index::DependentKey(original, job.content), {});

      // A save that equals the one before it adds no version.
      STEPFS_ASSIGN_OR_RETURN(const auto newest, catalog.NewestVersion(row.origin));
      if (newest && newest->version == row.origin_version && newest->record.content == job.content &&
          newest->record.size == row.size && !(newest->record.flags & index::VersionRecord::kFsynced)) {
        STEPFS_ASSIGN_OR_RETURN(const auto before, catalog.NewestVersion(row.origin, [&](const NumberedVersion& at) {
          return at.version < row.origin_version;
        }));
        bool same = before && before->record.size == row.size && before->record.content == original;
        if (before && !same && before->record.size == row.size) {
          auto before_row = transaction.GetContent(before->record.content);
          same = before_row.ok() && before_row->state == ContentState::kAlias && before_row->alias_of == original;
        }
        if (same) {
          transaction.DeleteVersion(row.origin, row.origin_version);
          STEPFS_RETURN_IF_ERROR(transaction.DropReference(job.content));
        }
      }
      STEPFS_RETURN_IF_ERROR(transaction.Commit());
      dropped = transaction.dropped();
    }
    STEPFS_RETURN_IF_ERROR(catalog.index().SyncJournal());
    (void)files.Unlink(contents.options.root + "/staging/" + HexName(job.content));
    shared = true;
    return {};
  }
  return {};
}

Status Sealer::Impl::ChooseBase(Job& job) {
  STEPFS_ASSIGN_OR_RETURN(job.layout, codec::DetectLayout(*job.raw));
  STEPFS_ASSIGN_OR_RETURN(job.base, predecessors.Find(job.content, job.row, job.layout));
  if (!job.base) return {};
  STEPFS_ASSIGN_OR_RETURN(job.base_row, catalog.GetContent(*job.base));
  if (job.base_row.depth + 1 > options.max_depth || !job.base_row.digest) {
    job.base.reset();
    return {};
  }
  auto bytes = contents.OpenAny(*job.base, 0);
  if (!bytes.ok()) {
    job.base.reset();  // A base that cannot be read is no base.
    return {};
  }
  job.base_bytes = std::move(*bytes);
  return {};
}

Result<codec::EncodeStats> Sealer::Impl::Encode(Job& job, ByteSink& sink) {
  std::vector<codec::EncodeSource> sources;
  codec::Layout base_layout;
  if (job.base) {
    STEPFS_ASSIGN_OR_RETURN(base_layout, codec::DetectLayout(*job.base_bytes));
    codec::EncodeSource source;
    source.source.digest = *job.base_row.digest;
    source.source.size = job.base_row.size;
    source.source.path = catalog.PathOf(job.base_row.origin).value_or(job.base_row.origin.name);
    source.source.version = job.base_row.origin_version;
    source.bytes = job.base_bytes.get();
    source.layout = &base_layout;
    sources.push_back(std::move(source));
  }
  codec::EncodeOptions encode_options;
  encode_options.codec = options.codec;
  encode_options.threads = options.threads;
  encode_options.sections = OriginSections(catalog, job.row);
  return codec::EncodeFrame(*job.raw, job.layout, sources, encode_options, sink);
}

Status Sealer::Impl::ReadBack(const Job& job, const std::shared_ptr<const ByteSource>& blob) const {
  const std::string name = "blob " + HexName(job.blob) + " at " + std::to_string(job.blob_offset);
  if (job.stats.digest != job.digest) return Superseded();
  const SliceSource frame(blob, job.blob_offset, job.stats.encoded_bytes);
  auto reader = codec::FrameReader::Open(frame);
  if (!reader.ok()) return reader.status().WithContext(name + " as read back");
  std::vector<const ByteSource*> sources;
  if (job.stats.uses_sources) sources.push_back(job.base_bytes.get());
  if ((*reader)->sources().size() != sources.size() || (*reader)->target_bytes() != job.row.size) {
    return Status::Corruption(name + ": read back with other sources or another size than were written");
  }
  ByteVector decoded(static_cast<std::size_t>(std::min(kCompareWindow, job.row.size)));
  ByteVector staged(decoded.size());
  for (std::uint64_t offset = 0; offset < job.row.size; offset += decoded.size()) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(decoded.size(), job.row.size - offset));
    const MutableBytes left = MutableBytes(decoded).first(length), right = MutableBytes(staged).first(length);
    const int threads = options.threads > 0 ? options.threads : contents.threads;
    if (Status status = (*reader)->Read(offset, sources, left, threads); !status.ok()) {
      return status.WithContext(name + " as read back");
    }
    STEPFS_RETURN_IF_ERROR(job.raw->ReadAt(offset, right));
    if (!std::equal(left.begin(), left.end(), right.begin())) {
      return Status::Corruption(name + ": bytes at " + std::to_string(offset) + " differ from the staged ones");
    }
  }
  return {};
}

Status Sealer::Impl::Switch(std::vector<Job*>& jobs, bool& referenced) {
  const std::uint64_t blob = jobs.front()->blob;
  std::vector<Job*> switched;
  {
    Transaction transaction(catalog);
    std::uint64_t pack_bytes = 0;
    for (Job* job : jobs) {
      pack_bytes += job->stats.encoded_bytes;
      const auto present = transaction.Raw(Table::kContents, index::ContentKey(job->content));
      if (!present.ok()) return present.status();
      if (!*present) continue;
      STEPFS_ASSIGN_OR_RETURN(ContentRecord row, ContentRecord::Decode(**present));
      if (!SameAsRead(row, job->row)) continue;
      if (job->stats.uses_sources) {
        // The base may have been forgotten meanwhile; then this one is encoded again.
        STEPFS_ASSIGN_OR_RETURN(const auto base, transaction.Raw(Table::kContents, index::ContentKey(*job->base)));
        if (!base) continue;
        row.sources = {*job->base};
        row.depth = job->base_row.depth + 1;
        transaction.Put(Table::kDependents, index::DependentKey(*job->base, job->content), {});
      }
      row.state = ContentState::kSealed;
      row.blob = blob;
      row.blob_offset = job->blob_offset;
      row.stored_bytes = job->stats.encoded_bytes;
      row.digest = job->digest;
      row.synced_size = row.size;
      row.format = job->layout.format;
      row.fingerprint = job->layout.fingerprint;
      row.tensors = static_cast<std::uint32_t>(std::min<std::size_t>(job->layout.tensors.size(), ~0u));
      std::uint64_t most = 0;
      for (const auto& [codec, bytes] : job->stats.target_bytes_by_codec) {
        if (bytes > most) {
          most = bytes;
          row.codec = codec::Name(codec);
        }
      }
      transaction.PutContent(job->content, row);
      transaction.Put(Table::kDigests, index::DigestKey(job->digest, row.size, job->content), {});
      if (job->layout.step) {
        STEPFS_ASSIGN_OR_RETURN(auto version, transaction.FindVersion(row.origin, row.origin_version));
        if (version && !version->step && version->content == job->content) {
          version->step = job->layout.step;
          transaction.PutVersion(row.origin, row.origin_version, *version);
        }
      }
      switched.push_back(job);
    }
    if (switched.empty()) {
      jobs.clear();
      return Superseded();
    }
    if (jobs.size() > 1) {
      index::PackRecord pack{pack_bytes, static_cast<std::uint32_t>(switched.size())};
      transaction.Put(Table::kPacks, index::ContentKey(blob), pack.Encode());
    }
    STEPFS_RETURN_IF_ERROR(transaction.Commit());
    referenced = true;
  }
  // From here on the blob is the truth. The raw files are kept until that is durable.
  STEPFS_RETURN_IF_ERROR(catalog.index().SyncJournal());
  for (Job* job : switched) {
    predecessors.Remember(job->content, job->layout.fingerprint);
    (void)contents.AdoptStaging(job->content, job->row.size, true);
  }
  jobs = std::move(switched);
  return {};
}

}  // namespace stepfs::store
