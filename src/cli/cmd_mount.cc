// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/codec_names.h"
#include "cli/commands.h"
#include "cli/logging.h"
#include "cli/mounting.h"
#include "cli/text.h"

namespace stepfs::cli {
namespace {

Result<int> RunMount(const MountRequest& request, Streams& streams) {
  STEPFS_RETURN_IF_ERROR(Mount(request));
  if (!request.foreground) {
    streams.out << Printable(request.store) << " is mounted at " << Printable(request.mountpoint) << "\n";
  }
  return kDone;
}

// 0 means "as it thinks best" further down, so that an empty cache is a budget nothing fits in.
std::uint64_t CacheBytes(const std::string& text) {
  const auto bytes = ParseSize(text);
  if (!bytes) throw CLI::ValidationError("--cache-size", text + " is not a size; give for example 512M or 20G");
  return std::max<std::uint64_t>(*bytes, 1);
}

}  // namespace

void AddMount(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("mount", "Mount a store; it is made when it is not there");
  auto request = std::make_shared<MountRequest>();
  command->add_option("STORE", request->store, "Directory of the store")->required();
  command->add_option("MOUNTPOINT", request->mountpoint, "Empty directory where the files appear")->required();
  command->add_flag("--foreground", request->foreground, "Stay in the foreground and log to stderr as well");
  command->add_option_function<std::string>(
      "--cache-size", [request](const std::string& text) { request->cache_bytes = CacheBytes(text); },
      "Raw copies of recent versions to keep at most, SIZE[K|M|G|T] (default: a tenth of the free space)");
  command->add_option("--encode-threads", request->encode_threads, "Threads of the encoder (default: all processors)")
      ->check(CLI::Range(1, 1024));
  AddCodecOption(*command, request->codec);
  command
      ->add_option_function<std::string>(
          "--durable", [request](const std::string& when) { request->durable_close = when == "close"; },
          "close: close(2) waits for the disk, as fsync does (default: fsync)")
      ->check(CLI::IsMember({"close", "fsync"}));
  command->add_option("--index-dir", request->index_directory,
                      "Directory for the index, on a local disk, when the store is on a network file system");
  command->add_flag("--allow-other", request->allow_other, "Let other users in, as permissions allow (root: always)");
  command->add_option("--log-level", request->log_level, "trace, debug, info, warning or error")
      ->check(CLI::Validator(
          [](const std::string& name) { return IsLogLevel(name) ? std::string() : name + " is not a log level"; },
          "LEVEL"));
  command->callback(
      [&chosen, request] { chosen = [request](Streams& streams) { return RunMount(*request, streams); }; });
}

void AddUmount(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("umount", "Unmount; everything acknowledged is safe when it returns");
  auto mountpoint = std::make_shared<std::string>();
  command->add_option("MOUNTPOINT", *mountpoint, "Where the store is mounted")->required();
  command->callback([&chosen, mountpoint] {
    chosen = [mountpoint](Streams&) -> Result<int> {
      STEPFS_RETURN_IF_ERROR(Unmount(*mountpoint));
      return kDone;
    };
  });
}

}  // namespace stepfs::cli
