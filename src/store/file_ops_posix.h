// SPDX-License-Identifier: Apache-2.0
//
// FileOps for real files: the POSIX calls, with interrupted and short ones continued and every descriptor O_CLOEXEC.
#pragma once

#include "base/file_ops.h"

namespace stepfs::store {

// The one instance, stateless and thread-safe. Statuses: kNotFound for ENOENT, kNoSpace for ENOSPC, kIo with the errno
// for everything else.
FileOps& PosixFileOps();

}  // namespace stepfs::store
