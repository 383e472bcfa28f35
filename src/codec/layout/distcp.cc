// SPDX-License-Identifier: Apache-2.0
//
// Names of the tensors in a .distcp file, from the .metadata beside it: a pickled Metadata object whose storage_data
// maps MetadataIndex(fqn, offset) to _StorageInfo(relative_path, offset, length).
#include <algorithm>

#include "codec/layout/pickle.h"
#include "codec/layout/siblings.h"

namespace stepfs::codec {
namespace {

struct Item {
  std::uint64_t offset;
  std::uint64_t length;
  std::string name;
};

// "w" for the shard at the tensor's origin, "w[64,0]" for another.
std::string ShardName(const PickleTree& tree, PickleId index) {
  std::string name(tree.Text(tree.Find(index, "fqn")));
  const PickleId at = tree.Find(index, "offset");
  PickleId tuple = at;
  if (tree.Kind(at) == PickleKind::kObject) {  // torch.Size((64, 0))
    const auto args = tree.Children(tree[at].args, 1);
    tuple = args.empty() ? kNoPickle : args[0];
  }
  const auto origin = tree.Shape(tuple);
  if (!origin || std::all_of(origin->begin(), origin->end(), [](std::uint64_t i) { return i == 0; })) return name;
  name += '[';
  for (std::uint64_t i : *origin) name += std::to_string(i) + ',';
  name.back() = ']';
  return name;
}

// What `.metadata` says lies in the file of this name, by offset.
std::vector<Item> ReadItems(const PickleTree& tree, std::string_view file) {
  std::vector<Item> items;
  if (tree.Kind(tree.root()) != PickleKind::kObject) return items;
  const PickleId data = tree.Find(tree[tree.root()].state, "storage_data");
  const std::vector<PickleId> pairs = data == kNoPickle ? std::vector<PickleId>() : tree.Children(data);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (tree.Kind(pairs[i]) != PickleKind::kObject || tree.Kind(pairs[i + 1]) != PickleKind::kObject) continue;
    const PickleId info = tree[pairs[i + 1]].state;
    const auto offset = tree.Int(tree.Find(info, "offset"));
    const auto length = tree.Int(tree.Find(info, "length"));
    if (tree.Text(tree.Find(info, "relative_path")) != file || !offset || !length || *offset < 0 || *length <= 0) {
      continue;
    }
    items.push_back({static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*length),
                     ShardName(tree, tree[pairs[i]].state)});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.offset < b.offset; });
  return items;
}

}  // namespace

void NameDistcpTensors(const Siblings& siblings, Layout& layout) {
  const std::string name = siblings.name();
  const auto metadata = name.ends_with(".distcp") ? siblings.Open(".metadata") : nullptr;
  if (metadata == nullptr) return;
  SourceWindow window(*metadata);
  const auto tree = ReadPickle(window);
  if (!tree) return;
  const std::vector<Item> items = ReadItems(*tree, name);
  for (Tensor& tensor : layout.tensors) {
    if (!tensor.name.empty()) continue;
    const std::uint64_t at = tensor.extents[0].offset;
    auto item = std::upper_bound(items.begin(), items.end(), at,
                                 [](std::uint64_t offset, const Item& other) { return offset < other.offset; });
    if (item == items.begin()) continue;
    --item;
    if (at - item->offset < item->length) tensor.name = item->name;
  }
}

}  // namespace stepfs::codec
