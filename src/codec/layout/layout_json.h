// SPDX-License-Identifier: Apache-2.0
//
// A layout as JSON: a list with one object a tensor, in file order: name, dtype (as safetensors spells it), shape,
// offset, nbytes; for chunked arrays, in place of the last two, chunks: a list of origin, offset, nbytes.
#pragma once

#include <string>

#include "codec/layout/layout.h"

namespace stepfs::codec {

// Names that are not UTF-8 have their bad bytes replaced. Ends without a newline.
std::string LayoutToJson(const Layout& layout);

}  // namespace stepfs::codec
