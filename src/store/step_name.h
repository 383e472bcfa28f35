// SPDX-License-Identifier: Apache-2.0
//
// Step-numbered names: which digits of a name count training steps, so that `checkpoint-200` is known to follow
// `checkpoint-100`. Digits that name a rank, a shard or a part never count: files that differ in them hold different
// tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfs::store {

struct StepName {
  std::string pattern;  // The name with every run of step digits replaced by "\x01".
  std::vector<std::uint64_t>
      steps;  // Their values; the most telling first (one after "step", else from the last back).

  bool has_steps() const { return !steps.empty(); }
};

StepName ParseStepName(std::string_view name);

// The step that a path names ("run1/checkpoint-500/optimizer.pt": 500): from its file name if that has one, else from
// the nearest directory that does.
std::optional<std::int64_t> StepOfPath(std::string_view path);

}  // namespace stepfs::store
