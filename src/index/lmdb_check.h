// SPDX-License-Identifier: Apache-2.0
//
// A look at an LMDB data file before LMDB maps it. LMDB trusts its pages: a truncated file kills the process by SIGBUS,
// a flipped bit in a page header by SIGSEGV or an assertion. This reads the file with pread only and follows every
// page that the newest meta page can reach, so that such a file is an error instead.
//
// Checked: both meta pages; for every page its number, type, bounds and node offsets; key order inside and between
// pages; depth and page and entry counts of every tree; overflow runs; that no page is reached twice, or is both in use
// and free. Not checked: the values (rows carry their own checksums). The format is that of LMDB 0.9 (data version 1)
// on 64-bit machines. Cost: one read of the branch and leaf pages.
#pragma once

#include <string>

#include "base/status.h"

namespace stepfs::index {

// Ok when the file is absent or empty. kCorruption names what does not hold; kUnsupported for another data version;
// kIo when it cannot be read. REQUIRES: no process has the environment open.
Status CheckLmdbFile(const std::string& path);

}  // namespace stepfs::index
