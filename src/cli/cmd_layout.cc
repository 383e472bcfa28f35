// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/file_io.h"
#include "cli/text.h"
#include "codec/layout/layout_json.h"

namespace stepfs::cli {
namespace {

std::string ShapeText(const codec::Tensor& tensor) {
  std::string text = "[";
  for (const std::uint64_t size : tensor.shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(size);
  return text + "]";
}

void Print(const codec::Layout& layout, std::ostream& out) {
  out << "format " << layout.format << ", " << layout.tensors.size() << " tensors";
  if (layout.step) out << ", step " << *layout.step;
  if (!layout.compressed_by.empty()) out << ", compressed by " << layout.compressed_by;
  out << "\n";
  if (layout.tensors.empty()) return;
  Table table({{"NAME"}, {"DTYPE"}, {"SHAPE"}, {"OFFSET", true}, {"BYTES", true}});
  for (const codec::Tensor& tensor : layout.tensors) {
    std::uint64_t bytes = 0;
    for (const codec::TensorExtent& extent : tensor.extents) bytes += extent.nbytes;
    const bool chunked = tensor.extents.size() != 1;
    table.AddRow(
        {tensor.name.empty() ? "-" : tensor.name, tensor.dtype, ShapeText(tensor),
         chunked ? std::to_string(tensor.extents.size()) + " chunks" : std::to_string(tensor.extents[0].offset),
         std::to_string(bytes)});
  }
  table.Print(out);
}

}  // namespace

void AddLayout(CLI::App& program, Action& chosen) {
  auto* command = program.add_subcommand("layout", "Show the tensors that were found in a file");
  struct Options {
    std::string file;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "Any file")->required();
  command->add_flag("--json", options->json, "As a JSON array");
  command->callback([&chosen, options] {
    chosen = [options](Streams& streams) -> Result<int> {
      STEPFS_ASSIGN_OR_RETURN(const auto file, FileSource::Open(options->file));
      STEPFS_ASSIGN_OR_RETURN(const codec::Layout layout, codec::DetectLayout(*file));
      if (options->json) {
        streams.out << codec::LayoutToJson(layout) << "\n";
      } else {
        Print(layout, streams.out);
      }
      return kDone;
    };
  });
}

}  // namespace stepfs::cli
