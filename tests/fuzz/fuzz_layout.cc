// SPDX-License-Identifier: Apache-2.0
//
// Input: a file, which is its own sibling, too. Whatever it is, a layout comes back, whose extents are inside the file,
// not empty and disjoint.
#include <algorithm>
#include <cstdlib>

#include "codec/layout/layout.h"
#include "codec/layout/layout_json.h"
#include "fuzz_target.h"

namespace stepfs::codec {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

class SameFile final : public Siblings {
 public:
  SameFile(std::string name, Bytes bytes) : name_(std::move(name)), bytes_(bytes) {}
  std::string name() const override { return name_; }
  std::unique_ptr<ByteSource> Open(const std::string&) const override { return std::make_unique<MemorySource>(bytes_); }

 private:
  std::string name_;
  Bytes bytes_;
};

void Check(const char* name, Bytes bytes) {
  const auto layout = DetectLayout(MemorySource(bytes), SameFile(name, bytes));
  Require(layout.ok());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (const Tensor& tensor : layout->tensors) {
    Require(!tensor.extents.empty());
    for (const TensorExtent& extent : tensor.extents) extents.emplace_back(extent.offset, extent.nbytes);
  }
  std::sort(extents.begin(), extents.end());
  std::uint64_t covered = 0;
  for (const auto& [offset, nbytes] : extents) {
    Require(offset >= covered && nbytes > 0 && nbytes <= bytes.size() && offset <= bytes.size() - nbytes);
    covered = offset + nbytes;
  }
  Require(!LayoutToJson(*layout).empty());
}

}  // namespace
}  // namespace stepfs::codec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const char* name : {"a.distcp", "m.onnx.data", "p.data-00000-of-00001"}) {
    stepfs::codec::Check(name, std::as_bytes(std::span(data, size)));
  }
  return 0;
}
