// SPDX-License-Identifier: Apache-2.0
//
// The parsers, one a container format, each in its own .cc; layout.cc tries them in turn.
#pragma once

#include "codec/layout/layout.h"

namespace stepfs::codec {

// Formats that hold tensors themselves.
const LayoutParser& SafetensorsParser();
const LayoutParser& TorchZipParser();  // One torch zip, or a run of them one after another (.distcp).
const LayoutParser& TorchLegacyParser();
const LayoutParser& NpyParser();
const LayoutParser& Hdf5Parser();
const LayoutParser& GgufParser();
const LayoutParser& PickleParser();  // Also joblib.
const LayoutParser& MsgpackParser();
const LayoutParser& OnnxParser();

// Formats that hold such files.
const LayoutParser& ZipParser();

// What has no tensors to find since it is compressed.
const LayoutParser& CompressedParser();

// Tries the parsers of formats that hold tensors themselves, by their magic. Failures of `file` come back.
Result<std::optional<Layout>> ParseTensorFile(const ByteSource& file);

// A prefix for all names; moves all extents by `offset`.
void Relocate(std::string_view prefix, std::uint64_t offset, Layout& layout);

}  // namespace stepfs::codec
