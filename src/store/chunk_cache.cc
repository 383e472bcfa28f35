// SPDX-License-Identifier: Apache-2.0
#include "store/chunk_cache.h"

namespace stepfs::store {

Result<ChunkCache::Chunk> ChunkCache::Get(std::uint64_t content, std::uint32_t chunk,
                                          const std::function<Result<ByteVector>()>& decode) {
  const Key key{content, chunk};
  Shard& shard = shards_[KeyHash()(key) % kShards];
  std::shared_ptr<Entry> entry;
  {
    std::unique_lock lock(shard.mutex);
    if (auto found = shard.entries.find(key); found != shard.entries.end()) {
      entry = found->second;
      if (!entry->done) {
        shard.decoded.wait(lock, [&] { return entry->done; });
        if (!entry->failure.ok()) return entry->failure;
        return entry->chunk;
      }
      shard.recent.splice(shard.recent.begin(), shard.recent, entry->position);
      return entry->chunk;
    }
    entry = std::make_shared<Entry>();
    shard.entries.emplace(key, entry);
  }

  Result<ByteVector> decoded = [&]() -> Result<ByteVector> {
    try {
      return decode();
    } catch (const std::bad_alloc&) {
      return Status::NoMemory("decoding a chunk");
    }
  }();

  std::lock_guard lock(shard.mutex);
  entry->done = true;
  shard.decoded.notify_all();
  if (!decoded.ok()) {
    entry->failure = decoded.status();
    shard.entries.erase(key);
    return entry->failure;
  }
  entry->chunk = std::make_shared<const ByteVector>(std::move(*decoded));
  shard.recent.push_front(key);
  entry->position = shard.recent.begin();
  shard.bytes += entry->chunk->size();
  while (shard.bytes > shard_budget_ && shard.recent.size() > 1) {
    const auto oldest = shard.entries.find(shard.recent.back());
    shard.bytes -= oldest->second->chunk->size();
    shard.entries.erase(oldest);
    shard.recent.pop_back();
  }
  return entry->chunk;
}

void ChunkCache::Clear() {
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    for (const Key& key : shard.recent) shard.entries.erase(key);
    shard.recent.clear();
    shard.bytes = 0;
  }
}

}  // namespace stepfs::store
