// SPDX-License-Identifier: Apache-2.0
//
// bench_lmc BASE TARGET [--width W] [--skip N] [--rounds R] [--chunk BYTES]
//
// Encodes TARGET against BASE with lmc and its ablations, next to zstd on the same planes, on one core. Settings take
// turns within each round; times are CPU times, medians over the rounds. A safetensors header is stripped from both
// files, or
// --skip bytes. zstd is given ready planes: its times leave out delta and grouping, lmc's contain them.
#include <time.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/serial.h"
#include "codec/byte_group.h"
#include "codec/cpu.h"
#include "codec/lmc.h"

namespace stepfs::codec {
namespace {

struct Arguments {
  std::string base;
  std::string target;
  std::size_t width = 2;
  std::size_t skip = 0;
  int rounds = 9;
  std::size_t chunk = 512 * 1024;
};

// One coder over one chunk. Both return the number of bytes written.
struct Setting {
  std::string name;
  bool takes_planes;
  std::function<std::size_t(Bytes target, Bytes base, MutableBytes out)> encode;
  std::function<std::size_t(Bytes encoded, Bytes base, MutableBytes target)> decode;
};

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "bench_lmc: %s\n", message.c_str());
  std::exit(1);
}

ElementType OpaqueOf(std::size_t width) {
  switch (width) {
    case 1:
      return ElementType::kUint8;
    case 2:
      return ElementType::kOpaque16;
    case 4:
      return ElementType::kOpaque32;
    case 8:
      return ElementType::kOpaque64;
    default:
      Die("--width must be 1, 2, 4 or 8");
  }
}

std::string ReadFile(const std::string& path, const Arguments& arguments) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::size_t skip = arguments.skip;
  if (path.ends_with(".safetensors") && text.size() >= 8) {
    skip = 8 + static_cast<std::size_t>(LoadLittle<std::uint64_t>(AsBytes(text).data()));
  }
  if (skip >= text.size()) Die(path + ": nothing to read");
  text.erase(0, skip);
  text.resize(text.size() / arguments.width * arguments.width);
  return text;
}

Setting Lmc(std::string name, const LmcOptions& options, ElementType element) {
  std::shared_ptr<const ChunkCodec> codec = NewLmcCodec(options);
  return {std::move(name), false,
          [=](Bytes target, Bytes base, MutableBytes out) {
            return codec->Encode(element, target, {base, {}}, out).value();
          },
          [=](Bytes encoded, Bytes base, MutableBytes target) {
            const Status status = codec->Decode(element, encoded, {base, {}}, target);
            if (!status.ok()) Die(status.ToString());
            return target.size();
          }};
}

Setting Zstd(int level) {
  std::shared_ptr<ZSTD_CCtx> compress(ZSTD_createCCtx(), ZSTD_freeCCtx);
  std::shared_ptr<ZSTD_DCtx> decompress(ZSTD_createDCtx(), ZSTD_freeDCtx);
  return {"zstd -" + std::to_string(level) + " on planes", true,
          [=](Bytes target, Bytes, MutableBytes out) {
            return ZSTD_compressCCtx(compress.get(), out.data(), out.size(), target.data(), target.size(), level);
          },
          [=](Bytes encoded, Bytes, MutableBytes target) {
            return ZSTD_decompressDCtx(decompress.get(), target.data(), target.size(), encoded.data(), encoded.size());
          }};
}

// The order-0 entropy of each 64 KiB of each plane of each chunk, in bytes.
double EntropyBound(Bytes planes, std::size_t plane_bytes) {
  double bits = 0;
  for (std::size_t plane = 0; plane < planes.size(); plane += plane_bytes) {
    for (std::size_t at = 0; at < plane_bytes; at += 65536) {
      const Bytes block = planes.subspan(plane + at, std::min<std::size_t>(65536, plane_bytes - at));
      std::array<std::size_t, 256> counts = {};
      for (std::byte b : block) ++counts[std::to_integer<std::size_t>(b)];
      for (std::size_t count : counts) {
        if (count != 0) {
          bits -=
              static_cast<double>(count) * std::log2(static_cast<double>(count) / static_cast<double>(block.size()));
        }
      }
    }
  }
  return bits / 8;
}

// Of this thread: other programs on the machine disturb it less than the time of day.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Run(const Arguments& arguments) {
  const ElementType element = OpaqueOf(arguments.width);
  const std::string base = ReadFile(arguments.base, arguments);
  const std::string target = ReadFile(arguments.target, arguments);
  if (base.size() != target.size()) Die("the files differ in size");
  const auto log2_width = static_cast<std::size_t>(std::countr_zero(arguments.width));
  const std::size_t chunk_bytes = arguments.chunk / arguments.width * arguments.width;

  std::string planes(target.size(), '\0');
  double bound = 0;
  for (std::size_t at = 0; at < target.size(); at += chunk_bytes) {
    const std::size_t bytes = std::min(chunk_bytes, target.size() - at);
    const std::size_t elements = bytes / arguments.width;
    std::uint8_t* rows[kMaxWidth];
    for (std::size_t p = 0; p < arguments.width; ++p) {
      rows[p] = reinterpret_cast<std::uint8_t*>(planes.data()) + at + p * elements;
    }
    ActiveByteGroupKernels().group[static_cast<std::size_t>(DeltaKind::kXor)][log2_width](
        reinterpret_cast<const std::uint8_t*>(target.data()) + at,
        reinterpret_cast<const std::uint8_t*>(base.data()) + at, elements, rows);
    bound += EntropyBound(AsBytes(planes).subspan(at, bytes), elements);
  }

  std::vector<Setting> settings = {
      Lmc("lmc", {}, element),
      Lmc("lmc, subtract", {.subtract = true}, element),
      Lmc("lmc, no grouping", {.group = false}, element),
      Lmc("lmc, no run-length", {.run_length = false}, element),
      Lmc("lmc, 16 KiB blocks", {.block_bytes = 16384}, element),
      Lmc("lmc, 4 KiB blocks", {.block_bytes = 4096}, element),
      Zstd(1),
      Zstd(3),
  };
  std::vector<std::vector<double>> encode_seconds(settings.size());
  std::vector<std::vector<double>> decode_seconds(settings.size());
  std::vector<std::size_t> encoded_bytes(settings.size());
  ByteVector encoded(target.size() + target.size() / 8 + 65536);
  ByteVector decoded(target.size());
  for (int round = 0; round <= arguments.rounds; ++round) {  // Round 0 warms up.
    for (std::size_t s = 0; s < settings.size(); ++s) {
      const Bytes source = AsBytes(settings[s].takes_planes ? planes : target);
      std::vector<std::size_t> ends;
      std::size_t end = 0;
      const auto start = CpuSeconds();
      for (std::size_t at = 0; at < target.size(); at += chunk_bytes) {
        const std::size_t bytes = std::min(chunk_bytes, target.size() - at);
        end += settings[s].encode(source.subspan(at, bytes), AsBytes(base).subspan(at, bytes),
                                  MutableBytes(encoded).subspan(end));
        ends.push_back(end);
      }
      const auto middle = CpuSeconds();
      std::size_t begin = 0;
      for (std::size_t i = 0; i < ends.size(); ++i) {
        const std::size_t at = i * chunk_bytes;
        const std::size_t bytes = std::min(chunk_bytes, target.size() - at);
        settings[s].decode(Bytes(encoded).subspan(begin, ends[i] - begin), AsBytes(base).subspan(at, bytes),
                           MutableBytes(decoded).subspan(at, bytes));
        begin = ends[i];
      }
      const auto stop = CpuSeconds();
      if (std::memcmp(decoded.data(), source.data(), source.size()) != 0) Die(settings[s].name + ": wrong bytes");
      encoded_bytes[s] = end;
      if (round == 0) continue;
      encode_seconds[s].push_back(middle - start);
      decode_seconds[s].push_back(stop - middle);
    }
  }

  const auto total = static_cast<double>(target.size());
  std::printf("%s <- %s: %zu bytes, width %zu, kernels %s\n", arguments.target.c_str(), arguments.base.c_str(),
              target.size(), arguments.width, std::string(Name(ActiveCpuLevel())).c_str());
  std::printf("block entropy of the XOR planes: %.0f bytes, %.4f of the target\n", bound, bound / total);
  std::printf("%-22s %10s %8s %9s %11s %11s\n", "setting", "bytes", "ratio", "/ bound", "enc MB/s", "dec MB/s");
  for (std::size_t s = 0; s < settings.size(); ++s) {
    const auto bytes = static_cast<double>(encoded_bytes[s]);
    std::printf("%-22s %10zu %8.4f %9.4f %11.0f %11.0f\n", settings[s].name.c_str(), encoded_bytes[s], bytes / total,
                bytes / bound, total / Median(encode_seconds[s]) / 1e6, total / Median(decode_seconds[s]) / 1e6);
  }
  return 0;
}

}  // namespace
}  // namespace stepfs::codec

int main(int argc, char** argv) {
  stepfs::codec::Arguments arguments;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      files.push_back(word);
      continue;
    }
    if (i + 1 == argc) stepfs::codec::Die(word + " needs a value");
    const std::size_t value = std::strtoull(argv[++i], nullptr, 10);
    if (word == "--width") {
      arguments.width = value;
    } else if (word == "--skip") {
      arguments.skip = value;
    } else if (word == "--rounds" && value > 0) {
      arguments.rounds = static_cast<int>(value);
    } else if (word == "--chunk" && value >= 8) {
      arguments.chunk = value;
    } else {
      stepfs::codec::Die("unknown option or bad value: " + word);
    }
  }
  if (files.size() != 2)
    stepfs::codec::Die("usage: bench_lmc BASE TARGET [--width W] [--skip N] [--rounds R] [--chunk BYTES]");
  arguments.base = files[0];
  arguments.target = files[1];
  return stepfs::codec::Run(arguments);
}
