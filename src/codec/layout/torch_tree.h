// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a pickle that torch.save wrote: storages, named by persistent ids, and the tensors that look at them.
// Shared by the zip format and the older one, which differ only in where the storages' bytes stand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codec/layout/dtype.h"
#include "codec/layout/pickle.h"

namespace stepfs::codec {

struct TorchStorage {
  std::string key;   // "0", "1", ...: the storage's name in the container.
  std::string name;  // Of the first tensor that looks at it; empty if none does.
  Dtype dtype;
  std::uint64_t element_count = 0;  // Of the storage's own type, which for newer dtypes is a byte.
  std::uint64_t nbytes = 0;
  std::vector<std::uint64_t> shape;  // Of that tensor if all its tensors span the whole storage alike, else flat.
};

// The storages in the order in which the tree first names them, each once, at most 1 Mi of them.
std::vector<TorchStorage> CollectTorchStorages(const PickleTree& tree);

}  // namespace stepfs::codec
