// SPDX-License-Identifier: Apache-2.0
#include "cli/codec_names.h"

#include <CLI/CLI.hpp>

namespace stepfs::cli {

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const char* name : {"default", "lmc", "zstd", "raw", "max", "lstm", "excp"}) {
    if (codec::CodecChoiceFromName(name)) names.emplace_back(name);
  }
  return names;
}

void AddCodecOption(CLI::App& command, codec::CodecChoice& choice) {
  const auto names = CodecNames();
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  command
      .add_option_function<std::string>(
          "--codec", [&choice](const std::string& name) { choice = *codec::CodecChoiceFromName(name); },
          "How to encode: " + list)
      ->check(CLI::IsMember(names));
}

}  // namespace stepfs::cli
