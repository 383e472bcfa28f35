// SPDX-License-Identifier: Apache-2.0
//
// Names of element types as the libraries spell them: numpy, torch and ml_dtypes ("bfloat16"), safetensors ("BF16"),
// numpy's type strings ("<f4").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/element.h"
#include "codec/layout/layout.h"

namespace stepfs::codec {

struct Dtype {
  ElementType element = ElementType::kBytes;
  std::string name;              // "bfloat16"
  std::uint64_t item_bytes = 1;  // Of one element as its library counts them: 8 for complex64, where Width() is 4.
};

std::optional<Dtype> DtypeFromName(std::string_view name);         // "float32", "float8_e4m3fn"
std::optional<Dtype> DtypeFromSafetensors(std::string_view name);  // "F32", "F8_E4M3"
// "<f4", "f4", "|b1". Big-endian types of two bytes or more are opaque elements that keep their name.
std::optional<Dtype> DtypeFromNumpy(std::string_view descr);
// "F32" for "float32"; a name that safetensors has no word for comes back in upper case for its first letter ("Q8_0").
std::string SafetensorsName(std::string_view dtype);

// Product of the dimensions times `item_bytes`; nothing when it does not fit 63 bits.
std::optional<std::uint64_t> TensorBytes(const std::vector<std::uint64_t>& shape, std::uint64_t item_bytes);

// A tensor that lies in one piece.
Tensor MakeTensor(std::string name, const Dtype& dtype, std::vector<std::uint64_t> shape, std::uint64_t offset,
                  std::uint64_t nbytes);

}  // namespace stepfs::codec
