// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/torch_tree.h"

#include <optional>
#include <unordered_map>
#include <utility>

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxStorages = std::size_t{1} << 20;

constexpr std::pair<std::string_view, std::string_view> kStorageTypes[] = {
    {"FloatStorage", "float32"},
    {"BFloat16Storage", "bfloat16"},
    {"HalfStorage", "float16"},
    {"DoubleStorage", "float64"},
    {"LongStorage", "int64"},
    {"IntStorage", "int32"},
    {"ShortStorage", "int16"},
    {"CharStorage", "int8"},
    {"ByteStorage", "uint8"},
    {"BoolStorage", "bool"},
    {"ComplexFloatStorage", "complex64"},
    {"ComplexDoubleStorage", "complex128"},
    {"UntypedStorage", "uint8"},
    {"QInt8Storage", "int8"},
    {"QUInt8Storage", "uint8"},
    {"QInt32Storage", "int32"},
    {"QUInt4x2Storage", "uint8"},
    {"QUInt2x4Storage", "uint8"},
};

std::string_view AfterLastDot(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::optional<Dtype> DtypeOfStorageClass(std::string_view global) {
  const auto name = AfterLastDot(global);
  for (const auto& [storage, dtype] : kStorageTypes) {
    if (storage == name) return DtypeFromName(dtype);
  }
  return std::nullopt;
}

// Whether a tensor of this shape and stride starts at the storage's first element and leaves none out.
bool SpansAll(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& stride, std::uint64_t offset,
              std::uint64_t element_count) {
  if (offset != 0 || shape.size() != stride.size()) return false;
  std::uint64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && stride[i] != expected) return false;
    if (shape[i] != 0 && expected > element_count / shape[i]) return false;
    expected *= shape[i];
  }
  return expected == element_count;
}

class Collector final : public PickleVisitor {
 public:
  explicit Collector(const PickleTree& tree) : tree_(tree) {}

  bool Visit(PickleId id, const std::string& name) override {
    if (tree_.Kind(id) == PickleKind::kPersistent) {
      StorageOf(id);
      return false;
    }
    std::string_view callee = tree_.Callee(id);
    std::vector<PickleId> args = tree_.Children(tree_[id].args, kMaxArguments);
    if (callee == "torch._tensor._rebuild_from_type_v2" && args.size() >= 3) {
      callee = tree_.Text(args[0]);
      args = tree_.Children(args[2], kMaxArguments);
    }
    if (!callee.starts_with("torch._utils._rebuild_")) return true;
    return !AddTensor(name, args);
  }

  std::vector<TorchStorage> Take() {
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      if (!whole_[i]) storages_[i].shape = {storages_[i].nbytes / storages_[i].dtype.item_bytes};
    }
    return std::move(storages_);
  }

 private:
  static constexpr std::size_t kMaxArguments = 16;

  // Arguments of _rebuild_tensor and its successors: storage, offset, shape, stride, ... and for v3 a dtype.
  bool AddTensor(const std::string& name, const std::vector<PickleId>& args) {
    if (args.size() < 4 || tree_.Kind(args[0]) != PickleKind::kPersistent) return false;
    const auto index = StorageOf(args[0]);
    const auto offset = tree_.Int(args[1]);
    auto shape = tree_.Shape(args[2]);
    const auto stride = tree_.Shape(args[3]);
    if (!index) return true;
    TorchStorage& storage = storages_[*index];
    const bool first = !viewed_[*index];
    if (first) {
      storage.name = name;
      for (PickleId arg : args) {
        const auto dtype = DtypeFromName(AfterLastDot(tree_.Text(arg)));
        if (dtype && tree_.Kind(arg) == PickleKind::kGlobal) storage.dtype = *dtype;
      }
    }
    viewed_[*index] = true;
    const bool whole = offset && shape && stride && *offset == 0 &&
                       SpansAll(*shape, *stride, 0, storage.nbytes / storage.dtype.item_bytes);
    if (first) {
      whole_[*index] = whole;
      if (whole) storage.shape = std::move(*shape);
    } else if (!whole || storage.shape != *shape) {
      whole_[*index] = false;
    }
    return true;
  }

  // The storage that a persistent id ('storage', class, key, location, element count) names.
  std::optional<std::size_t> StorageOf(PickleId persistent) {
    const std::vector<PickleId> id = tree_.Children(tree_[persistent].args, kMaxArguments);
    if (id.size() < 5 || tree_.Text(id[0]) != "storage" || tree_.Kind(id[2]) != PickleKind::kText) return std::nullopt;
    auto dtype = DtypeOfStorageClass(tree_.Text(id[1]));
    const auto count = tree_.Int(id[4]);
    if (!dtype || !count || *count < 0) return std::nullopt;
    const auto nbytes = TensorBytes({static_cast<std::uint64_t>(*count)}, dtype->item_bytes);
    if (!nbytes) return std::nullopt;

    const auto [at, added] = by_key_.try_emplace(std::string(tree_.Text(id[2])), storages_.size());
    if (added) {
      if (storages_.size() >= kMaxStorages) {
        by_key_.erase(at);
        return std::nullopt;
      }
      storages_.push_back({at->first, {}, std::move(*dtype), static_cast<std::uint64_t>(*count), *nbytes, {}});
      whole_.push_back(false);
      viewed_.push_back(false);
    }
    return at->second;
  }

  const PickleTree& tree_;
  std::vector<TorchStorage> storages_;
  std::vector<bool> whole_;
  std::vector<bool> viewed_;
  std::unordered_map<std::string, std::size_t> by_key_;
};

}  // namespace

std::vector<TorchStorage> CollectTorchStorages(const PickleTree& tree) {
  Collector collector(tree);
  WalkPickle(tree, collector);
  return collector.Take();
}

}  // namespace stepfs::codec
