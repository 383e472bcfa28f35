// SPDX-License-Identifier: Apache-2.0
//
// Formats that keep the names of a file's tensors in another file of the same directory. Each returns nothing when the
// name is not one of its own or the other file is missing or malformed.
#pragma once

#include <optional>

#include "codec/layout/layout.h"

namespace stepfs::codec {

// `model.onnx.data` or `model.onnx_data`, by model.onnx.
std::optional<Layout> OnnxDataLayout(const Siblings& siblings);
// `PREFIX.data-NNNNN-of-NNNNN`, by PREFIX.index.
std::optional<Layout> TensorFlowDataLayout(const Siblings& siblings);
// Gives the unnamed tensors of a `.distcp` the names that `.metadata` has for them: the first shard of a tensor its
// own, others with their place behind it ("w[64,0]").
void NameDistcpTensors(const Siblings& siblings, Layout& layout);

}  // namespace stepfs::codec
