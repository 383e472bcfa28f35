// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/serial.h"
#include "codec/exponent_coder.h"
#include "codec/fixed_log2.h"

namespace stepfs::codec {
namespace {

// How one plane is stored. Persisted: never renumbered.
enum class PlaneMethod : std::uint8_t {
  kRaw = 0,
  kFill = 1,     // One byte for all.
  kCoded = 2,    // Entropy-coded in one context.
  kNonZero = 3,  // Raw bytes where the top plane is not zero, zeroes elsewhere.
};

using PlaneCounts = std::array<std::uint32_t, kSymbols>;

// The element with what varies least moved to its top byte: the sign of a float goes below its mantissa, and that of an
// integer is folded in.
template <typename U>
U Rotate(ElementKind kind, U value) {
  if (kind == ElementKind::kFloat) return std::rotl(value, 1);
  if (kind == ElementKind::kSigned) {
    return static_cast<U>(static_cast<U>(value << 1) ^ static_cast<U>(U{0} - (value >> (8 * sizeof(U) - 1))));
  }
  return value;
}
template <typename U>
U Unrotate(ElementKind kind, U value) {
  if (kind == ElementKind::kFloat) return std::rotr(value, 1);
  if (kind == ElementKind::kSigned) return static_cast<U>((value >> 1) ^ static_cast<U>(U{0} - (value & 1)));
  return value;
}

template <typename Function>
void WithWidth(std::size_t width, Function function) {
  switch (width) {
    case 1:
      return function(std::uint8_t{});
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    default:
      return function(std::uint64_t{});
  }
}

// Byte `plane` (0 is the lowest) of elements [first, first + count), rotated.
void ExtractPlane(const ElementChunk& chunk, std::size_t plane, std::size_t first, std::size_t count,
                  std::uint8_t* out) {
  WithWidth(chunk.form.width, [&]<typename U>(U) {
    const std::byte* from = chunk.target + first * sizeof(U);
    const ElementKind kind = chunk.form.kind;
    for (std::size_t i = 0; i < count; ++i) {
      U value;
      std::memcpy(&value, from + i * sizeof(U), sizeof(U));
      out[i] = static_cast<std::uint8_t>(Rotate(kind, value) >> (8 * plane));
    }
  });
}

// The planes, one after the other in `planes`, joined to elements.
void JoinPlanes(ElementForm form, const std::uint8_t* planes, std::size_t count, std::byte* target) {
  WithWidth(form.width, [&]<typename U>(U) {
    for (std::size_t i = 0; i < count; ++i) {
      U value = 0;
      for (std::size_t p = 0; p < sizeof(U); ++p) {
        value = static_cast<U>(value | static_cast<U>(static_cast<U>(planes[p * count + i]) << (8 * p)));
      }
      value = Unrotate(form.kind, value);
      std::memcpy(target + i * sizeof(U), &value, sizeof(U));
    }
  });
}

PlaneCounts CountBytes(const std::uint8_t* bytes, std::size_t count) {
  std::array<PlaneCounts, 4> counts{};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) ++counts[j][bytes[i + j]];
  }
  for (; i < count; ++i) ++counts[0][bytes[i]];
  for (std::size_t s = 0; s < kSymbols; ++s) counts[0][s] += counts[1][s] + counts[2][s] + counts[3][s];
  return counts[0];
}

std::uint64_t EntropyBits(const PlaneCounts& counts) {
  std::uint64_t sum = 0;
  std::uint64_t used = 0;
  std::uint32_t total = 0;
  for (std::uint32_t count : counts) {
    if (count == 0) continue;
    total += count;
    sum += NLog2N(count);
    ++used;
  }
  return ((NLog2N(total) - sum) >> kLogFractionBits) + 5 * used;
}

// A plane's bytes appended to `out`, by whatever method is smallest. The top plane is given for kNonZero, else null.
class PlaneEncoder {
 public:
  PlaneEncoder(ExponentScratch& scratch, MutableBytes out) : scratch_(scratch), out_(out) {}

  // False when it does not fit.
  bool Append(const std::uint8_t* plane, std::size_t count, const std::uint8_t* top, std::size_t top_non_zero) {
    const PlaneCounts counts = CountBytes(plane, count);
    if (counts[plane[0]] == count) {
      const std::byte body[2] = {static_cast<std::byte>(PlaneMethod::kFill), static_cast<std::byte>(plane[0])};
      return AppendBytes(body);
    }
    const std::uint64_t coded_bits = EntropyBits(counts);
    const bool zero_with_top = top != nullptr && top_non_zero < count && ZeroWhereTopIs(plane, top, count);
    const std::uint64_t raw_bits = 8 * std::uint64_t{zero_with_top ? top_non_zero : count};
    if (coded_bits + raw_bits / 256 < raw_bits) {
      const std::size_t before = used_;
      if (AppendCoded(plane, count, counts, coded_bits) && 8 * (used_ - before) < raw_bits) return true;
      used_ = before;
    }
    return zero_with_top ? AppendNonZero(plane, count, top, top_non_zero) : AppendRaw(plane, count);
  }

  std::size_t used() const { return used_; }

 private:
  static bool ZeroWhereTopIs(const std::uint8_t* plane, const std::uint8_t* top, std::size_t count) {
    std::uint8_t bad = 0;
    for (std::size_t i = 0; i < count; ++i) bad = static_cast<std::uint8_t>(bad | (top[i] == 0 ? plane[i] : 0));
    return bad == 0;
  }
  bool AppendBytes(Bytes bytes) {
    if (bytes.size() > out_.size() - used_) return false;
    std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ += bytes.size();
    return true;
  }
  bool AppendMethod(PlaneMethod method) {
    const std::byte byte{static_cast<std::uint8_t>(method)};
    return AppendBytes({&byte, 1});
  }
  bool AppendRaw(const std::uint8_t* plane, std::size_t count) {
    return AppendMethod(PlaneMethod::kRaw) && AppendBytes(std::as_bytes(std::span(plane, count)));
  }
  bool AppendNonZero(const std::uint8_t* plane, std::size_t count, const std::uint8_t* top, std::size_t non_zero) {
    if (!AppendMethod(PlaneMethod::kNonZero) || non_zero > out_.size() - used_) return false;
    for (std::size_t i = 0; i < count; ++i) {
      if (top[i] != 0) out_[used_++] = static_cast<std::byte>(plane[i]);
    }
    return true;
  }
  bool AppendCoded(const std::uint8_t* plane, std::size_t count, const PlaneCounts& counts, std::uint64_t coded_bits) {
    const unsigned table_log = count < 4096 ? 10 : 12;
    const unsigned lane_code = LaneCodeFor(coded_bits, count);
    const std::size_t lanes = kLaneCounts[lane_code];
    AnsFrequencies frequencies;
    NormalizeCounts(counts, table_log, frequencies);
    AnsEncodeEntry* table = Reserve(scratch_.encode_table, kAnsSymbols);
    BuildAnsEncodeTable(frequencies, table_log, std::span<AnsEncodeEntry, kAnsSymbols>(table, kAnsSymbols));
    const std::size_t stream_bytes = 2 * count + 4 * lanes + kAnsEncodeSlack;
    std::uint8_t* end = Reserve(scratch_.stream, stream_bytes) + stream_bytes;
    const std::uint8_t* stream = AnsEncodeStream(
        {.table = table, .table_log = table_log, .contexts = nullptr, .symbols = plane, .count = count, .lanes = lanes},
        end);
    std::byte head[kMaxModelBytes + 32];
    head[0] = std::byte{static_cast<std::uint8_t>(PlaneMethod::kCoded)};
    head[1] = static_cast<std::byte>(lane_code | (table_log - kAnsMinTableLog) << 2);
    BitWriter bits(head + 2);
    WriteFrequencies(frequencies, table_log, bits);
    ByteWriter size;
    size.Varint(static_cast<std::uint64_t>(end - stream));
    return AppendBytes({head, 2 + bits.Finish()}) && AppendBytes(AsBytes(size.bytes())) &&
           AppendBytes(std::as_bytes(std::span(stream, end)));
  }

  ExponentScratch& scratch_;
  MutableBytes out_;
  std::size_t used_ = 0;
};

bool DecodeCoded(ByteReader& in, Bytes rest, std::uint8_t* plane, std::size_t count, ExponentScratch& scratch,
                 std::size_t* consumed) {
  const auto parameters = in.Fixed<std::uint8_t>();
  const unsigned lane_code = parameters & 3;
  if (!in.ok() || lane_code > 2 || parameters >= 16) return false;
  const unsigned table_log = kAnsMinTableLog + (parameters >> 2);
  BitReader bits(rest.subspan(1));
  AnsFrequencies frequencies;
  if (!ReadFrequencies(bits, table_log, kSymbols - 1, frequencies)) return false;
  ByteReader fields(rest.subspan(1 + bits.BytesUsed()));
  const Bytes stream = fields.Raw(fields.Varint());
  if (!fields.ok()) return false;
  *consumed = rest.size() - fields.remaining();
  AnsDecodeEntry* table = Reserve(scratch.decode_table, std::size_t{1} << table_log);
  BuildAnsDecodeTable(frequencies, table_log, {table, std::size_t{1} << table_log});
  AnsStreamDecoder decoder;
  return decoder.Start({reinterpret_cast<const std::uint8_t*>(stream.data()), stream.size()}, kLaneCounts[lane_code]) &&
         decoder.Decode({.table = table,
                         .table_log = table_log,
                         .contexts = nullptr,
                         .symbols = plane,
                         .count = count,
                         .lanes = 0}) &&
         decoder.AtEnd();
}

bool DecodeNonZero(Bytes* rest, const std::uint8_t* top, std::uint8_t* plane, std::size_t count) {
  const std::byte* from = rest->data();
  const std::byte* end = from + rest->size();
  for (std::size_t i = 0; i < count; ++i) {
    plane[i] = 0;
    if (top[i] == 0) continue;
    if (from == end) return false;
    plane[i] = std::to_integer<std::uint8_t>(*from++);
  }
  *rest = rest->subspan(static_cast<std::size_t>(from - rest->data()));
  return true;
}

bool DecodePlane(Bytes* rest, const std::uint8_t* top, std::uint8_t* plane, std::size_t count,
                 ExponentScratch& scratch) {
  if (rest->empty()) return false;
  const auto method = static_cast<PlaneMethod>(rest->front());
  *rest = rest->subspan(1);
  switch (method) {
    case PlaneMethod::kRaw:
      if (rest->size() < count) return false;
      std::memcpy(plane, rest->data(), count);
      *rest = rest->subspan(count);
      return true;
    case PlaneMethod::kFill:
      if (rest->empty()) return false;
      std::memset(plane, std::to_integer<int>(rest->front()), count);
      *rest = rest->subspan(1);
      return true;
    case PlaneMethod::kCoded: {
      ByteReader in(*rest);
      std::size_t consumed = 0;
      if (!DecodeCoded(in, *rest, plane, count, scratch, &consumed)) return false;
      *rest = rest->subspan(consumed);
      return true;
    }
    case PlaneMethod::kNonZero:
      return top != nullptr && DecodeNonZero(rest, top, plane, count);
  }
  return false;
}

}  // namespace

std::uint64_t EstimatePlanesBits(const ElementChunk& chunk, std::size_t sample, ExponentScratch& scratch) {
  if (chunk.count == 0) return 0;
  constexpr std::size_t kRun = 64;
  std::uint8_t* bytes = Reserve(scratch.stream, sample + kRun);
  const std::size_t step = std::max(kRun, chunk.count / std::max<std::size_t>(sample / kRun, 1));
  std::uint64_t bits = 0;
  for (std::size_t plane = 0; plane < chunk.form.width; ++plane) {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < chunk.count && taken < sample; i += step) {
      const std::size_t n = std::min(kRun, chunk.count - i);
      ExtractPlane(chunk, plane, i, n, bytes + taken);
      taken += n;
    }
    bits += std::min(EntropyBits(CountBytes(bytes, taken)), 8 * std::uint64_t{taken}) * chunk.count / taken;
  }
  return bits;
}

MaybeSize EncodePlanes(const ElementChunk& chunk, ExponentScratch& scratch, MutableBytes out) {
  std::uint8_t* top = Reserve(scratch.symbols, chunk.count);
  std::uint8_t* plane = Reserve(scratch.contexts, chunk.count);
  PlaneEncoder encoder(scratch, out);
  const std::size_t width = chunk.form.width;
  ExtractPlane(chunk, width - 1, 0, chunk.count, top);
  if (!encoder.Append(top, chunk.count, nullptr, 0)) return std::nullopt;
  const auto non_zero = chunk.count - static_cast<std::size_t>(std::count(top, top + chunk.count, std::uint8_t{0}));
  for (std::size_t p = width - 1; p-- > 0;) {
    ExtractPlane(chunk, p, 0, chunk.count, plane);
    if (!encoder.Append(plane, chunk.count, top, non_zero)) return std::nullopt;
  }
  return encoder.used();
}

Status DecodePlanes(const ElementChunk& chunk, Bytes encoded, std::byte* target) {
  ExponentScratch& scratch = LocalScratch();
  const std::size_t width = chunk.form.width;
  std::uint8_t* planes = Reserve(scratch.symbols, width * chunk.count);
  std::uint8_t* top = planes + (width - 1) * chunk.count;
  if (!DecodePlane(&encoded, nullptr, top, chunk.count, scratch))
    return Status::Corruption("exponent: malformed plane");
  for (std::size_t p = width - 1; p-- > 0;) {
    if (!DecodePlane(&encoded, top, planes + p * chunk.count, chunk.count, scratch)) {
      return Status::Corruption("exponent: malformed plane");
    }
  }
  if (!encoded.empty()) return Status::Corruption("exponent: bytes behind the last plane");
  JoinPlanes(chunk.form, planes, chunk.count, target);
  return {};
}

}  // namespace stepfs::codec
