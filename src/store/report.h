// SPDX-License-Identifier: Apache-2.0
//
// The commands a store answers, as JSON: what `stepfs log`, `status`, `sync`, `verify`, `cat` and `restore` ask for.
// The same functions answer over the control socket of a mounted store (store/control.h) and in a command that opened
// the store itself, so that both say the same. The fields are described in docs/cli.md.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "store/store.h"

namespace stepfs::store {

using Json = nlohmann::ordered_json;  // Fields keep the order they were written in.

// Where a command sends what comes before its result. Used by one thread at a time.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // How far a long command is, in bytes. False: nobody waits for the answer any more, so the command should give up.
  virtual bool Progress(std::uint64_t done, std::uint64_t total) = 0;
  // One of many results.
  virtual Status Item(const Json& item) = 0;
  // The next bytes of a file.
  virtual Status Data(Bytes bytes) = 0;
};

// What only the owner of a mounted store knows.
struct ReportContext {
  std::string mode;  // "passthrough" or "plain"; empty when the store is not mounted.
};

// Runs the command that `request["command"]` names:
//
//   ping                         -> pid, uuid
//   log      path                -> an item for each version: {"version": ..., "notes": [...]}, oldest first in each
//   file status                       -> the status object sync                         -> when nothing that was closed
//   waits for the encoder any more verify   deep                -> damaged: [{path, version, what}] read     path,
//   version       -> the bytes; then version, step, size, mode, mtime_ns. `version` is a specification
//                                   as ParseVersion reads it; absent: the newest.
//
// Paths are relative to the root of the mount. kInvalidArgument for an unknown command or a malformed request.
Result<Json> RunCommand(Store& store, const ReportContext& context, const Json& request, ReplySink& sink);

// A name in a request. Names are bytes, JSON is UTF-8: any other name travels as hexadecimal digits in `path_hex`.
void SetPath(Json& request, std::string_view path);
Result<std::string> GetPath(const Json& request);

// One line of JSON, without a newline. Bytes that are not UTF-8 are replaced.
std::string ToLine(const Json& json);

// "12", "v000012": a version; "step-500": the newest version of that step.
struct VersionSpec {
  VersionNumber version = 0;         // 0: by step.
  std::optional<std::int64_t> step;  // Set when version is 0.
};
std::optional<VersionSpec> ParseVersion(std::string_view text);

// "2026-12-01T01:02:03.000000004Z".
std::string ToRfc3339(Nanoseconds time);

// stored / logical, to six digits; 1 for nothing.
double Ratio(std::uint64_t stored_bytes, std::uint64_t logical_bytes);

}  // namespace stepfs::store
