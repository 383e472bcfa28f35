// SPDX-License-Identifier: Apache-2.0
//
// Layout: where the tensors of a file lie. Found from the file's own bytes by one parser a container format; what no
// tensor covers is plain bytes. A layout is advice for the encoder only: a wrong or hostile one costs compression,
// never correctness, and is not needed to decode.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/hash.h"
#include "base/result.h"
#include "codec/element.h"

namespace stepfs::codec {

// A contiguous run of elements of one tensor in the file.
struct TensorExtent {
  std::uint64_t offset = 0;             // In bytes from the start of the file.
  std::uint64_t nbytes = 0;             // Never zero.
  std::vector<std::uint64_t> origin;    // Index of its first element, for chunked arrays; empty for a whole tensor.
};

struct Tensor {
  std::string name;                     // Empty where the format has no names.
  ElementType element = ElementType::kBytes;
  std::string dtype;                    // As the format's own libraries name it, in lower case: "bfloat16", "float32".
  std::vector<std::uint64_t> shape;     // In elements; empty for a scalar.
  std::vector<TensorExtent> extents;    // In file order. One, but for chunked arrays.
};

struct Layout {
  std::string format;                   // "safetensors", "torch-zip", ...; "bytes" when no parser fitted.
  std::vector<Tensor> tensors;          // In file order of their first extent. Extents are inside the file and disjoint.
  std::optional<std::int64_t> step;     // A training step that the content itself names.
  std::string compressed_by;            // Not empty when the container is already compressed: by what ("zstd", "gzip").

  // Digest over names, element types and shapes in a canonical order; equal for two saves of one model. Zero when there
  // are no tensors.
  Digest fingerprint;
};

// Reads headers of `file`, trying each known format. Never fails for what a file contains: what cannot be parsed is
// format "bytes" without tensors. Only failures of `file` itself come back.
// Memory is bounded (headers above 64 MiB are not parsed); time is linear in the header.
Result<Layout> DetectLayout(const ByteSource& file);

// The directory that a file lies in, for formats that keep names and shapes in a file of their own. Used during one call
// only; what it hands out may change or be missing: then there are fewer names.
class Siblings {
 public:
  virtual ~Siblings() = default;
  // The name of the file that is laid out, without directories.
  virtual std::string name() const = 0;
  // A file of the same directory, or null. `name` has no directories.
  virtual std::unique_ptr<ByteSource> Open(const std::string& name) const = 0;
};

// As above; looks also at the `.metadata` beside a `.distcp`, the `.index` beside a TensorFlow `.data-N-of-M`, and the
// ONNX model beside its `.data`. Failures of siblings are no failures.
Result<Layout> DetectLayout(const ByteSource& file, const Siblings& siblings);

// One container format. Implementations are stateless; each sits in a file of its own and is listed in layout.cc.
class LayoutParser {
 public:
  virtual ~LayoutParser() = default;
  virtual std::string_view format() const = 0;
  // The layout when `file` is of this format; nothing when it is not, or is malformed. Failures of `file` come back.
  virtual Result<std::optional<Layout>> Parse(const ByteSource& file) const = 0;
};

// Sorts extents, drops tensors with an extent that is empty, outside the file or overlapping an earlier one (shared
// storages), and computes the fingerprint. Every parser's result goes through it.
void Normalize(std::uint64_t file_bytes, Layout& layout);

}  // namespace stepfs::codec
