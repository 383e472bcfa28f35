// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/codec_names.h"
#include "cli/commands.h"
#include "cli/reference_files.h"
#include "cli/text.h"
#include "store/report.h"

namespace stepfs::cli {
namespace {

using store::Json;

struct Options {
  ReferenceNames references;
  std::string target;
  std::string output;
  codec::EncodeOptions encode;
  bool force = false;
  bool json = false;
};

std::string DominantCodec(const codec::EncodeStats& stats) {
  const auto most = std::max_element(stats.target_bytes_by_codec.begin(), stats.target_bytes_by_codec.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == stats.target_bytes_by_codec.end() ? "raw" : std::string(codec::Name(most->first));
}

// The fields of a version; a file outside a store has no number.
Json ToJson(const Options& options, const codec::Layout& layout, const codec::EncodeStats& stats,
            const std::vector<ReferenceFile>& references) {
  Json base = nullptr;
  if (stats.uses_sources && !references.empty()) {
    base = {{"path", references[0].name}, {"version", nullptr}, {"digest", references[0].digest.ToString()}};
  }
  const bool anchor = base.is_null();
  return {{"path", options.target},
          {"version", nullptr},
          {"step", layout.step ? Json(*layout.step) : Json(nullptr)},
          {"time", store::ToRfc3339(store::Now())},
          {"logical_bytes", stats.target_bytes},
          {"stored_bytes", stats.encoded_bytes},
          {"ratio", store::Ratio(stats.encoded_bytes, stats.target_bytes)},
          {"codec", DominantCodec(stats)},
          {"base", std::move(base)},
          {"depth", anchor ? 0 : 1},
          {"state", "sealed"},
          {"digest", stats.digest.ToString()},
          {"lossless", true}};
}

Result<int> RunEncode(const Options& options, Streams& streams) {
  STEPFS_ASSIGN_OR_RETURN(const auto target, FileSource::Open(options.target));
  STEPFS_ASSIGN_OR_RETURN(const auto references, OpenReferences(options.references));
  STEPFS_ASSIGN_OR_RETURN(const codec::Layout layout, codec::DetectLayout(*target));
  std::vector<codec::Layout> layouts;
  for (const ReferenceFile& file : references) {
    STEPFS_ASSIGN_OR_RETURN(auto found, codec::DetectLayout(*file.bytes));
    layouts.push_back(std::move(found));
  }
  std::vector<codec::EncodeSource> sources;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const ReferenceFile& file = references[i];
    codec::FrameSource source;
    source.role = file.is_base ? codec::SourceRole::kContent : codec::SourceRole::kContext;
    source.digest = file.digest;
    source.size = file.bytes->size();
    source.path = file.name;
    sources.push_back({source, file.bytes.get(), &layouts[i]});
  }
  STEPFS_ASSIGN_OR_RETURN(const auto output, OutputFile::Create(options.output, options.force));
  STEPFS_ASSIGN_OR_RETURN(const codec::EncodeStats stats,
                          codec::EncodeFrame(*target, layout, sources, options.encode, *output));
  STEPFS_RETURN_IF_ERROR(output->Commit());
  const Json told = ToJson(options, layout, stats, references);
  if (options.json) {
    streams.out << store::ToLine(told) << "\n";
  } else {
    char ratio[16];
    std::snprintf(ratio, sizeof ratio, "%.4f", told["ratio"].get<double>());
    streams.out << Printable(options.target) << ": " << HumanSize(stats.target_bytes) << " -> "
                << HumanSize(stats.encoded_bytes) << ", ratio " << ratio << ", codec "
                << told["codec"].get<std::string>() << (stats.uses_sources ? "" : ", without base") << "\n";
  }
  return kDone;
}

}  // namespace

void AddEncode(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("encode", "Encode a single file outside a store, in the store's format");
  auto options = std::make_shared<Options>();
  AddCodecOption(*command, options->encode.codec);
  AddReferenceOptions(*command, options->references);
  command->add_option("TARGET", options->target, "The file to encode")->required();
  command->add_option("-o,--output", options->output, "The file to write")->required();
  command
      ->add_option_function<std::string>(
          "--lmc-delta", [options](const std::string& how) { options->encode.lmc_subtract = how == "subtract"; },
          "How lmc takes the difference: xor (default) or subtract")
      ->check(CLI::IsMember({"xor", "subtract"}));
  command->add_option("--threads", options->encode.threads, "Threads (default: all processors)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--force", options->force, "Replace the output file when it is there");
  command->add_flag("--json", options->json, "Tell the result as a JSON object");
  command->callback(
      [&chosen, options] { chosen = [options](Streams& streams) { return RunEncode(*options, streams); }; });
}

}  // namespace stepfs::cli
