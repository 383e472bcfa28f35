// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/layout/dtype.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kMinSample = 512;
constexpr std::uint64_t kWindowBytes = 8 * 1024;
constexpr std::uint64_t kBlockBytes = 64 * 1024;
constexpr std::uint64_t kMaxWindows = 1024;
constexpr std::uint64_t kManyBlocks = 4;

using Histogram = std::array<std::uint32_t, 256>;

// Bits a byte, with the Miller-Madow correction for small samples.
double Entropy(const Histogram& histogram) {
  double total = 0;
  double sum = 0;
  int used = 0;
  for (std::uint32_t count : histogram) {
    if (count == 0) continue;
    total += count;
    sum += count * std::log2(count);
    ++used;
  }
  if (total == 0) return 0;
  return std::log2(total) - sum / total + (used - 1) / (2 * total * std::log(2.0));
}

struct Profile {
  std::array<Histogram, kLanes> histogram{};
  std::array<double, kLanes> entropy{};

  explicit Profile(Bytes sample) {
    for (std::size_t i = 0; i < sample.size(); ++i) ++histogram[i % kLanes][std::to_integer<std::uint8_t>(sample[i])];
    for (std::size_t lane = 0; lane < kLanes; ++lane) entropy[lane] = Entropy(histogram[lane]);
  }

  // The mean entropy of the lanes that hold byte `place` of an element of `width` bytes that begins at `phase`.
  double At(std::size_t place, std::size_t width, std::size_t phase) const {
    double sum = 0;
    for (std::size_t lane = (phase + place) % width; lane < kLanes; lane += width) sum += entropy[lane];
    return sum * static_cast<double>(width) / kLanes;
  }

  // How far the lanes are from having this period: the largest difference to the mean of the lanes it makes alike.
  double Misfit(std::size_t width) const {
    double worst = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      worst = std::max(worst, std::abs(entropy[lane] - At(lane % width, width, 0)));
    }
    return worst;
  }

  // Share of the bytes at one place for which `holds`.
  template <typename Predicate>
  double Share(std::size_t place, std::size_t width, std::size_t phase, Predicate holds) const {
    double hits = 0;
    double total = 0;
    for (std::size_t lane = (phase + place) % width; lane < kLanes; lane += width) {
      for (int value = 0; value < 256; ++value) {
        total += histogram[lane][static_cast<std::size_t>(value)];
        if (holds(value)) hits += histogram[lane][static_cast<std::size_t>(value)];
      }
    }
    return total == 0 ? 0 : hits / total;
  }
};

bool LooksLikeText(Bytes sample) {
  const auto printable = std::count_if(sample.begin(), sample.end(), [](std::byte b) {
    const auto c = std::to_integer<unsigned char>(b);
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
  return static_cast<double>(printable) > 0.9 * static_cast<double>(sample.size());
}

// Where an element begins: the entropy rises most from its last byte (sign and exponent, or zeros) to its first.
std::size_t PhaseOf(const Profile& profile, std::size_t width) {
  std::size_t best = 0;
  double best_rise = -1;
  for (std::size_t phase = 0; phase < width; ++phase) {
    const double rise = profile.At(0, width, phase) - profile.At(width - 1, width, phase);
    if (rise > best_rise) {
      best_rise = rise;
      best = phase;
    }
  }
  return best;
}

// A float of this width: a last byte of sign and exponent as weights, moments and gradients have it, and mantissa bytes
// without pattern. fp16 is left opaque: its last byte has mantissa bits too.
ElementType TypeOf(const Profile& profile, std::size_t width, std::size_t phase) {
  const auto exponent_share = [&](int low, int high) {
    return profile.Share(width - 1, width, phase, [=](int value) {
      const int magnitude = value & 0x7f;
      return (magnitude >= low && magnitude <= high) || magnitude == 0;
    });
  };
  const double zeros = profile.Share(width - 1, width, phase, [](int value) { return (value & 0x7f) == 0; });
  const double top = profile.At(width - 1, width, phase);
  const double mantissa = profile.At(0, width, phase);
  const bool rough = mantissa > top + 1 && zeros < 0.7;
  switch (width) {
    case 2:
      return rough && top < 4.4 && exponent_share(0x24, 0x45) > 0.95 ? ElementType::kBfloat16 : ElementType::kOpaque16;
    case 4:
      return rough && exponent_share(0x18, 0x47) > 0.9 ? ElementType::kFloat32 : ElementType::kOpaque32;
    default:
      return rough && exponent_share(0x38, 0x42) > 0.95 ? ElementType::kFloat64 : ElementType::kOpaque64;
  }
}

bool IsOpaque(ElementType element) {
  return element == ElementType::kOpaque16 || element == ElementType::kOpaque32 || element == ElementType::kOpaque64;
}

// Numbers have bytes that are nearly random beside bytes that are far from it. Tables of records and machine code have
// a period too, but not such bytes: they are better off with a dictionary coder.
bool LooksNumeric(const Profile& profile, double samples) {
  const auto [low, high] = std::minmax_element(profile.entropy.begin(), profile.entropy.end());
  return *high > 0.8 * std::min(8.0, std::log2(samples)) && *high - *low > 2;
}

}  // namespace

std::optional<ElementGuess> GuessElement(Bytes sample) {
  if (sample.size() < kMinSample || LooksLikeText(sample)) return std::nullopt;
  const Profile profile(sample);
  // What chance does to the entropy of a lane: a fifth of a bit at 64 samples a lane, a fortieth at 1024.
  const double samples = static_cast<double>(sample.size()) / kLanes;
  const double tolerance = 0.12 + 8 / samples;
  const double needed = 0.5 + 40 / samples;
  // The narrowest width whose period the lanes have, if a narrower one clearly does not do.
  for (std::size_t width : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    const bool fits = width == kLanes || profile.Misfit(width) < std::max(tolerance, 0.15 * profile.Misfit(1));
    if (!fits) continue;
    if (width == 1 || profile.Misfit(width / 2) < needed / 2 || profile.Misfit(1) < needed / 2) return std::nullopt;
    const std::size_t phase = PhaseOf(profile, width);
    const ElementType element = TypeOf(profile, width, phase);
    if (IsOpaque(element) && !LooksNumeric(profile, samples)) return std::nullopt;
    return ElementGuess{element, phase};
  }
  return std::nullopt;
}

namespace {

// A stretch of windows that showed the same elements; the phase is that of the file.
struct Run {
  std::uint64_t begin;
  std::uint64_t end;
  ElementGuess guess;
};

Tensor ToTensor(const Run& run) {
  const std::uint64_t width = Width(run.guess.element);
  const std::uint64_t begin = run.begin + (run.guess.phase + width - run.begin % width) % width;
  const std::uint64_t count = run.end > begin ? (run.end - begin) / width : 0;
  return MakeTensor({}, {run.guess.element, std::string(Name(run.guess.element)), width}, {count}, begin,
                    count * width);
}

bool AllEqual(Bytes sample) {
  return std::adjacent_find(sample.begin(), sample.end(), std::not_equal_to<>()) == sample.end();
}

}  // namespace

Result<std::vector<Tensor>> GuessTensors(const ByteSource& source, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t block = std::max(kBlockBytes, (end - begin) / kMaxWindows + 1);
  std::vector<Run> runs;
  bool open = false;  // The last run may go on.
  ByteVector buffer;
  for (std::uint64_t at = begin; at < end; at += block) {
    const std::uint64_t block_end = at + std::min(block, end - at);
    buffer.resize(static_cast<std::size_t>(std::min(kWindowBytes, block_end - at)));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(at, buffer));
    if (open && (AllEqual(buffer) || buffer.size() < kMinSample)) {  // Says nothing: it goes with what was before.
      runs.back().end = block_end;
      continue;
    }
    auto guess = GuessElement(buffer);
    if (guess) guess->phase = (guess->phase + at) % Width(guess->element);
    if (!guess) {
      open = false;
    } else if (open && runs.back().guess == *guess) {
      runs.back().end = block_end;
    } else {
      runs.push_back({at, block_end, *guess});
      open = true;
    }
  }
  const bool large = (end - begin) / block >= kManyBlocks;
  std::vector<Tensor> tensors;
  for (const Run& run : runs) {
    // One window among many that shows a width, but nothing one knows, is chance.
    if (large && IsOpaque(run.guess.element) && run.end - run.begin <= block) continue;
    Tensor tensor = ToTensor(run);
    if (tensor.extents[0].nbytes > 0) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace stepfs::codec
