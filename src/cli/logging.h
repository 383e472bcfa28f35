// SPDX-License-Identifier: Apache-2.0
//
// The log of a mount: STORE/log/stepfs.log, rotated at 10 MiB, five kept; in the foreground on stderr as well. It is
// the default logger of spdlog, which the file system layer writes to.
#pragma once

#include <string>

#include "base/status.h"
#include "store/sealer.h"

namespace stepfs::cli {

// Names that --log-level accepts: trace, debug, info, warning, error.
bool IsLogLevel(const std::string& name);

// Until there is a store: warnings and worse to stderr, in the form of all messages of the program.
void LogToStderr(const std::string& level);
// After daemonizing. kIo when STORE/log cannot be made or written.
Status StartLogging(const std::string& store, const std::string& level, bool also_to_stderr);

// One line a save: name, version, bytes in, bytes stored, ratio, base, seconds. Made for StoreOptions::on_seal.
void LogSave(const store::SealReport& report);
void LogWarning(const std::string& text);

}  // namespace stepfs::cli
