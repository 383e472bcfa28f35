// SPDX-License-Identifier: Apache-2.0
//
// ChunkCache: decoded chunks of sealed contents in memory, least recently used out first, within a byte budget.
// Several readers of one chunk decode it once. Thread-safe.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/bytes.h"
#include "base/result.h"

namespace stepfs::store {

class ChunkCache {
 public:
  explicit ChunkCache(std::uint64_t budget_bytes) : shard_budget_(budget_bytes / kShards) {}

  using Chunk = std::shared_ptr<const ByteVector>;
  // The chunk of a content: from memory, or by `decode`, which runs in the calling thread without any lock held.
  // A failure is handed to everyone who waits for it and is not remembered.
  Result<Chunk> Get(std::uint64_t content, std::uint32_t chunk, const std::function<Result<ByteVector>()>& decode);
  void Clear();

 private:
  struct Key {
    std::uint64_t content;
    std::uint32_t chunk;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>((key.content * 0x9E3779B97F4A7C15u) ^ (key.chunk * 0xC2B2AE3D27D4EB4Fu));
    }
  };
  struct Entry {
    Chunk chunk;  // Null while it is being decoded.
    Status failure;
    bool done = false;
    std::list<Key>::iterator position;
  };
  struct Shard {
    std::mutex mutex;
    std::condition_variable decoded;
    std::unordered_map<Key, std::shared_ptr<Entry>, KeyHash> entries;
    std::list<Key> recent;  // Front: most recently used. Finished chunks only.
    std::uint64_t bytes = 0;
  };

  static constexpr std::size_t kShards = 16;
  std::array<Shard, kShards> shards_;
  const std::uint64_t shard_budget_;
};

}  // namespace stepfs::store
