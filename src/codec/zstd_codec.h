// SPDX-License-Identifier: Apache-2.0
//
// CodecId::kZstd: a chunk as one zstd frame. With a base, the base bytes are the frame's prefix (what the zstd program
// calls --patch-from), so that what the base already holds costs next to nothing.
//
// Unlike other codecs this one takes a base of any length, including for chunks without aligned elements.
// The bytes depend on the version of the linked zstd library, not on threads, instruction sets or earlier calls.
#pragma once

#include <memory>

#include "codec/codec.h"

namespace stepfs::codec {

// `level` as zstd counts it: 3 for bulk data, 12 and more where chunks are small. Only the encoder looks at it.
std::unique_ptr<ChunkCodec> NewZstdCodec(int level = 3);

}  // namespace stepfs::codec
