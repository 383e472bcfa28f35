// SPDX-License-Identifier: Apache-2.0
//
// How the kernel treats an open file: the only place where the flags of an OPEN or CREATE reply are decided.
#pragma once

namespace stepfs::fs {

enum class FileKind {
  kLive,     // A file of the tree.
  kVersion,  // An old version: immutable.
};

struct IoMode {
  bool keep_cache = false;  // Pages from earlier opens stay valid.
  bool no_flush = false;    // close(2) need not ask us.
};

// `flags` are open(2)'s.
IoMode ChooseIoMode(FileKind kind, int flags);

}  // namespace stepfs::fs
