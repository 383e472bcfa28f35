// SPDX-License-Identifier: Apache-2.0
//
// Pickles (protocol 2 and later) with numpy arrays inside: by pickle itself, where an array's bytes are a byte string
// of the pickle, and by joblib, which writes them between two opcodes, behind the object that describes them.
#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/pickle.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::string_view kJoblibWrapper = "joblib.numpy_pickle.NumpyArrayWrapper";

// numpy.dtype('f4', False, True) with state (3, '<', ...), or numpy.dtype(ml_dtypes.bfloat16, ...).
std::optional<Dtype> DtypeOf(const PickleTree& tree, PickleId id) {
  if (tree.Callee(id) != "numpy.dtype") return std::nullopt;
  const auto args = tree.Children(tree[id].args, 1);
  if (args.empty()) return std::nullopt;
  const std::string_view name = tree.Text(args[0]);
  if (tree.Kind(args[0]) == PickleKind::kGlobal) return DtypeFromName(name.substr(name.rfind('.') + 1));
  std::string descr;
  if (tree.Kind(tree[id].state) == PickleKind::kTuple) {
    const auto state = tree.Children(tree[id].state, 2);
    if (state.size() == 2) descr = tree.Text(state[1]);
  }
  return DtypeFromNumpy(descr.append(name));
}

// joblib's hook: the array stands behind the BUILD of its wrapper, after a byte that counts padding bytes.
void SkipJoblibArray(const PickleTree& tree, SourceWindow& window, PickleValue& object) {
  if (object.callee == kNoPickle || tree.Text(object.callee) != kJoblibWrapper) return;
  const auto dtype = DtypeOf(tree, tree.Find(object.state, "dtype"));
  const auto shape = tree.Shape(tree.Find(object.state, "shape"));
  const auto nbytes = dtype && shape ? TensorBytes(*shape, dtype->item_bytes) : std::nullopt;
  if (!nbytes) return window.Fail();  // An array of objects: a pickle of its own.
  if (tree.Int(tree.Find(object.state, "numpy_array_alignment_bytes"))) {
    window.Skip(window.Fixed<std::uint8_t>());
  }
  object.offset = window.position();
  object.length = *nbytes;
  window.Skip(*nbytes);
}

class ArrayCollector final : public PickleVisitor {
 public:
  ArrayCollector(const PickleTree& tree, Layout& layout) : tree_(tree), layout_(layout) {}

  bool Visit(PickleId id, const std::string& name) override {
    const std::string_view callee = tree_.Callee(id);
    if (callee.ends_with("._frombuffer")) {
      const auto args = tree_.Children(tree_[id].args, 4);  // buffer, dtype, shape, order
      if (args.size() == 4) Add(name, args[0], DtypeOf(tree_, args[1]), tree_.Shape(args[2]));
      return false;
    }
    if (callee.ends_with(".multiarray._reconstruct")) {
      if (tree_[id].state == kNoPickle) return false;
      const auto state = tree_.Children(tree_[id].state, 5);  // version, shape, dtype, is Fortran order, bytes
      if (state.size() == 5 && tree_.Kind(state[4]) == PickleKind::kBlob) {
        Add(name, state[4], DtypeOf(tree_, state[2]), tree_.Shape(state[1]));
      }
      return state.size() == 5 && tree_.Kind(state[4]) == PickleKind::kList;  // An array of objects.
    }
    if (callee == kJoblibWrapper) {
      layout_.format = "joblib";
      const PickleId state = tree_[id].state;
      Add(name, id, DtypeOf(tree_, tree_.Find(state, "dtype")), tree_.Shape(tree_.Find(state, "shape")));
      return false;
    }
    return true;
  }

 private:
  // `bytes` is the value whose offset and length say where the array lies.
  void Add(const std::string& name, PickleId bytes, const std::optional<Dtype>& dtype,
           std::optional<std::vector<std::uint64_t>> shape) {
    const PickleKind kind = tree_.Kind(bytes);
    if (kind == PickleKind::kObject && tree_.Callee(bytes) != kJoblibWrapper) {
      // bytearray(b"...") of a writable buffer.
      const auto args = tree_.Children(tree_[bytes].args, 1);
      if (args.size() == 1 && tree_.Kind(args[0]) == PickleKind::kBlob) Add(name, args[0], dtype, std::move(shape));
      return;
    }
    if ((kind != PickleKind::kBlob && kind != PickleKind::kObject) || !dtype || !shape) return;
    if (TensorBytes(*shape, dtype->item_bytes) != tree_[bytes].length) return;
    if (layout_.tensors.size() >= kMaxTensors) return;
    layout_.tensors.push_back(MakeTensor(name, *dtype, std::move(*shape), tree_[bytes].offset, tree_[bytes].length));
  }

  const PickleTree& tree_;
  Layout& layout_;
};

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "pickle"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    const bool proto = window.Fixed<std::uint8_t>() == 0x80;
    const auto version = window.Fixed<std::uint8_t>();
    if (!window.ok() || !proto || version < 2 || version > 5) return NothingFrom<Layout>(window);
    const auto tree = ReadPickle(window, SkipJoblibArray);
    if (!tree) return NothingFrom<Layout>(window);
    Layout layout;
    layout.format = format();
    layout.step = PickledStep(*tree);
    ArrayCollector collector(*tree, layout);
    WalkPickle(*tree, collector);
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& PickleParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
