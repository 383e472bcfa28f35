// SPDX-License-Identifier: Apache-2.0
#include "codec/delta.h"

#include "codec/cpu.h"

namespace stepfs::codec {

const DeltaKernels& ActiveDeltaKernels() { return SelectKernels(kDeltaScalar, kDeltaAvx2); }

}  // namespace stepfs::codec
