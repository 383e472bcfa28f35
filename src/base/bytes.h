// SPDX-License-Identifier: Apache-2.0
//
// Names for runs of bytes. A view never owns; whoever takes one says in its comment how long it must live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfs {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

inline Bytes AsBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace stepfs
