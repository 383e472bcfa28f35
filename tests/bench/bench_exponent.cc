// SPDX-License-Identifier: Apache-2.0
//
// bench_exponent BASE TARGET [BASE TARGET ...]: the exponent coder on pairs of checkpoints, beside zstd on the XOR of
// the two, byte-grouped by element width. Per pair: size (share of the tensor bytes), the order-0 entropy of the
// differences given the base's exponent, encode and decode speed on one core. Files are safetensors, or anything else
// as float32 from `--offset=N` (default 0) on. `--no-base` codes TARGET alone. `--chunk=BYTES` sets the chunk size.
//
// Two bounds are printed, each per tensor with the tables free: `class` codes the bit length and sign of a difference
// and counts the bits below the leading one as raw; `full` codes the difference itself (16-bit elements only: a wider
// one would be all table).
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "codec/exponent.h"
#include "codec/exponent_transform.h"
#include "codec/exponent_transform_inl.h"

namespace {

using namespace stepfs;         // NOLINT(google-build-using-namespace): a program, not a library.
using namespace stepfs::codec;  // NOLINT(google-build-using-namespace)

struct Tensor {
  ElementType element;
  std::size_t offset;
  std::size_t size;
};

ByteVector ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "bench_exponent: cannot read %s\n", path.c_str());
    std::exit(1);
  }
  std::vector<char> text((std::istreambuf_iterator<char>(in)), {});
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return ByteVector(first, first + text.size());
}

ElementType ElementOf(const std::string& dtype) {
  if (dtype == "BF16") return ElementType::kBfloat16;
  if (dtype == "F16") return ElementType::kFloat16;
  if (dtype == "F32") return ElementType::kFloat32;
  if (dtype == "F64") return ElementType::kFloat64;
  return ElementType::kBytes;
}

std::vector<Tensor> FindTensors(const std::string& path, const ByteVector& file, std::size_t offset) {
  if (!path.ends_with(".safetensors")) {
    return {{ElementType::kFloat32, offset, (file.size() - offset) / 4 * 4}};
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const auto* text = reinterpret_cast<const char*>(file.data()) + 8;
  std::vector<Tensor> tensors;
  const nlohmann::json header = nlohmann::json::parse(text, text + header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0];
    const std::size_t end = entry["data_offsets"][1];
    tensors.push_back({ElementOf(entry["dtype"]), 8 + header_bytes + begin, end - begin});
  }
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) { return a.offset < b.offset; });
  return tensors;
}

// Chunks as the frame makes them: one element type, small tensors together, large ones cut.
struct Chunk {
  ElementType element;
  ByteVector target;
  ByteVector base;
};

std::vector<Chunk> MakeChunks(const ByteVector& target, const ByteVector& base, const std::vector<Tensor>& tensors,
                              std::size_t chunk_bytes) {
  std::vector<Chunk> chunks;
  for (const Tensor& tensor : tensors) {
    for (std::size_t at = 0; at < tensor.size;) {
      if (chunks.empty() || chunks.back().element != tensor.element || chunks.back().target.size() >= chunk_bytes ||
          (at == 0 && chunks.back().target.size() + tensor.size > chunk_bytes)) {
        chunks.push_back({tensor.element, {}, {}});
      }
      Chunk& chunk = chunks.back();
      const std::size_t n = std::min(tensor.size - at, chunk_bytes - chunk.target.size());
      const auto first = static_cast<std::ptrdiff_t>(tensor.offset + at);
      chunk.target.insert(chunk.target.end(), target.begin() + first,
                          target.begin() + first + static_cast<std::ptrdiff_t>(n));
      if (!base.empty()) {
        chunk.base.insert(chunk.base.end(), base.begin() + first,
                          base.begin() + first + static_cast<std::ptrdiff_t>(n));
      }
      at += n;
    }
  }
  return chunks;
}

template <typename Key>
double ConditionalEntropyBits(const std::unordered_map<Key, double>& joint, unsigned context_shift) {
  std::unordered_map<Key, double> contexts;
  for (const auto& [key, count] : joint) contexts[key >> context_shift] += count;
  double bits = 0;
  for (const auto& [key, count] : joint) bits += count * std::log2(contexts[key >> context_shift] / count);
  return bits;
}

struct Bounds {
  double class_bits = 0;
  double full_bits = 0;
};

template <typename U>
Bounds BoundsOf(const std::byte* target, const std::byte* base, std::size_t count, ElementForm form) {
  std::unordered_map<std::uint64_t, double> classes;
  std::unordered_map<std::uint64_t, double> full;
  Bounds bounds;
  for (std::size_t i = 0; i < count; ++i) {
    const U b = transform::Load<U>(base, i);
    const U d = transform::Difference<U, ElementKind::kFloat>(transform::Load<U>(target, i), b);
    const std::uint64_t context = transform::ContextOf<U, ElementKind::kFloat>(form, b);
    classes[context << 32 | transform::SymbolOf(d, 0)] += 1;
    bounds.class_bits += transform::RawBits(transform::Magnitude(d), 0);
    if (sizeof(U) == 2) full[context << 32 | d] += 1;
  }
  bounds.class_bits += ConditionalEntropyBits(classes, 32);
  bounds.full_bits = ConditionalEntropyBits(full, 32);
  return bounds;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Processor time of this thread: what else runs on the machine matters less.
double Now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Seconds(const std::function<void()>& work) {
  const double start = Now();
  work();
  return Now() - start;
}

struct Row {
  std::string name;
  std::size_t encoded = 0;
  std::vector<double> encode_seconds;
  std::vector<double> decode_seconds;
};

void XorPlanes(const Chunk& chunk, std::byte* planes) {
  const std::size_t width = Width(chunk.element);
  const std::size_t count = chunk.target.size() / width;
  for (std::size_t p = 0; p < width; ++p) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte b = chunk.base.empty() ? std::byte{0} : chunk.base[i * width + p];
      planes[p * count + i] = chunk.target[i * width + p] ^ b;
    }
  }
}

void PrintRow(const Row& row, std::size_t raw_bytes) {
  const auto raw = static_cast<double>(raw_bytes);
  std::printf("  %-10s %10zu  %.5f (%7.2fx)  encode %6.3f  decode %6.3f GB/s\n", row.name.c_str(), row.encoded,
              static_cast<double>(row.encoded) / raw, raw / static_cast<double>(row.encoded),
              raw / Median(row.encode_seconds) / 1e9, raw / Median(row.decode_seconds) / 1e9);
}

Row RunExponent(const std::vector<Chunk>& chunks, int repeats) {
  const auto codec = NewExponentCodec();
  Row row{"exponent", 0, {}, {}};
  std::vector<ByteVector> encoded(chunks.size());
  std::vector<std::size_t> sizes(chunks.size());
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    encoded[c].resize(codec->MaxEncodedBytes(chunks[c].element, chunks[c].target.size()));
  }
  ByteVector decoded;
  for (int r = 0; r < repeats; ++r) {
    row.encode_seconds.push_back(Seconds([&] {
      for (std::size_t c = 0; c < chunks.size(); ++c) {
        sizes[c] = *codec->Encode(chunks[c].element, chunks[c].target, {chunks[c].base, {}}, encoded[c]);
      }
    }));
    row.decode_seconds.push_back(0);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      decoded.resize(chunks[c].target.size());
      Status status;
      row.decode_seconds.back() += Seconds([&] {
        status = codec->Decode(chunks[c].element, Bytes(encoded[c]).first(sizes[c]), {chunks[c].base, {}}, decoded);
      });
      if (!status.ok() || decoded != chunks[c].target) std::exit(2);
    }
  }
  for (std::size_t size : sizes) row.encoded += size;
  return row;
}

// zstd alone: the planes are made beforehand and not timed.
Row RunZstd(const std::vector<Chunk>& chunks, int level, int repeats) {
  Row row{"zstd -" + std::to_string(level), 0, {}, {}};
  ZSTD_CCtx* compress = ZSTD_createCCtx();
  ZSTD_DCtx* decompress = ZSTD_createDCtx();
  for (int r = 0; r < repeats; ++r) {
    row.encoded = 0;
    row.encode_seconds.push_back(0);
    row.decode_seconds.push_back(0);
    for (const Chunk& chunk : chunks) {
      ByteVector planes(chunk.target.size());
      ByteVector out(ZSTD_compressBound(planes.size()));
      ByteVector back(planes.size());
      XorPlanes(chunk, planes.data());
      std::size_t size = 0;
      row.encode_seconds.back() += Seconds(
          [&] { size = ZSTD_compressCCtx(compress, out.data(), out.size(), planes.data(), planes.size(), level); });
      row.decode_seconds.back() +=
          Seconds([&] { ZSTD_decompressDCtx(decompress, back.data(), back.size(), out.data(), size); });
      if (back != planes) std::exit(2);
      row.encoded += size;
    }
  }
  ZSTD_freeCCtx(compress);
  ZSTD_freeDCtx(decompress);
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t offset = 0;
  std::size_t chunk_bytes = 512 * 1024;
  int repeats = 9;
  bool no_base = false;
  bool quick = false;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--offset="))
      offset = std::stoull(argument.substr(9));
    else if (argument.starts_with("--chunk="))
      chunk_bytes = std::stoull(argument.substr(8));
    else if (argument.starts_with("--repeats="))
      repeats = std::stoi(argument.substr(10));
    else if (argument == "--no-base")
      no_base = true;
    else if (argument == "--quick")
      quick = true;
    else
      paths.push_back(argument);
  }
  if (paths.empty() || paths.size() % 2 != 0) {
    std::fprintf(
        stderr, "usage: bench_exponent [--no-base] [--quick] [--offset=N] [--chunk=N] [--repeats=N] BASE TARGET ...\n");
    return 2;
  }
  for (std::size_t p = 0; p < paths.size(); p += 2) {
    const ByteVector base = ReadFile(paths[p]);
    const ByteVector target = ReadFile(paths[p + 1]);
    const std::vector<Tensor> tensors = FindTensors(paths[p + 1], target, offset);
    const std::vector<Chunk> chunks = MakeChunks(target, no_base ? ByteVector() : base, tensors, chunk_bytes);
    std::size_t raw_bytes = 0;
    Bounds bounds;
    for (const Tensor& tensor : tensors) {
      raw_bytes += tensor.size;
      if (no_base) continue;
      const ElementForm form = FormOf(tensor.element);
      const std::byte* t = target.data() + tensor.offset;
      const std::byte* b = base.data() + tensor.offset;
      const Bounds one = form.width == 2 ? BoundsOf<std::uint16_t>(t, b, tensor.size / 2, form)
                                         : BoundsOf<std::uint32_t>(t, b, tensor.size / 4, form);
      bounds.class_bits += one.class_bits;
      bounds.full_bits += one.full_bits;
    }
    std::printf("%s -> %s: %zu bytes in %zu chunks\n", paths[p].c_str(), paths[p + 1].c_str(), raw_bytes,
                chunks.size());
    const Row exponent = RunExponent(chunks, repeats);
    if (!no_base) {
      const double raw_bits = 8.0 * static_cast<double>(raw_bytes);
      const double size_bits = 8.0 * static_cast<double>(exponent.encoded);
      std::printf("  bounds: class %.5f (size / bound %.4f)", bounds.class_bits / raw_bits,
                  size_bits / bounds.class_bits);
      if (bounds.full_bits > 0) {
        std::printf(", full %.5f (size / bound %.4f)", bounds.full_bits / raw_bits, size_bits / bounds.full_bits);
      }
      std::printf("\n");
    }
    PrintRow(exponent, raw_bytes);
    if (quick) continue;
    for (int level : {1, 3, 19}) PrintRow(RunZstd(chunks, level, level > 3 ? 1 : repeats), raw_bytes);
  }
  return 0;
}
