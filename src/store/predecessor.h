// SPDX-License-Identifier: Apache-2.0
//
// Predecessor: which stored content a new one is most likely a small change of. Decided from the index alone, never by
// reading stored data:
//   1. the same place's previous version;
//   2. the newest version of the name with the greatest smaller step, in the same directory or at the same relative
//   path
//      below a sibling directory that differs only in its step (living or removed: rotations delete early);
//   3. the latest content with the same layout fingerprint.
// A candidate with the target's own fingerprint wins over one without it. Sizes must be plausible.
//
// Used by the sealer's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "codec/layout/layout.h"
#include "store/catalog.h"

namespace stepfs::store {

class PredecessorFinder {
 public:
  explicit PredecessorFinder(Catalog& catalog) : catalog_(catalog) {}

  // Learns fingerprints of what is stored; once at start.
  Status Load();
  // A content was sealed.
  void Remember(ContentId content, const Digest& fingerprint);

  // The content to encode `target` against, sealed and not an alias; nothing when an anchor is better.
  Result<std::optional<ContentId>> Find(ContentId target, const ContentRecord& row, const codec::Layout& layout);

 private:
  struct Candidate {
    ContentId content = 0;
    ContentRecord row;
  };
  // The newest sealed content at a place with a version below `before`, if any.
  Status Consider(const Place& place, VersionNumber before, std::vector<Candidate>& candidates) const;
  Status ConsiderContent(ContentId content, std::vector<Candidate>& candidates) const;
  Status ConsiderSteps(const Place& place, std::vector<Candidate>& candidates) const;

  static constexpr std::size_t kPerFingerprint = 4;
  Catalog& catalog_;
  std::map<Digest, std::deque<ContentId>> by_fingerprint_;
};

}  // namespace stepfs::store
