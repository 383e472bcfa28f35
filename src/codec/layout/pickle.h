// SPDX-License-Identifier: Apache-2.0
//
// Reads Python pickles (protocols 0 to 5) as data: opcodes build a tree of values, nothing is imported or called. What
// Python would construct by a call is an object that remembers callee and arguments. Long byte strings are not read;
// the tree says where in the file they lie.
//
// Bounded: at most 4 Mi values and stack slots, no recursion, and no more bytes than the window's budget allows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/layout/source_window.h"

namespace stepfs::codec {

using PickleId = std::uint32_t;
inline constexpr PickleId kNoPickle = 0xffffffff;

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,        // integer: 0 or 1.
  kInt,         // integer; beyond 64 bits it is an kOther.
  kText,        // Text(): str, or a short byte string of Python 2.
  kBlob,        // offset, length: bytes, bytearray or a very long str, where they lie in the source.
  kGlobal,      // Text(): "module.name".
  kTuple,       // Children.
  kList,        // Children; also sets.
  kDict,        // Children: key, value, key, value, ...
  kObject,      // callee, args (a tuple), state; Children as of a list or a dict that were added to it.
  kPersistent,  // args: the persistent id.
  kOther,       // A float, or something without use here.
};

struct PickleValue {
  PickleKind kind = PickleKind::kOther;
  bool keyed = false;  // Children are keys and values.
  std::uint32_t first_cell = kNoPickle;
  std::uint32_t last_cell = kNoPickle;
  PickleId callee = kNoPickle;
  PickleId args = kNoPickle;
  PickleId state = kNoPickle;
  std::int64_t integer = 0;
  std::uint64_t offset = 0;  // kBlob: in the source. kText, kGlobal: in the tree's text.
  std::uint64_t length = 0;
};

class PickleTree {
 public:
  PickleId root() const { return root_; }
  // REQUIRES: id is one that this tree gave out, and not kNoPickle.
  const PickleValue& operator[](PickleId id) const { return values_[id]; }
  PickleKind Kind(PickleId id) const { return id == kNoPickle ? PickleKind::kOther : values_[id].kind; }
  // The text of a kText or kGlobal; empty for any other value.
  std::string_view Text(PickleId id) const;
  // The text of the callee of a kObject; empty for any other value.
  std::string_view Callee(PickleId id) const;
  // The children of a container, at most `limit`. Values may be shared and may contain themselves.
  std::vector<PickleId> Children(PickleId id, std::size_t limit = ~std::size_t{0}) const;
  // The integer of a kInt; nothing for any other value.
  std::optional<std::int64_t> Int(PickleId id) const;
  // The non-negative integers of a tuple or list; nothing when there are others or more than 64.
  std::optional<std::vector<std::uint64_t>> Shape(PickleId id) const;
  // The value under a text key of a kDict or a keyed kObject, the last one set; kNoPickle when there is none.
  PickleId Find(PickleId dict, std::string_view key) const;

  // For walks that keep their place: the first cell is values' first_cell.
  struct Cell {
    PickleId value;
    std::uint32_t next;
  };
  const Cell& cell(std::uint32_t index) const { return cells_[index]; }
  std::size_t size() const { return values_.size(); }

 private:
  friend class PickleMachine;
  PickleId root_ = kNoPickle;
  std::vector<PickleValue> values_;
  std::vector<Cell> cells_;
  std::string text_;
};

// Called after a BUILD opcode with the object and the window behind it: joblib writes array bytes there. It may skip
// them and sets the object's offset and length; an implementation that fails the window ends the reading.
using PickleBuildHook = std::function<void(const PickleTree&, SourceWindow&, PickleValue&)>;

// Reads one pickle, up to and with its STOP. Nothing when it is malformed, beyond the bounds, or needs what no file has
// (extension codes, out-of-band buffers).
std::optional<PickleTree> ReadPickle(SourceWindow& window, const PickleBuildHook& after_build = {});

// Walks the values of a tree under dotted names, each container once, in the order of the pickle: keys of dicts and
// indices of lists are name parts; arguments and state of an object are visited under the object's own name.
class PickleVisitor {
 public:
  virtual ~PickleVisitor() = default;
  // For every kObject and kPersistent. False: do not look inside.
  virtual bool Visit(PickleId id, const std::string& name) = 0;
};
void WalkPickle(const PickleTree& tree, PickleVisitor& visitor);

// The training step that a pickled dict names at its top: `step`, else `global_step`, else `epoch`, if an integer.
std::optional<std::int64_t> PickledStep(const PickleTree& tree);

}  // namespace stepfs::codec
