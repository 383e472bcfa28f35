// SPDX-License-Identifier: Apache-2.0
//
// The files that `stepfs encode` and `stepfs decode` take beside the one they work on: --base and --context.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "cli/file_io.h"

namespace stepfs::cli {

struct ReferenceNames {
  std::string base;
  std::vector<std::string> contexts;
};
// `names` must outlive the parsing.
void AddReferenceOptions(CLI::App& command, ReferenceNames& names);

struct ReferenceFile {
  std::string name;  // As in a frame: without its directory.
  bool is_base = false;
  std::unique_ptr<FileSource> bytes;
  Digest digest;
};
// Opens and hashes them, the base first.
Result<std::vector<ReferenceFile>> OpenReferences(const ReferenceNames& names);

}  // namespace stepfs::cli
