// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <new>

#include "cli/commands.h"
#include "cli/text.h"

namespace stepfs::cli {
namespace {

int Tell(const Status& status, Streams& streams) {
  const std::string message = status.message().empty() ? status.ToString() : std::string(status.message());
  streams.err << "stepfs: " << Printable(message) << "\n";
  return kFailed;
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, Streams& streams) {
  CLI::App program("stepfs keeps every version of every checkpoint, as lossless compressed deltas.", "stepfs");
  program.require_subcommand(1);
  Action chosen;
  AddMount(program, chosen);
  AddUmount(program, chosen);
  AddSync(program, chosen);
  AddLog(program, chosen);
  AddStatus(program, chosen);
  AddVerify(program, chosen);
  AddCat(program, chosen);
  AddRestore(program, chosen);
  AddEncode(program, chosen);
  AddDecode(program, chosen);
  AddLayout(program, chosen);
  AddVersion(program, chosen);
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 wants them reversed.
  } catch (const CLI::ParseError& error) {
    return program.exit(error, streams.out, streams.err) == 0 ? kDone : kUsage;
  }
  try {
    const Result<int> code = chosen(streams);
    streams.out.flush();
    if (!code.ok()) return Tell(code.status(), streams);
    if (!streams.out) return Tell(Status::FromErrno(EIO, "writing to standard output"), streams);
    return *code;
  } catch (const std::bad_alloc&) {
    return Tell(Status::NoMemory("not enough memory"), streams);
  } catch (const std::exception& error) {
    return Tell(Status::InvalidArgument(error.what()), streams);
  }
}

}  // namespace stepfs::cli
