// SPDX-License-Identifier: Apache-2.0
#include "codec/exponent_transform.h"

namespace stepfs::codec {
const TransformKernels* const kTransformAvx2[4] = {&kTransformScalar[0], &kTransformScalar[1], &kTransformScalar[2],
                                                   &kTransformScalar[3]};
}  // namespace stepfs::codec
