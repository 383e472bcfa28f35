// SPDX-License-Identifier: Apache-2.0
//
// user.stepfs.*: what is known of a version, as extended attributes of living files (of their newest version) and of
// the files in .stepfs. They can be read by name and are in no list, or copies would carry them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/history.h"

namespace stepfs::fs {

inline constexpr std::string_view kVirtualXattrPrefix = "user.stepfs.";

// version, base ("path@version"), ratio (stored / logical), stored_bytes, codec, digest, state. Nothing for another
// name, or for what a version does not have (an anchor's base).
std::optional<std::string> VirtualXattr(const store::History& history, const store::VersionInfo& info,
                                        std::string_view name);

}  // namespace stepfs::fs
