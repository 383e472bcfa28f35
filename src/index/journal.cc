// SPDX-License-Identifier: Apache-2.0
#include "index/journal.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>

#include "base/hash.h"
#include "base/serial.h"

namespace stepfs::index {
namespace {

// docs/index_schema.md, "Journal and rows".
constexpr std::string_view kSegmentMagic = "stepfsJ\n";
constexpr std::uint32_t kSegmentVersion = 1;
constexpr std::uint32_t kRecordMagic = 0x454a5053;  // "SPJE"
constexpr std::size_t kAlignment = 8;
constexpr std::string_view kNamePrefix = "journal-";
constexpr std::size_t kNameDigits = 20;
constexpr std::uint8_t kPut = 0, kDelete = 1;

struct SegmentHeader {
  std::uint64_t number, first_sequence, salt;
};

struct Record {
  std::uint64_t sequence = 0;
  std::uint64_t durable_sequence = 0;
  std::size_t bytes = 0;  // With header and padding.
  Bytes body;             // Empty: a mark.
};

std::optional<std::uint64_t> NumberOfName(std::string_view name) {
  if (name.size() != kNamePrefix.size() + kNameDigits || !name.starts_with(kNamePrefix)) return {};
  std::uint64_t number = 0;
  for (const char digit : name.substr(kNamePrefix.size())) {
    if (digit < '0' || digit > '9' || number > UINT64_MAX / 10 - 1) return {};
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

// Nothing when the header was never written whole (it was not synced then, so nothing behind it was).
Result<std::optional<SegmentHeader>> ParseSegmentHeader(Bytes bytes, const std::string& path) {
  if (bytes.size() < kSegmentHeaderBytes) return std::optional<SegmentHeader>();
  bytes = bytes.first(kSegmentHeaderBytes);
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return std::optional<SegmentHeader>();
  }
  ByteReader reader(bytes);
  const std::string_view magic = AsText(reader.Raw(kSegmentMagic.size()));
  const auto version = reader.Fixed<std::uint32_t>();
  reader.Fixed<std::uint32_t>();
  SegmentHeader header;
  header.number = reader.Fixed<std::uint64_t>();
  header.first_sequence = reader.Fixed<std::uint64_t>();
  header.salt = reader.Fixed<std::uint64_t>();
  if (magic != kSegmentMagic || reader.Fixed<std::uint64_t>() != Hash64(bytes.first(kSegmentHeaderBytes - 8))) {
    return Status::Corruption(path + ": the segment header is damaged");
  }
  if (version != kSegmentVersion) {
    return Status::Unsupported(path + ": journal version " + std::to_string(version) + ", expected 1");
  }
  return std::optional(header);
}

// The record at the start of `bytes`, or nothing. Restores `bytes` before it returns.
std::optional<Record> ParseRecord(MutableBytes bytes, std::uint64_t salt) {
  if (bytes.size() < kRecordHeaderBytes) return {};
  if (LoadLittle<std::uint32_t>(bytes.data() + 8) != kRecordMagic) return {};
  const std::uint64_t body_bytes = LoadLittle<std::uint32_t>(bytes.data() + 12);
  const std::uint64_t record_bytes = kRecordHeaderBytes + (body_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (record_bytes > bytes.size()) return {};
  const auto checksum = LoadLittle<std::uint64_t>(bytes.data());
  StoreLittle(salt, bytes.data());
  const std::uint64_t expected = Hash64(Bytes(bytes.first(record_bytes)));
  StoreLittle(checksum, bytes.data());
  if (checksum != expected) return {};
  Record record;
  record.sequence = LoadLittle<std::uint64_t>(bytes.data() + 16);
  record.durable_sequence = LoadLittle<std::uint64_t>(bytes.data() + 24);
  record.bytes = record_bytes;
  record.body = Bytes(bytes).subspan(kRecordHeaderBytes, body_bytes);
  return record;
}

Result<WriteBatch> ParseBatch(Bytes body) {
  WriteBatch batch;
  ByteReader reader(body);
  while (reader.ok() && reader.remaining() > 0) {
    const auto operation = reader.Fixed<std::uint8_t>();
    const auto table = reader.Fixed<std::uint8_t>();
    const std::string_view key = reader.String();
    const std::string_view value = operation == kPut ? reader.String() : std::string_view();
    if (!reader.ok() || operation > kDelete || table >= kTableCount || key.empty() || key.size() > kMaxKeyBytes) {
      return Status::Corruption("a journal entry with a valid checksum does not parse");
    }
    if (operation == kPut) {
      batch.Put(static_cast<Table>(table), key, value);
    } else {
      batch.Delete(static_cast<Table>(table), key);
    }
  }
  return batch;
}

std::uint64_t RandomSalt() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string EncodeSegmentHeader(std::uint64_t number, std::uint64_t first_sequence, std::uint64_t salt) {
  ByteWriter writer;
  writer.Raw(kSegmentMagic);
  writer.Fixed(kSegmentVersion);
  writer.Fixed(std::uint32_t{0});
  writer.Fixed(number);
  writer.Fixed(first_sequence);
  writer.Fixed(salt);
  writer.Fixed(Hash64(writer.bytes()));
  return writer.Take();
}

std::string EncodeRecord(std::uint64_t salt, std::uint64_t sequence, std::uint64_t durable_sequence,
                         const WriteBatch* batch) {
  ByteWriter writer;
  writer.Fixed(salt);
  writer.Fixed(kRecordMagic);
  writer.Fixed(std::uint32_t{0});
  writer.Fixed(sequence);
  writer.Fixed(durable_sequence);
  if (batch != nullptr) {
    for (const WriteBatch::Change& change : batch->changes()) {
      writer.Fixed(change.value ? kPut : kDelete);
      writer.Fixed(static_cast<std::uint8_t>(change.table));
      writer.String(change.key);
      if (change.value) writer.String(*change.value);
    }
  }
  const auto body_bytes = static_cast<std::uint32_t>(writer.size() - kRecordHeaderBytes);
  while (writer.size() % kAlignment != 0) writer.Fixed(std::uint8_t{0});
  std::string record = writer.Take();
  auto* raw = reinterpret_cast<std::byte*>(record.data());
  StoreLittle(body_bytes, raw + 12);
  StoreLittle(Hash64(record), raw);  // Over the salt in the checksum's own place.
  return record;
}

// Reads all segments once, in order, and knows at the end whether what could not be used was ever durable.
class Journal::Replayer {
 public:
  Replayer(Journal& journal, std::uint64_t applied, const Apply& apply, Recovery& recovery)
      : journal_(journal), apply_(apply), recovery_(recovery), expected_(applied + 1) {}

  Status Run() {
    STEPFS_RETURN_IF_ERROR(OpenSegments());
    for (std::size_t i = 0; i < found_.size(); ++i) STEPFS_RETURN_IF_ERROR(ReplaySegment(i));
    if (claimed_durable_ >= expected_) {
      return Status::Corruption("journal: entry " + std::to_string(expected_) + " was durable (through " +
                                std::to_string(claimed_durable_) + ") but is damaged or missing");
    }
    journal_.appended_ = expected_ - 1;
    return {};
  }

 private:
  struct Found {
    std::shared_ptr<Segment> segment;
    std::optional<SegmentHeader> header;
    // A later segment starts with this sequence number, so entries from it on in this one were given up.
    std::uint64_t void_from = UINT64_MAX;
  };

  Status OpenSegments() {
    STEPFS_ASSIGN_OR_RETURN(const std::vector<std::string> names, journal_.files_.List(journal_.directory_));
    std::vector<std::uint64_t> numbers;
    for (const std::string& name : names) {
      if (const auto number = NumberOfName(name)) numbers.push_back(*number);
    }
    std::sort(numbers.begin(), numbers.end());
    for (const std::uint64_t number : numbers) {
      auto segment = std::make_shared<Segment>();
      segment->number = number;
      segment->path = journal_.PathOf(number);
      STEPFS_ASSIGN_OR_RETURN(segment->file, journal_.files_.Open(segment->path, FileOps::Mode::kReadWrite));
      STEPFS_ASSIGN_OR_RETURN(segment->size, segment->file->Size());
      std::array<std::byte, kSegmentHeaderBytes> raw;
      STEPFS_ASSIGN_OR_RETURN(const std::size_t bytes, segment->file->ReadAt(0, raw));
      STEPFS_ASSIGN_OR_RETURN(const auto header, ParseSegmentHeader(Bytes(raw).first(bytes), segment->path));
      if (header && header->number != number) {
        return Status::Corruption(segment->path + ": the segment is numbered " + std::to_string(header->number));
      }
      journal_.next_number_ = number + 1;
      journal_.closed_.push_back(segment);
      found_.push_back({std::move(segment), header});
    }
    std::uint64_t void_from = UINT64_MAX;
    for (auto found = found_.rbegin(); found != found_.rend(); ++found) {
      found->void_from = void_from;
      if (found->header) void_from = std::min(void_from, found->header->first_sequence);
    }
    return {};
  }

  Status ReplaySegment(std::size_t index) {
    const Found& found = found_[index];
    if (found.header) {
      STEPFS_RETURN_IF_ERROR(ReplayRecords(found));
    } else {
      recovery_.dropped_bytes += found.segment->size;
    }
    found.segment->last_sequence = expected_ - 1;
    return {};
  }

  Status ReplayRecords(const Found& found) {
    ByteVector data(found.segment->size);
    STEPFS_ASSIGN_OR_RETURN(const std::size_t bytes, found.segment->file->ReadAt(0, data));
    data.resize(bytes);
    MutableBytes rest = MutableBytes(data).subspan(std::min(bytes, kSegmentHeaderBytes));
    while (!rest.empty()) {
      const std::optional<Record> record = ParseRecord(rest, found.header->salt);
      if (!record) {
        // Look for the next intact record: all are aligned.
        const std::size_t skip = std::min(kAlignment, rest.size());
        recovery_.dropped_bytes += skip;
        rest = rest.subspan(skip);
        continue;
      }
      claimed_durable_ = std::max(claimed_durable_, record->durable_sequence);
      if (!record->body.empty()) STEPFS_RETURN_IF_ERROR(ReplayBatch(*record, found.void_from));
      rest = rest.subspan(record->bytes);
    }
    return {};
  }

  Status ReplayBatch(const Record& record, std::uint64_t void_from) {
    if (record.sequence < expected_ && record.sequence < void_from) return {};  // In LMDB already.
    if (record.sequence != expected_ || record.sequence >= void_from) {
      recovery_.dropped_bytes += record.bytes;
      ++recovery_.dropped_batches;
      return {};
    }
    STEPFS_ASSIGN_OR_RETURN(const WriteBatch batch, ParseBatch(record.body));
    STEPFS_RETURN_IF_ERROR(apply_(record.sequence, batch));
    ++recovery_.replayed_batches;
    ++expected_;
    return {};
  }

  Journal& journal_;
  const Apply& apply_;
  Recovery& recovery_;
  std::uint64_t expected_;
  std::uint64_t claimed_durable_ = 0;
  std::vector<Found> found_;
};

Result<std::unique_ptr<Journal>> Journal::Open(FileOps& files, const std::string& directory,
                                               std::uint64_t applied_sequence, const Apply& apply, Recovery* recovery) {
  std::unique_ptr<Journal> journal(new Journal(files, directory));
  STEPFS_RETURN_IF_ERROR(files.MakeDirectory(directory));
  STEPFS_RETURN_IF_ERROR(files.SyncDirectory(ParentOf(directory)));
  journal->durable_ = applied_sequence;
  STEPFS_RETURN_IF_ERROR(Replayer(*journal, applied_sequence, apply, *recovery).Run());
  journal->DropThrough(applied_sequence);
  return journal;
}

std::string Journal::PathOf(std::uint64_t number) const {
  std::string digits = std::to_string(number);
  digits.insert(0, kNameDigits - digits.size(), '0');
  return directory_ + "/" + std::string(kNamePrefix) + digits;
}

Result<std::shared_ptr<Journal::Segment>> Journal::CreateSegment(std::uint64_t number) {
  auto segment = std::make_shared<Segment>();
  segment->number = number;
  segment->path = PathOf(number);
  segment->salt = RandomSalt();
  STEPFS_ASSIGN_OR_RETURN(segment->file, files_.Open(segment->path, FileOps::Mode::kCreateNew));
  Status status = segment->file->Sync();
  // The name must be durable before anything in the file can be called so.
  if (status.ok()) status = files_.SyncDirectory(directory_);
  if (!status.ok()) {
    (void)files_.Unlink(segment->path);
    return status;
  }
  return segment;
}

Status Journal::StartSegmentLocked() {
  if (prepared_ == nullptr) {
    auto created = CreateSegment(next_number_++);
    if (!created.ok()) return created.status().WithContext("journal: cannot start a segment");
    prepared_ = std::move(created).value();
  }
  current_ = std::move(prepared_);
  return {};
}

void Journal::CloseCurrentLocked() {
  if (current_ == nullptr) return;
  current_->last_sequence = appended_;
  closed_.push_back(std::move(current_));
}

Status Journal::WriteLocked(std::uint64_t sequence, const WriteBatch* batch) {
  std::string bytes;
  if (current_->size == 0) bytes = EncodeSegmentHeader(current_->number, sequence, current_->salt);
  bytes += EncodeRecord(current_->salt, sequence, durable_, batch);
  Status status = current_->file->WriteAt(current_->size, AsBytes(bytes));
  if (status.ok()) {
    current_->size += bytes.size();
    return {};
  }
  if (!current_->file->Truncate(current_->size).ok()) {
    // Make it unreadable at least, which needs no space; then leave the segment. The next one's header voids the rest.
    if (current_->size == 0) {
      (void)files_.Unlink(current_->path);
    } else {
      const std::array<std::byte, kRecordHeaderBytes> zeros{};
      (void)current_->file->WriteAt(current_->size, zeros);
    }
    CloseCurrentLocked();
  }
  return status;
}

Status Journal::Append(std::uint64_t sequence, const WriteBatch& batch) {
  const std::scoped_lock lock(mutex_);
  if (current_ == nullptr) STEPFS_RETURN_IF_ERROR(StartSegmentLocked());
  STEPFS_RETURN_IF_ERROR(WriteLocked(sequence, &batch));
  appended_ = sequence;
  return {};
}

Status Journal::Sync() {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = appended_;
  while (durable_ < target) {
    if (syncing_) {
      synced_.wait(lock);
      continue;
    }
    syncing_ = true;
    const std::uint64_t through = appended_;
    std::vector<std::shared_ptr<Segment>> unsynced;
    for (const auto& segment : closed_) {
      if (segment->last_sequence > durable_) unsynced.push_back(segment);
    }
    if (current_ != nullptr && current_->size > 0) unsynced.push_back(current_);
    lock.unlock();
    Status status;
    std::shared_ptr<Segment> failed;
    for (const auto& segment : unsynced) {
      status = segment->sync_failed ? Status::FromErrno(EIO, "journal: an earlier sync of " + segment->path + " failed")
                                    : segment->file->Sync();
      if (status.ok()) continue;
      failed = segment;
      break;
    }
    lock.lock();
    syncing_ = false;
    synced_.notify_all();
    if (failed != nullptr) {
      failed->sync_failed = true;
      if (failed == current_) CloseCurrentLocked();
      if (durable_ >= target) break;  // A checkpoint came first.
      return status;
    }
    if (through > durable_) {
      durable_ = through;
      // Leave word of it. Nothing depends on this record, so its failure is not one.
      if (current_ != nullptr && current_->size > 0) (void)WriteLocked(appended_, nullptr);
    }
  }
  return {};
}

Status Journal::PrepareSegment() {
  const std::scoped_lock prepare_lock(prepare_mutex_);
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (prepared_ != nullptr) return {};
    number = next_number_++;
  }
  STEPFS_ASSIGN_OR_RETURN(auto segment, CreateSegment(number));
  const std::scoped_lock lock(mutex_);
  // An Append may have started a segment of a higher number meanwhile; order must be that of use.
  if (next_number_ == number + 1) {
    prepared_ = std::move(segment);
  } else {
    (void)files_.Unlink(segment->path);
  }
  return {};
}

void Journal::Rotate() {
  const std::scoped_lock lock(mutex_);
  if (current_ == nullptr || current_->size > 0) {
    CloseCurrentLocked();
    current_ = std::move(prepared_);
  }
}

void Journal::DropThrough(std::uint64_t sequence) {
  std::vector<std::shared_ptr<Segment>> dropped;
  {
    const std::scoped_lock lock(mutex_);
    durable_ = std::max(durable_, sequence);
    const auto kept = std::stable_partition(closed_.begin(), closed_.end(),
                                            [&](const auto& segment) { return segment->last_sequence <= sequence; });
    dropped.assign(closed_.begin(), kept);
    closed_.erase(closed_.begin(), kept);
    synced_.notify_all();
  }
  // A segment that cannot be removed, or comes back after a power cut, holds nothing that would be replayed.
  for (const auto& segment : dropped) (void)files_.Unlink(segment->path);
}

std::uint64_t Journal::last_sequence() const {
  const std::scoped_lock lock(mutex_);
  return appended_;
}

std::uint64_t Journal::bytes() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t total = current_ != nullptr ? current_->size : 0;
  for (const auto& segment : closed_) total += segment->size;
  return total;
}

}  // namespace stepfs::index
