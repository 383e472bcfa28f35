// SPDX-License-Identifier: Apache-2.0
//
// The parts of HDF5 (File Format Specification 3.0) that lead to raw data: groups of both generations and the chunk
// indexes. Addresses and lengths of 8 bytes only. Everything reads through one SourceWindow, whose budget bounds the
// work; a malformed structure fails the window.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codec/layout/layout.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec::hdf5 {

inline constexpr std::uint64_t kUndefined = ~std::uint64_t{0};  // The address of what was never written.
inline constexpr std::size_t kMaxItems = std::size_t{1} << 20;  // Links, chunks, messages.
inline constexpr std::size_t kMaxRank = 32;

// Takes a four-byte signature and the version byte; fails the window for others.
void Expect(SourceWindow& window, std::string_view signature, std::uint8_t version);
// An unsigned integer of 1 to 8 bytes.
std::uint64_t Unsigned(SourceWindow& window, std::uint64_t bytes);

// All records of a version 2 B-tree of the given type, one after another.
struct Records {
  std::uint64_t record_bytes = 0;
  ByteVector bytes;
};
Records ReadBtree2(SourceWindow& window, std::uint64_t address, std::uint8_t type);

struct Link {
  std::string name;
  std::uint64_t header;  // Address of the object's header.
};
// Members of a group with a version 1 B-tree and a local heap.
void ReadSymbolTable(SourceWindow& window, std::uint64_t btree, std::uint64_t heap, std::vector<Link>& links);
// One link message; soft and external links are passed over.
void ReadLink(SourceWindow& window, std::vector<Link>& links);
// Members of a group whose link messages lie in a fractal heap, found by the B-tree over their names. Blocks below the
// first indirection (beyond some ten thousand links) are left out.
void ReadDenseLinks(SourceWindow& window, std::uint64_t heap, std::uint64_t name_index, std::vector<Link>& links);

// What a dataset's dataspace and layout messages say of its chunks.
struct Chunking {
  enum class Index { kBtree1, kSingle, kImplicit, kFixedArray, kExtensibleArray, kBtree2 };
  Index index = Index::kBtree1;
  std::uint64_t address = kUndefined;  // Of the index.
  std::vector<std::uint64_t> chunk;    // Elements along each dimension; none is 0.
  std::uint64_t chunk_bytes = 0;
  std::vector<std::uint64_t> dimensions;  // Of the array, now.
  std::vector<std::uint64_t> maximum;     // And at most; kUndefined: unlimited.
};
// Where the allocated chunks lie, by the origin of each.
std::vector<TensorExtent> ReadChunks(SourceWindow& window, const Chunking& chunking);

}  // namespace stepfs::codec::hdf5
