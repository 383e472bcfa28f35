// SPDX-License-Identifier: Apache-2.0
#include "codec/huffman_inl.h"

namespace stepfs::codec {

constinit const HuffmanKernels kHuffmanAvx2 = {Count, Encode, Decode};

}  // namespace stepfs::codec
