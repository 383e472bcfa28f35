// SPDX-License-Identifier: Apache-2.0
#include "store/step_name.h"

#include <algorithm>
#include <array>

namespace stepfs::store {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The word right before position `end`, in lower case, skipping one separator.
std::string WordBefore(std::string_view name, std::size_t end) {
  if (end > 0 && (name[end - 1] == '-' || name[end - 1] == '_' || name[end - 1] == '=' || name[end - 1] == '.')) --end;
  std::size_t begin = end;
  while (begin > 0 && IsLetter(name[begin - 1])) --begin;
  std::string word(name.substr(begin, end - begin));
  std::transform(word.begin(), word.end(), word.begin(), Lower);
  return word;
}

// Words whose number tells which part of the model a file holds, not when it was saved.
bool NamesAPart(std::string_view word) {
  constexpr std::array<std::string_view, 16> kParts = {"rank",   "shard",  "mp",   "tp",   "pp",    "dp",
                                                       "ep",     "part",   "of",   "size", "layer", "stage",
                                                       "expert", "worker", "node", "v"};
  return std::find(kParts.begin(), kParts.end(), word) != kParts.end();
}

bool FollowedByOf(std::string_view name, std::size_t end) {
  const std::string_view rest = name.substr(end);
  return rest.starts_with("-of-") || rest.starts_with("_of_") || rest.starts_with("of");
}

}  // namespace

StepName ParseStepName(std::string_view name) {
  StepName parsed;
  std::vector<std::uint64_t> named, others;
  bool after_part = false;  // "__0_3.distcp": digits that continue a part number.
  for (std::size_t i = 0; i < name.size();) {
    if (!IsDigit(name[i])) {
      if (IsLetter(name[i])) after_part = false;
      parsed.pattern += name[i++];
      continue;
    }
    std::size_t end = i;
    while (end < name.size() && IsDigit(name[end])) ++end;
    const std::string word = WordBefore(name, i);
    // "mp4", "h5", ".bf16": a single letter or a type name glued to its number is part of the word.
    const bool glued = i > 0 && IsLetter(name[i - 1]);
    const bool type_name =
        glued && (word == "bf" || word == "fp" || word == "f" || word == "h" || word == "int" || word == "uint" ||
                  word == "float" || word == "sha" || word == "mp" || word == "md");
    const bool part = NamesAPart(word) || FollowedByOf(name, end) || after_part || type_name || end - i > 18 ||
                      (word.empty() && name.substr(0, i).find_first_not_of("_.") == std::string_view::npos && i > 0);
    if (part) {
      parsed.pattern.append(name.substr(i, end - i));
      after_part = true;
    } else {
      std::uint64_t value = 0;
      for (std::size_t d = i; d < end; ++d) value = value * 10 + static_cast<std::uint64_t>(name[d] - '0');
      parsed.pattern += '\x01';
      const bool telling = word.ends_with("step") || word.ends_with("steps") || word.ends_with("iter") ||
                           word.ends_with("iteration") || word == "checkpoint" || word == "ckpt";
      (telling ? named : others).push_back(value);
    }
    i = end;
  }
  parsed.steps = std::move(named);
  parsed.steps.insert(parsed.steps.end(), others.rbegin(), others.rend());
  return parsed;
}

std::optional<std::int64_t> StepOfPath(std::string_view path) {
  while (!path.empty()) {
    const auto slash = path.rfind('/');
    const std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
    const std::string_view stem = name.substr(0, name.rfind('.') == 0 ? name.npos : name.rfind('.'));
    // "epoch=3-step=900.ckpt" has the step in the stem; an extension such as ".h5" has none.
    const StepName parsed = ParseStepName(stem);
    if (parsed.has_steps()) return static_cast<std::int64_t>(parsed.steps.front());
    path = slash == path.npos ? std::string_view() : path.substr(0, slash);
  }
  return std::nullopt;
}

}  // namespace stepfs::store
