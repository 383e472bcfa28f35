// SPDX-License-Identifier: Apache-2.0
#include "codec/byte_group.h"

#include "codec/cpu.h"

namespace stepfs::codec {

const ByteGroupKernels& ActiveByteGroupKernels() { return SelectKernels(kByteGroupScalar, kByteGroupAvx2); }

}  // namespace stepfs::codec
