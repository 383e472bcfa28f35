// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <thread>

#include "cli/codec_names.h"
#include "cli/commands.h"
#include "cli/reference_files.h"
#include "codec/frame.h"

namespace stepfs::cli {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{32} << 20;

struct Options {
  ReferenceNames references;
  std::string input;
  std::string output;
  codec::CodecChoice codec = codec::CodecChoice::kDefault;
  int threads = 0;
  bool force = false;
};

// The given files in the order of the frame's list; all must be there.
Result<std::vector<const ByteSource*>> MatchSources(const codec::FrameReader& frame,
                                                    const std::vector<ReferenceFile>& files) {
  std::vector<const ByteSource*> sources;
  for (const codec::FrameSource& source : frame.sources()) {
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const ReferenceFile& file) { return file.digest == source.digest; });
    if (found == files.end()) {
      const bool is_base = source.role == codec::SourceRole::kContent;
      return Status::NotFound("needed: " + source.path +
                              (source.version != 0 ? ", version " + std::to_string(source.version) : "") + " (" +
                              std::to_string(source.size) + " bytes, " + source.digest.ToString() + "); give it with " +
                              (is_base ? "--base" : "--context"));
    }
    sources.push_back(found->bytes.get());
  }
  return sources;
}

Result<int> RunDecode(const Options& options) {
  STEPFS_ASSIGN_OR_RETURN(const auto input, FileSource::Open(options.input));
  auto opened = codec::FrameReader::Open(*input);
  if (!opened.ok()) return opened.status().WithContext(options.input);
  const codec::FrameReader& frame = **opened;
  STEPFS_ASSIGN_OR_RETURN(const auto references, OpenReferences(options.references));
  STEPFS_ASSIGN_OR_RETURN(const auto sources, MatchSources(frame, references));
  STEPFS_ASSIGN_OR_RETURN(const auto output, OutputFile::Create(options.output, options.force));
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  DigestBuilder digest;
  ByteVector window(static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytes, frame.target_bytes())));
  for (std::uint64_t offset = 0; offset < frame.target_bytes(); offset += window.size()) {
    const auto part = MutableBytes(window).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(window.size(), frame.target_bytes() - offset)));
    STEPFS_RETURN_IF_ERROR(frame.Read(offset, sources, part, std::max(threads, 1)).WithContext(options.input));
    digest.Update(part);
    STEPFS_RETURN_IF_ERROR(output->Append(part));
  }
  if (digest.Finish() != frame.digest()) {
    return Status::Corruption(options.input + ": decoded to " + digest.Finish().ToString() + ", expected " +
                              frame.digest().ToString());
  }
  STEPFS_RETURN_IF_ERROR(output->Commit());
  return kDone;
}

}  // namespace

void AddDecode(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("decode", "Decode what `stepfs encode` wrote, or a blob of a store");
  auto options = std::make_shared<Options>();
  AddReferenceOptions(*command, options->references);
  AddCodecOption(*command, options->codec);
  command->get_option("--codec")->description("Accepted as encode has it; the file itself says how it is encoded");
  command->add_option("IN", options->input, "The file to decode")->required();
  command->add_option("-o,--output", options->output, "The file to write")->required();
  command->add_option("--threads", options->threads, "Threads (default: all processors)")->check(CLI::Range(1, 1024));
  command->add_flag("--force", options->force, "Replace the output file when it is there");
  command->callback([&chosen, options] { chosen = [options](Streams&) { return RunDecode(*options); }; });
}

}  // namespace stepfs::cli
