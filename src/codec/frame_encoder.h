// SPDX-License-Identifier: Apache-2.0
//
// EncodeFrame with codecs of the caller's choice: the seam between settings and the frame encoder, and what tests use
// to watch what codecs are given.
#pragma once

#include <vector>

#include "codec/codec_set.h"
#include "codec/frame.h"

namespace stepfs::codec {

// As EncodeFrame; `options.codec` is not looked at. Chunks decode only when DecoderOf knows the codecs' ids.
Result<EncodeStats> EncodeFrameWith(const CodecSet& codecs, const ByteSource& target, const Layout& layout,
                                    const std::vector<EncodeSource>& sources, const EncodeOptions& options,
                                    ByteSink& sink);

}  // namespace stepfs::codec
