// SPDX-License-Identifier: Apache-2.0
#include "fs/io_mode.h"

#include <fcntl.h>

namespace stepfs::fs {

IoMode ChooseIoMode(FileKind kind, int flags) {
  IoMode mode;
  // Every change goes through the kernel, sealing changes no byte, and a replaced file is another inode: what the
  // kernel has cached is right unless this very open empties the file.
  mode.keep_cache = kind == FileKind::kVersion || (flags & O_TRUNC) == 0;
  mode.no_flush = (flags & O_ACCMODE) == O_RDONLY;
  return mode;
}

}  // namespace stepfs::fs
