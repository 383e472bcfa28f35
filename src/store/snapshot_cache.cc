// SPDX-License-Identifier: Apache-2.0
#include "store/snapshot_cache.h"

#include <algorithm>
#include <vector>

namespace stepfs::store {
namespace {

Result<Digest> DigestOf(const ByteSource& source) {
  DigestBuilder builder;
  ByteVector buffer(std::size_t{1} << 20);
  for (std::uint64_t offset = 0; offset < source.size();) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), source.size() - offset));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(offset, MutableBytes(buffer).first(step)));
    builder.Update(Bytes(buffer).first(step));
    offset += step;
  }
  return builder.Finish();
}

}  // namespace

Status SnapshotCache::Adopt(const std::function<bool(std::uint64_t, std::uint64_t&)>& size_of) {
  std::lock_guard lock(mutex_);
  STEPFS_ASSIGN_OR_RETURN(const auto names, files_.List(directory_));
  for (const std::string& name : names) {
    std::uint64_t content = 0, expected = 0;
    bool keep = NumberFromHexName(name, content) && size_of(content, expected);
    if (keep) {
      auto file = files_.Open(PathOf(content), FileOps::Mode::kRead);
      keep = file.ok();
      if (keep) {
        auto size = (*file)->Size();
        keep = size.ok() && *size == expected;
      }
    }
    if (!keep) {
      (void)files_.Unlink(directory_ + "/" + name);
      continue;
    }
    entries_[content].size = expected;
    bytes_ += expected;
  }
  return {};
}

std::shared_ptr<const ByteSource> SnapshotCache::Find(std::uint64_t content, std::uint64_t size, bool& verified) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(content);
  if (entry == entries_.end()) return nullptr;
  entry->second.last_use = ++clock_;
  verified = entry->second.verified;
  if (auto source = entry->second.source.lock()) return source;
  auto file = files_.Open(PathOf(content), FileOps::Mode::kRead);
  if (!file.ok() || entry->second.size != size) {
    RemoveLocked(entry);
    return nullptr;
  }
  std::shared_ptr<const ByteSource> source = std::make_shared<FileSource>(
      std::shared_ptr<File>(std::move(*file)), std::uint64_t{0}, size, "snapshot " + HexName(content));
  entry->second.source = source;
  return source;
}

std::shared_ptr<const ByteSource> SnapshotCache::Open(std::uint64_t content, std::uint64_t size, const Digest& digest,
                                                      const std::function<void(const std::string&)>& warn) {
  bool verified = false;
  auto source = Find(content, size, verified);
  if (!source || verified) return source;

  std::lock_guard verifying(verify_mutex_);
  source = Find(content, size, verified);
  if (!source || verified) return source;
  const auto found = DigestOf(*source);
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(content);
  if (entry == entries_.end()) return nullptr;
  if (found.ok() && *found == digest) {
    entry->second.verified = true;
    return source;
  }
  RemoveLocked(entry);
  if (warn) {
    warn("snapshot of content " + std::to_string(content) + " was damaged and is removed; its sealed form is read (" +
         (found.ok() ? "digest " + found->ToString() + ", expected " + digest.ToString() : found.status().ToString()) +
         ")");
  }
  return nullptr;
}

bool SnapshotCache::Has(std::uint64_t content) const {
  std::lock_guard lock(mutex_);
  return entries_.contains(content);
}

Status SnapshotCache::AdoptFile(std::uint64_t content, const std::string& path, std::uint64_t size, bool verified,
                                std::weak_ptr<const ByteSource> user) {
  {
    std::lock_guard lock(mutex_);
    STEPFS_RETURN_IF_ERROR(files_.Rename(path, PathOf(content)));
    Entry& entry = entries_[content];
    bytes_ += size - entry.size;
    entry = {size, verified, ++clock_, std::move(user)};
  }
  Evict();
  return {};
}

Result<bool> SnapshotCache::TakeOver(std::uint64_t content, const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(content);
  if (entry == entries_.end() || !entry->second.verified || !entry->second.source.expired()) return false;
  STEPFS_RETURN_IF_ERROR(files_.Rename(PathOf(content), path));
  bytes_ -= entry->second.size;
  entries_.erase(entry);
  return true;
}

void SnapshotCache::Remove(std::uint64_t content) {
  std::lock_guard lock(mutex_);
  live_.erase(content);
  if (auto entry = entries_.find(content); entry != entries_.end()) RemoveLocked(entry);
}

void SnapshotCache::RemoveLocked(std::map<std::uint64_t, Entry>::iterator entry) {
  (void)files_.Unlink(PathOf(entry->first));
  bytes_ -= entry->second.size;
  entries_.erase(entry);
}

void SnapshotCache::SetLive(std::uint64_t content, bool live) {
  std::lock_guard lock(mutex_);
  if (live) {
    live_.insert(content);
  } else {
    live_.erase(content);
  }
}

void SnapshotCache::Evict(bool everything) {
  std::lock_guard lock(mutex_);
  const std::uint64_t target = everything ? 0 : budget_;
  while (bytes_ > target) {
    // Live contents last, then by age. A handful of entries: a linear search is fine.
    auto victim = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      const auto rank = [&](auto at) { return std::pair(live_.contains(at->first), at->second.last_use); };
      if (victim == entries_.end() || rank(entry) < rank(victim)) victim = entry;
    }
    if (victim == entries_.end()) break;
    RemoveLocked(victim);
  }
  if (everything) {
    while (!entries_.empty()) RemoveLocked(entries_.begin());
  }
}

std::uint64_t SnapshotCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace stepfs::store
