// SPDX-License-Identifier: Apache-2.0
#include "fs/virtual_xattrs.h"

#include <cstdio>

namespace stepfs::fs {
namespace {

std::string Ratio(std::uint64_t stored, std::uint64_t logical) {
  char text[32];
  const double ratio = logical == 0 ? 1.0 : static_cast<double>(stored) / static_cast<double>(logical);
  std::snprintf(text, sizeof text, "%.4f", ratio);
  return text;
}

}  // namespace

std::optional<std::string> VirtualXattr(const store::History& history, const store::VersionInfo& info,
                                        std::string_view name) {
  if (!name.starts_with(kVirtualXattrPrefix)) return std::nullopt;
  name.remove_prefix(kVirtualXattrPrefix.size());
  if (name == "version") return std::to_string(info.version);
  if (name == "stored_bytes") return std::to_string(info.stored_bytes);
  if (name == "ratio") return Ratio(info.stored_bytes, info.record.size);
  if (name == "state") return std::string(store::StateName(info));
  if (name == "codec" && !info.content.codec.empty()) return info.content.codec;
  if (name == "digest" && info.content.digest && info.content.size == info.record.size) {
    return info.content.digest->ToString();
  }
  if (name == "base" && info.base_place) {
    return history.PathOf(*info.base_place).value_or(info.base_place->name) + "@" + std::to_string(info.base_version);
  }
  return std::nullopt;
}

}  // namespace stepfs::fs
