// SPDX-License-Identifier: Apache-2.0
//
// MemoryFileOps: files in memory for fault tests, with the page cache and the disk told apart.
//
//   KillProcess()     the cache survives, open files die.
//   CutPower()        only what was synced survives: file content through File::Sync, names (created, renamed,
//                     unlinked) through SyncDirectory of the directory they are in.
//   CutPower(seed)    the same, but a part of what was not synced survives as well, chosen by the seed: nothing, all, a
//                     prefix of the writes torn at any byte, or any set of 512-byte sectors; each unsynced change of a
//                     directory on its own.
//   FailCall(n, e)    the n-th call from now (1 is the next) fails with errno e; FailCallsFrom(n, e) every one from it
//                     on, as if the machine had died there. A failing WriteAt first writes half of its bytes.
//   SetFreeBytes(n)   files may grow by n bytes altogether, then writes fail with ENOSPC after filling what is left.
//
// Every call of FileOps and File but File::Size and File::fd counts as one. Thread-safe. Directories must be made
// before use, like real ones. Files opened before KillProcess or CutPower answer EBADF after it.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/file_ops.h"

namespace stepfs::testing {

class MemoryFileOps final : public FileOps {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, Mode mode) override {
    const std::scoped_lock lock(mutex_);
    STEPFS_RETURN_IF_ERROR(Count("open " + path));
    if (!HasDirectory(ParentOf(path))) return Missing(path);
    auto found = cached_.find(path);
    if (found != cached_.end() && found->second->is_directory) return Status::FromErrno(EISDIR, "open " + path);
    if (found != cached_.end() && mode == Mode::kCreateNew) return Status::FromErrno(EEXIST, "open " + path);
    if (found == cached_.end()) {
      if (mode == Mode::kRead || mode == Mode::kReadWrite) return Missing(path);
      found = cached_.emplace(path, std::make_shared<Node>()).first;
      unsynced_names_.push_back({path, found->second});
    }
    return std::unique_ptr<File>(std::make_unique<Handle>(*this, found->second, path, lives_, mode == Mode::kRead));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    const std::scoped_lock lock(mutex_);
    STEPFS_RETURN_IF_ERROR(Count("rename " + from));
    const auto found = cached_.find(from);
    if (found == cached_.end() || !HasDirectory(ParentOf(to))) return Missing(from);
    if (found->second->is_directory) return Status::FromErrno(EISDIR, "rename " + from + ": only files here");
    const std::shared_ptr<Node> node = found->second;
    cached_.erase(found);
    cached_[to] = node;
    unsynced_names_.push_back({to, node, from});
    return {};
  }

  Status Unlink(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    STEPFS_RETURN_IF_ERROR(Count("unlink " + path));
    const auto found = cached_.find(path);
    if (found == cached_.end()) return Missing(path);
    if (found->second->is_directory) return Status::FromErrno(EISDIR, "unlink " + path);
    cached_.erase(found);
    unsynced_names_.push_back({path, nullptr});
    return {};
  }

  Status MakeDirectory(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    STEPFS_RETURN_IF_ERROR(Count("mkdir " + path));
    if (HasDirectory(path)) return {};
    if (cached_.contains(path)) return Status::FromErrno(EEXIST, "mkdir " + path);
    if (!HasDirectory(ParentOf(path))) return Missing(path);
    auto node = std::make_shared<Node>();
    node->is_directory = true;
    cached_[path] = node;
    unsynced_names_.push_back({path, std::move(node)});
    return {};
  }

  Status SyncDirectory(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    STEPFS_RETURN_IF_ERROR(Count("sync " + path));
    if (!HasDirectory(path)) return Missing(path);
    std::erase_if(unsynced_names_, [&](const NameChange& change) {
      if (ParentOf(change.path) != path && (change.from.empty() || ParentOf(change.from) != path)) return false;
      Persist(change);  // A rename across directories is one transaction, as journalling file systems have it.
      return true;
    });
    return {};
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    STEPFS_RETURN_IF_ERROR(Count("list " + path));
    if (!HasDirectory(path)) return Missing(path);
    std::vector<std::string> names;
    for (const auto& [name, node] : cached_) {
      if (name != "/" && ParentOf(name) == path) names.push_back(name.substr(path == "/" ? 1 : path.size() + 1));
    }
    return names;
  }

  void KillProcess() {
    const std::scoped_lock lock(mutex_);
    Revive();
  }

  void CutPower(std::optional<std::uint64_t> seed = {}) {
    const std::scoped_lock lock(mutex_);
    std::mt19937_64 random(seed.value_or(0));
    if (seed) {
      const std::vector<NameChange> changes = std::exchange(unsynced_names_, {});
      const std::uint64_t kept_of_four = random() % 5;
      for (const NameChange& change : changes) {
        if (random() % 4 < kept_of_four) Persist(change);
      }
    }
    unsynced_names_.clear();
    cached_ = durable_;
    for (auto& [path, node] : cached_) {
      node->cached = seed ? node->Survivor(random) : node->durable;
      node->durable = node->cached;
      node->unsynced.clear();
    }
    Revive();
  }

  void FailCall(std::uint64_t n, int error) { SetFailure(n, error, false); }
  void FailCallsFrom(std::uint64_t n, int error) { SetFailure(n, error, true); }
  void ClearFailures() { SetFailure(UINT64_MAX / 2, 0, false); }
  // Nothing: no limit.
  void SetFreeBytes(std::optional<std::uint64_t> bytes) {
    const std::scoped_lock lock(mutex_);
    free_bytes_ = bytes;
  }

  std::uint64_t calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }

  // Behind the back of whoever uses the files, uncounted: what the cache holds, changed or not. Empty for no file.
  std::string Contents(const std::string& path) const {
    const std::scoped_lock lock(mutex_);
    const auto found = cached_.find(path);
    return found == cached_.end() ? std::string() : found->second->cached;
  }
  // Cache and disk alike.
  void SetContents(const std::string& path, std::string contents) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<Node>& node = cached_[path];
    if (node == nullptr) durable_[path] = node = std::make_shared<Node>();
    node->cached = node->durable = std::move(contents);
    node->unsynced.clear();
  }
  // Paths of all files, in order.
  std::vector<std::string> Files() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> paths;
    for (const auto& [path, node] : cached_) {
      if (!node->is_directory) paths.push_back(path);
    }
    return paths;
  }

 private:
  struct Change {
    std::uint64_t offset;  // Of the write; or the new size.
    std::optional<std::string> bytes;
  };

  struct Node {
    bool is_directory = false;
    std::string cached;
    std::string durable;
    std::vector<Change> unsynced;

    static void Apply(const Change& change, std::string& content) {
      if (!change.bytes) {
        content.resize(change.offset);
        return;
      }
      content.resize(std::max(content.size(), change.offset + change.bytes->size()));
      content.replace(change.offset, change.bytes->size(), *change.bytes);
    }

    // What a power cut may leave.
    std::string Survivor(std::mt19937_64& random) const {
      constexpr std::size_t kSector = 512;
      switch (random() % 4) {
        case 0:
          return durable;
        case 1:
          return cached;
        case 2: {
          std::string content = durable;
          const std::size_t whole = unsynced.empty() ? 0 : random() % (unsynced.size() + 1);
          for (std::size_t i = 0; i < whole; ++i) Apply(unsynced[i], content);
          if (whole < unsynced.size() && unsynced[whole].bytes) {
            Change torn = unsynced[whole];
            torn.bytes->resize(random() % (torn.bytes->size() + 1));
            if (!torn.bytes->empty()) Apply(torn, content);
          }
          return content;
        }
        default: {
          std::string content = durable;
          content.resize(random() % 2 ? cached.size() : std::max(cached.size(), durable.size()));
          for (std::size_t start = 0; start < content.size(); start += kSector) {
            if (start >= cached.size() || random() % 2) continue;
            const std::size_t bytes = std::min({kSector, content.size() - start, cached.size() - start});
            content.replace(start, bytes, cached, start, bytes);
          }
          return content;
        }
      }
    }
  };

  struct NameChange {
    std::string path;
    std::shared_ptr<Node> node;  // Null: unlinked.
    std::string from = {};       // Renamed from there.
  };

  class Handle final : public File {
   public:
    Handle(MemoryFileOps& owner, std::shared_ptr<Node> node, std::string path, std::uint64_t life, bool read_only)
        : owner_(owner), node_(std::move(node)), path_(std::move(path)), life_(life), read_only_(read_only) {}

    Result<std::size_t> ReadAt(std::uint64_t offset, MutableBytes out) const override {
      const std::scoped_lock lock(owner_.mutex_);
      STEPFS_RETURN_IF_ERROR(Count("read "));
      const std::string& content = node_->cached;
      if (offset >= content.size()) return std::size_t{0};
      const std::size_t bytes = std::min<std::size_t>(out.size(), content.size() - offset);
      const Bytes source = AsBytes(content).subspan(offset, bytes);
      std::copy(source.begin(), source.end(), out.begin());
      return bytes;
    }

    Status WriteAt(std::uint64_t offset, Bytes bytes) override {
      const std::scoped_lock lock(owner_.mutex_);
      Status status = read_only_ ? Status::FromErrno(EBADF, "write " + path_) : Count("write ");
      if (!status.ok() && status.ToErrno() == EBADF) return status;
      if (!status.ok()) bytes = bytes.first(bytes.size() / 2);
      const std::uint64_t end = offset + bytes.size();
      const std::uint64_t growth = end > node_->cached.size() ? end - node_->cached.size() : 0;
      if (owner_.free_bytes_ && growth > *owner_.free_bytes_) {
        status = Status::FromErrno(ENOSPC, "write " + path_);
        const std::uint64_t excess = growth - *owner_.free_bytes_;
        bytes = bytes.first(bytes.size() - std::min<std::uint64_t>(excess, bytes.size()));
        owner_.free_bytes_ = 0;
      } else if (owner_.free_bytes_) {
        *owner_.free_bytes_ -= growth;
      }
      if (!bytes.empty()) Do({offset, std::string(AsText(bytes))});
      return status;
    }

    Status Truncate(std::uint64_t size) override {
      const std::scoped_lock lock(owner_.mutex_);
      STEPFS_RETURN_IF_ERROR(Count("truncate "));
      if (owner_.free_bytes_ && size < node_->cached.size()) *owner_.free_bytes_ += node_->cached.size() - size;
      Do({size, std::nullopt});
      return {};
    }

    Status Sync() override {
      const std::scoped_lock lock(owner_.mutex_);
      STEPFS_RETURN_IF_ERROR(Count("sync "));
      node_->durable = node_->cached;
      node_->unsynced.clear();
      return {};
    }

    Result<std::uint64_t> Size() const override {
      const std::scoped_lock lock(owner_.mutex_);
      return std::uint64_t{node_->cached.size()};
    }

    int fd() const override { return -1; }

   private:
    Status Count(const char* what) const {
      if (life_ != owner_.lives_) return Status::FromErrno(EBADF, what + path_);
      return owner_.Count(what + path_);
    }
    void Do(Change change) {
      Node::Apply(change, node_->cached);
      node_->unsynced.push_back(std::move(change));
    }

    MemoryFileOps& owner_;
    const std::shared_ptr<Node> node_;
    const std::string path_;
    const std::uint64_t life_;
    const bool read_only_;
  };

  static std::string ParentOf(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
  }
  static Status Missing(const std::string& path) { return Status::NotFound(path + ": no such file or directory"); }

  bool HasDirectory(const std::string& path) const {
    if (path == "/" || path == ".") return true;
    const auto found = cached_.find(path);
    return found != cached_.end() && found->second->is_directory;
  }

  void Persist(const NameChange& change) {
    if (!change.from.empty()) durable_.erase(change.from);
    if (change.node == nullptr) {
      durable_.erase(change.path);
    } else {
      durable_[change.path] = change.node;
    }
  }

  Status Count(const std::string& what) {
    ++calls_;
    const bool fails = calls_ == fail_at_ || (fail_ever_after_ && calls_ > fail_at_);
    return fails ? Status::FromErrno(fail_error_, what) : Status();
  }

  void SetFailure(std::uint64_t n, int error, bool ever_after) {
    const std::scoped_lock lock(mutex_);
    fail_at_ = calls_ + n;
    fail_error_ = error;
    fail_ever_after_ = ever_after;
  }

  void Revive() {
    ++lives_;
    fail_at_ = UINT64_MAX;
    fail_ever_after_ = false;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Node>> cached_;   // By path: as the running system sees it,
  std::map<std::string, std::shared_ptr<Node>> durable_;  // as the disk has it.
  std::vector<NameChange> unsynced_names_;
  std::optional<std::uint64_t> free_bytes_;
  std::uint64_t lives_ = 1;
  std::uint64_t calls_ = 0;
  std::uint64_t fail_at_ = UINT64_MAX;
  int fail_error_ = 0;
  bool fail_ever_after_ = false;
};

}  // namespace stepfs::testing
