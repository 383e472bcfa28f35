// SPDX-License-Identifier: Apache-2.0
#include "codec/alignment.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace stepfs::codec {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

// For each tensor of the target its partner in the source, or kNone. Each source tensor is used once.
std::vector<std::uint32_t> MatchTensors(const Layout& target, const Layout& source) {
  std::vector<std::uint32_t> partner(target.tensors.size(), kNone);
  std::vector<bool> used(source.tensors.size(), false);
  const auto pair = [&](std::size_t t, std::uint32_t s) {
    partner[t] = s;
    used[s] = true;
  };

  std::unordered_map<std::string_view, std::deque<std::uint32_t>> by_name;
  for (std::uint32_t s = 0; s < source.tensors.size(); ++s) {
    if (!source.tensors[s].name.empty()) by_name[source.tensors[s].name].push_back(s);
  }
  for (std::size_t t = 0; t < target.tensors.size(); ++t) {
    const auto found = by_name.find(target.tensors[t].name);
    if (found == by_name.end() || found->second.empty()) continue;
    const std::uint32_t s = found->second.front();
    if (source.tensors[s].element != target.tensors[t].element) continue;
    found->second.pop_front();
    pair(t, s);
  }

  using Kind = std::tuple<ElementType, std::vector<std::uint64_t>>;
  std::map<Kind, std::deque<std::uint32_t>> by_kind;
  for (std::uint32_t s = 0; s < source.tensors.size(); ++s) {
    if (!used[s]) by_kind[{source.tensors[s].element, source.tensors[s].shape}].push_back(s);
  }
  for (std::size_t t = 0; t < target.tensors.size(); ++t) {
    if (partner[t] != kNone) continue;
    const auto found = by_kind.find({target.tensors[t].element, target.tensors[t].shape});
    if (found == by_kind.end() || found->second.empty()) continue;
    pair(t, found->second.front());
    found->second.pop_front();
  }
  return partner;
}

// Same rank and all dimensions but the first alike: the rows both have lie at the same place.
bool DifferInRowsOnly(const Tensor& a, const Tensor& b) {
  return a.shape.size() == b.shape.size() && !a.shape.empty() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

class Builder {
 public:
  Builder(std::uint64_t target_bytes, const Layout& target, std::uint64_t source_bytes, const Layout& source)
      : target_bytes_(target_bytes),
        source_bytes_(source_bytes),
        target_(target),
        source_(source),
        target_extents_(KeptExtents(target_bytes, target)),
        source_extents_(KeptExtents(source_bytes, source)) {}

  std::vector<AlignedRun> Build() {
    if (target_extents_.empty() || source_extents_.empty()) {
      Add(0, target_bytes_, 0, source_bytes_);
      return std::move(runs_);
    }
    PairExtents();
    std::uint64_t previous_end = 0;
    std::uint32_t previous = kNone;  // Partner of the extent before.
    for (std::size_t i = 0; i < target_extents_.size(); ++i) {
      const KeptExtent& extent = target_extents_[i];
      const std::uint32_t partner = partner_[i];
      if (extent.offset > previous_end) AddGap(previous_end, extent.offset, previous, partner, i == 0);
      if (partner != kNone) AddTensor(extent, source_extents_[partner]);
      previous_end = extent.offset + extent.bytes;
      previous = partner;
    }
    if (previous_end < target_bytes_) {
      const std::uint64_t begin = EndOf(source_extents_.back());
      Add(previous_end, target_bytes_ - previous_end, begin, source_bytes_ - begin);
    }
    return std::move(runs_);
  }

 private:
  static std::uint64_t EndOf(const KeptExtent& extent) { return extent.offset + extent.bytes; }

  void Add(std::uint64_t target_offset, std::uint64_t target_bytes, std::uint64_t source_offset,
           std::uint64_t source_bytes) {
    if (target_bytes != 0 && source_bytes != 0) {
      runs_.push_back({target_offset, target_bytes, source_offset, source_bytes});
    }
  }

  // For each kept extent of the target, the kept extent of the source with the same tensor and place in it.
  void PairExtents() {
    const std::vector<std::uint32_t> tensor_partner = MatchTensors(target_, source_);
    std::map<std::pair<std::uint32_t, std::vector<std::uint64_t>>, std::uint32_t> by_place;
    for (std::uint32_t i = 0; i < source_extents_.size(); ++i) {
      const KeptExtent& extent = source_extents_[i];
      by_place.emplace(std::pair(extent.tensor, source_.tensors[extent.tensor].extents[extent.extent].origin), i);
    }
    partner_.assign(target_extents_.size(), kNone);
    for (std::size_t i = 0; i < target_extents_.size(); ++i) {
      const KeptExtent& extent = target_extents_[i];
      if (tensor_partner[extent.tensor] == kNone) continue;
      const auto& origin = target_.tensors[extent.tensor].extents[extent.extent].origin;
      const auto found = by_place.find({tensor_partner[extent.tensor], origin});
      if (found != by_place.end()) partner_[i] = found->second;
    }
  }

  void AddTensor(const KeptExtent& target, const KeptExtent& source) {
    if (target.bytes != source.bytes &&
        !DifferInRowsOnly(target_.tensors[target.tensor], source_.tensors[source.tensor])) {
      return;
    }
    const std::uint64_t common = std::min(target.bytes, source.bytes);
    Add(target.offset, common, source.offset, common);
  }

  // The bytes before a tensor belong to the bytes before its partner; for want of one, to those behind the partner of
  // the tensor before.
  void AddGap(std::uint64_t begin, std::uint64_t end, std::uint32_t before, std::uint32_t after, bool first) {
    std::uint64_t source_begin = 0;
    std::uint64_t source_end = 0;
    if (after != kNone || first) {
      const std::uint32_t next = after == kNone ? 0 : after;
      source_begin = next == 0 ? 0 : EndOf(source_extents_[next - 1]);
      source_end = source_extents_[next].offset;
    } else if (before != kNone) {
      source_begin = EndOf(source_extents_[before]);
      source_end = before + 1 < source_extents_.size() ? source_extents_[before + 1].offset : source_bytes_;
    }
    Add(begin, end - begin, source_begin, source_end - source_begin);
  }

  const std::uint64_t target_bytes_;
  const std::uint64_t source_bytes_;
  const Layout& target_;
  const Layout& source_;
  const std::vector<KeptExtent> target_extents_;
  const std::vector<KeptExtent> source_extents_;
  std::vector<std::uint32_t> partner_;
  std::vector<AlignedRun> runs_;
};

}  // namespace

std::vector<KeptExtent> KeptExtents(std::uint64_t file_bytes, const Layout& layout) {
  std::vector<KeptExtent> extents;
  for (std::uint32_t t = 0; t < layout.tensors.size(); ++t) {
    const Tensor& tensor = layout.tensors[t];
    for (std::uint32_t e = 0; e < tensor.extents.size(); ++e) {
      const TensorExtent& extent = tensor.extents[e];
      if (extent.nbytes < kLeastTensorBytes || extent.offset > file_bytes ||
          extent.nbytes > file_bytes - extent.offset) {
        continue;
      }
      extents.push_back({extent.offset, extent.nbytes, t, e});
    }
  }
  std::stable_sort(extents.begin(), extents.end(),
                   [](const KeptExtent& a, const KeptExtent& b) { return a.offset < b.offset; });
  std::uint64_t end = 0;
  std::erase_if(extents, [&end](const KeptExtent& extent) {
    if (extent.offset < end) return true;
    end = extent.offset + extent.bytes;
    return false;
  });
  return extents;
}

Alignment Alignment::Between(std::uint64_t target_bytes, const Layout& target_layout, std::uint64_t source_bytes,
                             const Layout* source_layout) {
  Alignment alignment;
  static const Layout kNoLayout;
  const Layout& source = source_layout != nullptr ? *source_layout : kNoLayout;
  alignment.runs_ = Builder(target_bytes, target_layout, source_bytes, source).Build();
  return alignment;
}

const AlignedRun* Alignment::Find(std::uint64_t target_offset) const {
  const auto next = std::partition_point(runs_.begin(), runs_.end(), [target_offset](const AlignedRun& run) {
    return run.target_offset <= target_offset;
  });
  if (next == runs_.begin()) return nullptr;
  const AlignedRun& run = *(next - 1);
  return target_offset - run.target_offset < run.target_bytes ? &run : nullptr;
}

std::optional<std::uint64_t> Alignment::SourceOffset(std::uint64_t target_offset, std::uint64_t length) const {
  const AlignedRun* run = Find(target_offset);
  if (run == nullptr) return std::nullopt;
  const std::uint64_t at = target_offset - run->target_offset;
  if (length > run->target_bytes - at || at > run->source_bytes || length > run->source_bytes - at) return std::nullopt;
  return run->source_offset + at;
}

}  // namespace stepfs::codec
