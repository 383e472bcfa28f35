// SPDX-License-Identifier: Apache-2.0
//
// Frames kept as files: golden/v1 must decode for ever, golden/bad must be refused with the kind named here.
//
// STEPFS_WRITE_GOLDEN=1 writes those of golden/v1 that do not exist yet, and never replaces one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/frame_fixtures.h"

namespace stepfs::codec {
namespace {

using testing::AppendRandom;
using testing::AppendText;
using testing::DecodeFile;
using testing::EncodeFile;
using testing::File;
using testing::Nudged;
using testing::Random;
using testing::RandomWeights;

std::string Path(const std::string& name) { return std::string(STEPFS_TEST_SOURCE_DIR) + "/golden/" + name; }

ByteVector ReadFile(const std::string& name) {
  std::ifstream in(Path(name), std::ios::binary);
  EXPECT_TRUE(in.good()) << Path(name);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Bytes bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

void WriteIfAbsent(const std::string& name, Bytes bytes) {
  if (std::filesystem::exists(Path(name))) return;
  std::ofstream(Path(name), std::ios::binary) << AsText(bytes);
}

// The frame that docs/format.md takes apart: one raw, one equal and one fill chunk.
void WriteSmall() {
  File base;
  File target;
  const std::string_view base_head = "the older header";
  const std::string_view target_head = "stepfs!\n";
  base.bytes.assign(AsBytes(base_head).begin(), AsBytes(base_head).end());
  target.bytes.assign(AsBytes(target_head).begin(), AsBytes(target_head).end());
  ByteVector ramp(256);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<std::byte>(i);
  base.AddTensor("ramp", ElementType::kUint8, ramp);
  target.AddTensor("ramp", ElementType::kUint8, ramp);
  target.AddTensor("zeros", ElementType::kFloat32, ByteVector(256));
  WriteIfAbsent("v1/frame/small.base", base.bytes);
  WriteIfAbsent("v1/frame/small.target", target.bytes);
  WriteIfAbsent("v1/frame/small.frame", EncodeFile(target, {&base}, {})->bytes);
}

// Headers of another length, equal, changed, grown and new tensors, every element type, and zeros.
void WriteModel() {
  Random random(11);
  File base;
  File target;
  AppendText(random, 900, base.bytes);
  AppendText(random, 500, target.bytes);
  target.bytes.insert(target.bytes.end(), base.bytes.begin(), base.bytes.end());
  for (std::uint8_t number = 0; number < kElementTypeCount; ++number) {
    const auto element = static_cast<ElementType>(number);
    const std::string name = std::to_string(number) + ".weight";
    const ByteVector weights = RandomWeights(random, 500);
    base.AddTensor(name, element, weights);
    target.AddTensor(name, element, number % 4 == 0 ? weights : Nudged(random, weights, 0.2));
    AppendText(random, 60, target.bytes);
    base.bytes.insert(base.bytes.end(), target.bytes.end() - 60, target.bytes.end());
  }
  const ByteVector rows = RandomWeights(random, 2000);
  base.AddTensor("embedding", ElementType::kFloat32, rows, {200, 10});
  ByteVector grown = Nudged(random, rows, 0.3);
  AppendRandom(random, 400, grown);
  target.AddTensor("embedding", ElementType::kFloat32, grown, {210, 10});
  target.AddTensor("zeros", ElementType::kFloat32, ByteVector(6000));
  WriteIfAbsent("v1/frame/model.base", base.bytes);
  WriteIfAbsent("v1/frame/model.target", target.bytes);
  for (const CodecChoice choice : {CodecChoice::kDefault, CodecChoice::kLmc, CodecChoice::kZstd, CodecChoice::kRaw}) {
    EncodeOptions options;
    options.codec = choice;
    options.chunk_bytes = 4096;
    options.window_bytes = 30000;
    options.sections = {{64, "a section of the caller"}};
    const std::string name = "v1/frame/model-" + std::string(Name(choice));
    WriteIfAbsent(name + ".frame", EncodeFile(target, {&base}, options)->bytes);
    if (choice != CodecChoice::kRaw) WriteIfAbsent(name + "-anchor.frame", EncodeFile(target, {}, options)->bytes);
  }
}

void WriteEmpty() {
  WriteIfAbsent("v1/frame/empty.target", {});
  WriteIfAbsent("v1/frame/empty.frame", EncodeFile(File(), {}, {})->bytes);
}

TEST(FrameGoldenTest, FramesOfVersion1Decode) {
  if (std::getenv("STEPFS_WRITE_GOLDEN") != nullptr) {
    WriteSmall();
    WriteModel();
    WriteEmpty();
  }
  int frames = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path("v1/frame"))) {
    if (entry.path().extension() != ".frame") continue;
    // model-zstd-anchor.frame holds model.target; its source, if any, is model.base.
    const std::string stem = entry.path().stem().string();
    const std::string content = "v1/frame/" + stem.substr(0, stem.find('-'));
    File base;
    if (std::filesystem::exists(Path(content + ".base"))) base.bytes = ReadFile(content + ".base");
    const auto decoded = DecodeFile(ReadFile("v1/frame/" + stem + ".frame"), {&base});
    ASSERT_TRUE(decoded.ok()) << stem << ": " << decoded.status().ToString();
    EXPECT_EQ(*decoded, ReadFile(content + ".target")) << stem;
    ++frames;
  }
  EXPECT_GE(frames, 5);
}

TEST(FrameGoldenTest, BadFramesAreRefused) {
  const std::pair<const char*, StatusKind> bad[] = {
      {"truncated", StatusKind::kCorruption},        {"not-a-frame", StatusKind::kCorruption},
      {"newer-major", StatusKind::kUnsupported},     {"required-feature", StatusKind::kUnsupported},
      {"unknown-section", StatusKind::kUnsupported}, {"flipped-stored-byte", StatusKind::kCorruption},
      {"flipped-metadata", StatusKind::kCorruption}, {"piece-overlap", StatusKind::kCorruption},
      {"base-outside", StatusKind::kCorruption},     {"unknown-codec", StatusKind::kUnsupported},
  };
  File base;
  base.bytes = ReadFile("v1/frame/small.base");
  for (const auto& [name, kind] : bad) {
    const auto decoded = DecodeFile(ReadFile(std::string("bad/frame/") + name + ".frame"), {&base});
    ASSERT_FALSE(decoded.ok()) << name;
    EXPECT_EQ(decoded.status().kind(), kind) << name << ": " << decoded.status().ToString();
  }
}

}  // namespace
}  // namespace stepfs::codec
