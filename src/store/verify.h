// SPDX-License-Identifier: Apache-2.0
//
// Verification of everything stored: rows against their checksums, blobs against theirs, and with `deep` every content
// decoded from its sealed form (not from a snapshot) and compared with its digest.
#pragma once

#include <functional>
#include <vector>

#include "store/history.h"
#include "store/store.h"

namespace stepfs::store {

// What is damaged, with every version that needs it. `progress` may stop the work by returning false.
Result<std::vector<Store::Damage>> VerifyStore(Catalog& catalog, ContentStore& contents, History& history, bool deep,
                                               const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

}  // namespace stepfs::store
