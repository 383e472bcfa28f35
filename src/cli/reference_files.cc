// SPDX-License-Identifier: Apache-2.0
#include "cli/reference_files.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

namespace stepfs::cli {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

Result<Digest> DigestOf(const ByteSource& source) {
  DigestBuilder digest;
  ByteVector piece(kPieceBytes);
  for (std::uint64_t offset = 0; offset < source.size(); offset += piece.size()) {
    const auto part = MutableBytes(piece).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), source.size() - offset)));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(offset, part));
    digest.Update(part);
  }
  return digest.Finish();
}

}  // namespace

void AddReferenceOptions(CLI::App& command, ReferenceNames& names) {
  command.add_option("--base", names.base, "The file that the delta refers to");
  // One value a flag, so that the file after it is not taken for another one.
  command.add_option("--context", names.contexts, "An older file that the encoder looks at; may be given again")
      ->type_size(1)
      ->allow_extra_args(false);
}

Result<std::vector<ReferenceFile>> OpenReferences(const ReferenceNames& names) {
  std::vector<ReferenceFile> files;
  const auto add = [&](const std::string& path, bool is_base) -> Status {
    ReferenceFile file;
    file.name = std::filesystem::path(path).filename().string();
    file.is_base = is_base;
    STEPFS_ASSIGN_OR_RETURN(file.bytes, FileSource::Open(path));
    STEPFS_ASSIGN_OR_RETURN(file.digest, DigestOf(*file.bytes));
    files.push_back(std::move(file));
    return {};
  };
  if (!names.base.empty()) STEPFS_RETURN_IF_ERROR(add(names.base, true));
  for (const std::string& path : names.contexts) STEPFS_RETURN_IF_ERROR(add(path, false));
  return files;
}

}  // namespace stepfs::cli
