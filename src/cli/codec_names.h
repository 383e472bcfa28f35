// SPDX-License-Identifier: Apache-2.0
//
// The --codec option, as several commands have it.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "codec/frame.h"

namespace stepfs::cli {

// The names that this build can encode, "default" first.
std::vector<std::string> CodecNames();

// `choice` must outlive the parsing.
void AddCodecOption(CLI::App& command, codec::CodecChoice& choice);

}  // namespace stepfs::cli
