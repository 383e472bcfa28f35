// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/pickle.h"

#include <algorithm>
#include <charconv>

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxValues = std::size_t{4} << 20;
constexpr std::uint64_t kMaxTextBytes = 4096;  // Longer texts are blobs: they name nothing.
constexpr std::uint64_t kMaxLineBytes = 64 * 1024;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxRank = 64;

// Opcodes by the names of pickletools.
enum Op : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

std::optional<std::int64_t> ParseInt(std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

// The stack machine. Any malformed opcode fails the window, which ends the loop.
class PickleMachine {
 public:
  PickleMachine(SourceWindow& window, const PickleBuildHook& after_build)
      : window_(window), after_build_(after_build) {}

  std::optional<PickleTree> Run() {
    while (window_.ok()) {
      const auto op = window_.Fixed<std::uint8_t>();
      if (!window_.ok()) break;
      if (op == kStop) {
        tree_.root_ = Pop();
        if (!window_.ok()) break;
        return std::move(tree_);
      }
      Step(op);
    }
    return std::nullopt;
  }

 private:
  void Step(std::uint8_t op) {
    switch (op) {
      case kProto:
        window_.Skip(1);
        break;
      case kFrame:
        window_.Skip(8);
        break;
      case kMark:
        PushMark();
        break;
      case kPop:
        PopOrMark();
        break;
      case kPopMark:
        stack_.resize(PopMark());
        break;
      case kDup:
        Push(Top());
        break;

      case kNone:
        PushValue(PickleKind::kNone);
        break;
      case kNewTrue:
        PushInt(PickleKind::kBool, 1);
        break;
      case kNewFalse:
        PushInt(PickleKind::kBool, 0);
        break;
      case kBinInt:
        PushInt(PickleKind::kInt, window_.Fixed<std::int32_t>());
        break;
      case kBinInt1:
        PushInt(PickleKind::kInt, window_.Fixed<std::uint8_t>());
        break;
      case kBinInt2:
        PushInt(PickleKind::kInt, window_.Fixed<std::uint16_t>());
        break;
      case kInt:
      case kLong:
        PushDecimal();
        break;
      case kLong1:
        PushLong(window_.Fixed<std::uint8_t>());
        break;
      case kLong4:
        PushLong(window_.Fixed<std::uint32_t>());
        break;
      case kFloat:
        window_.Line(kMaxLineBytes);
        PushValue(PickleKind::kOther);
        break;
      case kBinFloat:
        window_.Skip(8);
        PushValue(PickleKind::kOther);
        break;

      case kString:
        PushQuoted();
        break;
      case kUnicode:
        PushText(PickleKind::kText, AsText(window_.Line(kMaxLineBytes)));
        break;
      case kBinString:
      case kBinUnicode:
        PushString(window_.Fixed<std::uint32_t>());
        break;
      case kShortBinString:
      case kShortBinUnicode:
        PushString(window_.Fixed<std::uint8_t>());
        break;
      case kBinUnicode8:
        PushString(window_.Fixed<std::uint64_t>());
        break;
      case kBinBytes:
        PushBlob(window_.Fixed<std::uint32_t>());
        break;
      case kShortBinBytes:
        PushBlob(window_.Fixed<std::uint8_t>());
        break;
      case kBinBytes8:
      case kByteArray8:
        PushBlob(window_.Fixed<std::uint64_t>());
        break;

      case kEmptyTuple:
        PushValue(PickleKind::kTuple);
        break;
      case kTuple1:
        PushTupleOf(1);
        break;
      case kTuple2:
        PushTupleOf(2);
        break;
      case kTuple3:
        PushTupleOf(3);
        break;
      case kTuple:
        PushFromMark(PickleKind::kTuple, false);
        break;
      case kEmptyList:
      case kEmptySet:
        PushValue(PickleKind::kList);
        break;
      case kList:
      case kFrozenSet:
        PushFromMark(PickleKind::kList, false);
        break;
      case kEmptyDict:
        PushValue(PickleKind::kDict, true);
        break;
      case kDict:
        PushFromMark(PickleKind::kDict, true);
        break;
      case kAppend:
        AppendToTop(1, false);
        break;
      case kAppends:
      case kAddItems:
        AppendFromMark(false);
        break;
      case kSetItem:
        AppendToTop(2, true);
        break;
      case kSetItems:
        AppendFromMark(true);
        break;

      case kGlobal:
        PushGlobal();
        break;
      case kStackGlobal:
        StackGlobal();
        break;
      case kReduce:
      case kNewObj:
        Construct(1);
        break;
      case kNewObjEx:
        Construct(2);
        break;
      case kObj:
        ConstructFromMark();
        break;
      case kInst:
        PushGlobal();
        ConstructInstance();
        break;
      case kBuild:
        Build();
        break;
      case kPersId:
        PushText(PickleKind::kText, AsText(window_.Line(kMaxLineBytes)));
        Persistent();
        break;
      case kBinPersId:
        Persistent();
        break;

      case kPut:
        Put(Decimal());
        break;
      case kBinPut:
        Put(window_.Fixed<std::uint8_t>());
        break;
      case kLongBinPut:
        Put(window_.Fixed<std::uint32_t>());
        break;
      case kMemoize:
        Put(memo_count_);
        break;
      case kGet:
        Get(Decimal());
        break;
      case kBinGet:
        Get(window_.Fixed<std::uint8_t>());
        break;
      case kLongBinGet:
        Get(window_.Fixed<std::uint32_t>());
        break;
      default:
        window_.Fail();
        break;
    }
  }

  // ---- stack, marks and memo
  void Push(PickleId id) {
    if (stack_.size() >= kMaxValues || id == kNoPickle) return window_.Fail();
    stack_.push_back(id);
  }
  std::size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleId Top() {
    if (stack_.size() > Floor()) return stack_.back();
    window_.Fail();
    return kNoPickle;
  }
  PickleId Pop() {
    const PickleId id = Top();
    if (id != kNoPickle) stack_.pop_back();
    return id;
  }
  void PushMark() {
    if (marks_.size() >= kMaxValues) return window_.Fail();
    marks_.push_back(stack_.size());
  }
  // The stack height of the last mark.
  std::size_t PopMark() {
    if (marks_.empty()) {
      window_.Fail();
      return stack_.size();
    }
    const std::size_t height = marks_.back();
    marks_.pop_back();
    return height;
  }
  void PopOrMark() {
    if (!marks_.empty() && marks_.back() == stack_.size()) {
      marks_.pop_back();
    } else {
      Pop();
    }
  }
  void Put(std::uint64_t index) {
    const PickleId id = Top();
    if (!window_.ok() || index >= kMaxValues) return window_.Fail();
    if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, kNoPickle);
    if (memo_[index] == kNoPickle) ++memo_count_;
    memo_[index] = id;
  }
  void Get(std::uint64_t index) {
    if (!window_.ok() || index >= memo_.size()) return window_.Fail();
    Push(memo_[index]);
  }

  // ---- values
  PickleId NewValue(PickleKind kind, bool keyed = false) {
    if (tree_.values_.size() >= kMaxValues) {
      window_.Fail();
      return kNoPickle;
    }
    PickleValue value;
    value.kind = kind;
    value.keyed = keyed;
    tree_.values_.push_back(value);
    return static_cast<PickleId>(tree_.values_.size() - 1);
  }
  PickleValue& At(PickleId id) { return tree_.values_[id]; }
  PickleId PushValue(PickleKind kind, bool keyed = false) {
    const PickleId id = NewValue(kind, keyed);
    Push(id);
    return window_.ok() ? id : kNoPickle;
  }
  void PushInt(PickleKind kind, std::int64_t integer) {
    if (const PickleId id = PushValue(kind); id != kNoPickle) At(id).integer = integer;
  }
  void PushDecimal() {
    const auto text = AsText(window_.Line(kMaxLineBytes));
    const auto value = ParseInt(text);
    if (text == "00" || text == "01") {
      PushInt(PickleKind::kBool, text == "01");
    } else if (value) {
      PushInt(PickleKind::kInt, *value);
    } else {
      PushValue(PickleKind::kOther);
    }
  }
  // Two's complement, little-endian, of any length.
  void PushLong(std::uint64_t length) {
    if (length > 8) {
      window_.Skip(length);
      PushValue(PickleKind::kOther);
      return;
    }
    std::uint64_t value = 0;
    std::uint64_t shift = 0;
    for (std::byte b : window_.Take(length)) {
      value |= std::to_integer<std::uint64_t>(b) << shift;
      shift += 8;
    }
    const bool negative = shift > 0 && shift < 64 && (value >> (shift - 1)) != 0;
    if (negative) value |= ~std::uint64_t{0} << shift;
    PushInt(PickleKind::kInt, static_cast<std::int64_t>(value));
  }
  std::uint64_t Decimal() {
    const auto value = ParseInt(AsText(window_.Line(kMaxLineBytes)));
    if (!value || *value < 0) window_.Fail();
    return value && *value >= 0 ? static_cast<std::uint64_t>(*value) : 0;
  }
  void PushText(PickleKind kind, std::string_view text) {
    if (text.size() > kMaxHeaderBytes - tree_.text_.size()) return window_.Fail();
    if (const PickleId id = PushValue(kind); id != kNoPickle) {
      At(id).offset = tree_.text_.size();
      At(id).length = text.size();
      tree_.text_ += text;
    }
  }
  void PushQuoted() {
    std::string_view text = AsText(window_.Line(kMaxLineBytes));
    if (text.size() >= 2) text = text.substr(1, text.size() - 2);
    PushText(PickleKind::kText, text);
  }
  void PushString(std::uint64_t length) {
    if (length > kMaxTextBytes) return PushBlob(length);
    PushText(PickleKind::kText, AsText(window_.Take(length)));
  }
  void PushBlob(std::uint64_t length) {
    const std::uint64_t offset = window_.position();
    window_.Skip(length);
    if (const PickleId id = PushValue(PickleKind::kBlob); id != kNoPickle) {
      At(id).offset = offset;
      At(id).length = length;
    }
  }

  // ---- containers
  void AddCell(PickleId container, PickleId child) {
    if (tree_.cells_.size() >= 2 * kMaxValues) return window_.Fail();
    const auto cell = static_cast<std::uint32_t>(tree_.cells_.size());
    tree_.cells_.push_back({child, kNoPickle});
    PickleValue& value = At(container);
    (value.first_cell == kNoPickle ? value.first_cell : tree_.cells_[value.last_cell].next) = cell;
    value.last_cell = cell;
  }
  // Moves stack_[height, ...) into the container.
  void AddFrom(std::size_t height, PickleId container) {
    for (std::size_t i = height; i < stack_.size() && window_.ok(); ++i) AddCell(container, stack_[i]);
    stack_.resize(height);
  }
  void PushTupleOf(std::size_t count) {
    if (stack_.size() - Floor() < count) return window_.Fail();
    WrapFrom(stack_.size() - count, PickleKind::kTuple, false);
  }
  void PushFromMark(PickleKind kind, bool keyed) { WrapFrom(PopMark(), kind, keyed); }
  void WrapFrom(std::size_t height, PickleKind kind, bool keyed) {
    if (keyed && (stack_.size() - height) % 2 != 0) return window_.Fail();
    const PickleId id = NewValue(kind, keyed);
    if (!window_.ok()) return;
    AddFrom(height, id);
    Push(id);
  }
  void AppendToTop(std::size_t count, bool keyed) {
    if (stack_.size() - Floor() < count + 1) return window_.Fail();
    AppendAbove(stack_.size() - count, keyed);
  }
  void AppendFromMark(bool keyed) {
    const std::size_t height = PopMark();
    if (height <= Floor()) return window_.Fail();
    AppendAbove(height, keyed);
  }
  // The container stands right below `height`.
  void AppendAbove(std::size_t height, bool keyed) {
    const PickleId container = stack_[height - 1];
    PickleValue& value = At(container);
    if (value.kind == PickleKind::kObject && value.first_cell == kNoPickle) value.keyed = keyed;
    const bool holds =
        value.kind == PickleKind::kList || value.kind == PickleKind::kDict || value.kind == PickleKind::kObject;
    if (!holds || value.keyed != keyed || (keyed && (stack_.size() - height) % 2 != 0)) return window_.Fail();
    AddFrom(height, container);
  }

  // ---- objects
  void PushGlobal() {
    std::string name(AsText(window_.Line(kMaxLineBytes)));
    name += '.';
    name += AsText(window_.Line(kMaxLineBytes));
    PushText(PickleKind::kGlobal, name);
  }
  void StackGlobal() {
    const PickleId name = Pop();
    const PickleId module = Pop();
    if (!window_.ok()) return;
    const std::string text = std::string(tree_.Text(module)) + '.' + std::string(tree_.Text(name));
    PushText(PickleKind::kGlobal, text);
  }
  void PushObject(PickleId callee, PickleId args) {
    if (!window_.ok()) return;
    if (const PickleId id = PushValue(PickleKind::kObject); id != kNoPickle) {
      At(id).callee = callee;
      At(id).args = args;
    }
  }
  // Callee, arguments, and for NEWOBJ_EX keyword arguments, which are not kept.
  void Construct(int argument_values) {
    if (argument_values == 2) Pop();
    const PickleId args = Pop();
    const PickleId callee = Pop();
    PushObject(callee, args);
  }
  void ConstructFromMark() {
    const std::size_t height = PopMark();
    if (height >= stack_.size()) return window_.Fail();
    const PickleId callee = stack_[height];
    WrapFrom(height + 1, PickleKind::kTuple, false);
    const PickleId args = window_.ok() ? Pop() : kNoPickle;
    if (window_.ok()) stack_.resize(height);
    PushObject(callee, args);
  }
  void ConstructInstance() {
    const PickleId callee = Pop();
    PushFromMark(PickleKind::kTuple, false);
    const PickleId args = window_.ok() ? Pop() : kNoPickle;
    PushObject(callee, args);
  }
  void Build() {
    const PickleId state = Pop();
    const PickleId object = Top();
    if (!window_.ok()) return;
    At(object).state = state;
    if (after_build_) after_build_(tree_, window_, At(object));
  }
  void Persistent() {
    const PickleId pid = Pop();
    if (const PickleId id = PushValue(PickleKind::kPersistent); id != kNoPickle) At(id).args = pid;
  }

  SourceWindow& window_;
  const PickleBuildHook& after_build_;
  PickleTree tree_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleId> memo_;
  std::uint64_t memo_count_ = 0;
};

std::optional<PickleTree> ReadPickle(SourceWindow& window, const PickleBuildHook& after_build) {
  return PickleMachine(window, after_build).Run();
}

std::string_view PickleTree::Text(PickleId id) const {
  const PickleKind kind = Kind(id);
  if (kind != PickleKind::kText && kind != PickleKind::kGlobal) return {};
  return std::string_view(text_).substr(values_[id].offset, values_[id].length);
}

std::string_view PickleTree::Callee(PickleId id) const {
  return Kind(id) == PickleKind::kObject ? Text(values_[id].callee) : std::string_view();
}

std::vector<PickleId> PickleTree::Children(PickleId id, std::size_t limit) const {
  std::vector<PickleId> children;
  if (id == kNoPickle) return children;
  for (std::uint32_t at = values_[id].first_cell; at != kNoPickle && children.size() < limit; at = cells_[at].next) {
    children.push_back(cells_[at].value);
  }
  return children;
}

std::optional<std::int64_t> PickleTree::Int(PickleId id) const {
  if (Kind(id) != PickleKind::kInt) return std::nullopt;
  return values_[id].integer;
}

std::optional<std::vector<std::uint64_t>> PickleTree::Shape(PickleId id) const {
  if (Kind(id) != PickleKind::kTuple && Kind(id) != PickleKind::kList) return std::nullopt;
  std::vector<std::uint64_t> shape;
  for (PickleId child : Children(id, kMaxRank + 1)) {
    const auto dimension = Int(child);
    if (!dimension || *dimension < 0 || shape.size() == kMaxRank) return std::nullopt;
    shape.push_back(static_cast<std::uint64_t>(*dimension));
  }
  return shape;
}

PickleId PickleTree::Find(PickleId dict, std::string_view key) const {
  PickleId found = kNoPickle;
  if (dict == kNoPickle || !values_[dict].keyed) return found;
  for (std::uint32_t at = values_[dict].first_cell; at != kNoPickle;) {
    const Cell& name = cells_[at];
    const Cell& value = cells_[name.next];
    if (Kind(name.value) == PickleKind::kText && Text(name.value) == key) found = value.value;
    at = value.next;
  }
  return found;
}

namespace {

// One container on the way down.
struct Frame {
  PickleId id;
  std::uint32_t cell;      // The next child.
  std::uint64_t index;     // Of that child in a list.
  std::size_t name_bytes;  // Of the container itself.
  int part;                // What comes next. 0: arguments, 1: children and then state, 2: nothing.
  bool arguments;          // Of a call: they carry the name of what is constructed.
};

class Walker {
 public:
  Walker(const PickleTree& tree, PickleVisitor& visitor) : tree_(tree), visitor_(visitor), seen_(tree.size()) {}

  void Run() {
    Enter(tree_.root());
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      name_.resize(frame.name_bytes);
      const PickleValue& value = tree_[frame.id];
      if (frame.part == 0) {
        frame.part = 1;
        if (value.kind == PickleKind::kObject && value.args != kNoPickle) EnterArguments(value.args);
      } else if (frame.part == 1 && frame.cell != kNoPickle) {
        NextChild(frame, value.keyed);
      } else if (frame.part == 1) {
        frame.part = 2;
        if (value.state != kNoPickle) Enter(value.state);
      } else {
        frames_.pop_back();
      }
    }
  }

 private:
  void NextChild(Frame& frame, bool keyed) {
    const PickleTree::Cell& first = tree_.cell(frame.cell);
    if (keyed) {
      const PickleTree::Cell& second = tree_.cell(first.next);
      frame.cell = second.next;
      AddKey(first.value);
      Enter(second.value);
    } else {
      frame.cell = first.next;
      if (!frame.arguments) AddPart(std::to_string(frame.index++));
      Enter(first.value);
    }
  }

  void AddKey(PickleId key) {
    switch (tree_.Kind(key)) {
      case PickleKind::kText:
        return AddPart(tree_.Text(key));
      case PickleKind::kInt:
        return AddPart(std::to_string(tree_[key].integer));
      case PickleKind::kBool:
        return AddPart(tree_[key].integer != 0 ? "True" : "False");
      default:
        return AddPart("?");
    }
  }

  void AddPart(std::string_view part) {
    if (name_.size() + part.size() + 1 > kMaxNameBytes) return;
    if (!name_.empty()) name_ += '.';
    name_ += part;
  }

  void EnterArguments(PickleId args) {
    const std::size_t depth = frames_.size();
    Enter(args);
    if (frames_.size() > depth) frames_.back().arguments = true;
  }

  void Enter(PickleId id) {
    if (id == kNoPickle || seen_[id] || frames_.size() >= kMaxDepth) return;
    const PickleKind kind = tree_.Kind(id);
    const bool container = kind == PickleKind::kTuple || kind == PickleKind::kList || kind == PickleKind::kDict;
    if (!container && kind != PickleKind::kObject && kind != PickleKind::kPersistent) return;
    seen_[id] = true;
    if (!container && (!visitor_.Visit(id, name_) || kind == PickleKind::kPersistent)) return;
    frames_.push_back({id, tree_[id].first_cell, 0, name_.size(), 0, false});
  }

  const PickleTree& tree_;
  PickleVisitor& visitor_;
  std::vector<bool> seen_;
  std::vector<Frame> frames_;
  std::string name_;
};

}  // namespace

void WalkPickle(const PickleTree& tree, PickleVisitor& visitor) { Walker(tree, visitor).Run(); }

std::optional<std::int64_t> PickledStep(const PickleTree& tree) {
  for (std::string_view key : {"step", "global_step", "epoch"}) {
    if (const auto step = tree.Int(tree.Find(tree.root(), key))) return step;
  }
  return std::nullopt;
}

}  // namespace stepfs::codec
