// SPDX-License-Identifier: Apache-2.0
#include "codec/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/frame_encoder.h"
#include "codec/zstd_codec.h"
#include "support/frame_fixtures.h"

namespace stepfs::codec {
namespace {

using testing::AppendRandom;
using testing::AppendText;
using testing::Below;
using testing::DecodeFile;
using testing::EncodeFile;
using testing::File;
using testing::Frame;
using testing::Nudged;
using testing::Random;
using testing::RandomWeights;
using testing::SourceOf;

// A model in a file of our own: a header, then tensors with a little header before each, as in a torch zip.
File MakeModel(Random& random, std::size_t header_bytes, int layers, std::size_t weights) {
  File file;
  AppendText(random, header_bytes, file.bytes);
  for (int layer = 0; layer < layers; ++layer) {
    AppendText(random, 100, file.bytes);
    const std::string prefix = "layers." + std::to_string(layer);
    file.AddTensor(prefix + ".weight", ElementType::kFloat32, RandomWeights(random, weights));
    AppendText(random, 90, file.bytes);
    file.AddTensor(prefix + ".bias", ElementType::kFloat32, RandomWeights(random, 256));
  }
  AppendText(random, 500, file.bytes);
  return file;
}

// The next save of `model`: `share` of the weights moved, another header of `header_bytes`, the rest alike.
File NextSave(Random& random, const File& model, std::size_t header_bytes, double share) {
  File file;
  AppendText(random, header_bytes, file.bytes);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < model.layout.tensors.size(); ++i) {
    const Tensor& tensor = model.layout.tensors[i];
    if (i > 0) {
      const Bytes between = Bytes(model.bytes).subspan(end, tensor.extents[0].offset - end);
      file.bytes.insert(file.bytes.end(), between.begin(), between.end());
    }
    file.AddTensor(tensor.name, tensor.element, Nudged(random, model.Of(i), share), tensor.shape);
    end = tensor.extents[0].offset + tensor.extents[0].nbytes;
  }
  const Bytes tail = Bytes(model.bytes).subspan(end);
  file.bytes.insert(file.bytes.end(), tail.begin(), tail.end());
  return file;
}

EncodeOptions SmallChunks(CodecChoice codec = CodecChoice::kDefault) {
  EncodeOptions options;
  options.codec = codec;
  options.chunk_bytes = 4096;
  options.window_bytes = 20000;
  options.threads = 1;
  return options;
}

class FrameTest : public ::testing::Test {
 protected:
  Frame Encode(const File& target, const std::vector<const File*>& sources = {}, const EncodeOptions& options = {}) {
    auto frame = EncodeFile(target, sources, options);
    EXPECT_TRUE(frame.ok()) << frame.status().ToString();
    return frame.ok() ? std::move(*frame) : Frame();
  }
  void ExpectRoundTrip(const File& target, const std::vector<const File*>& sources, const EncodeOptions& options) {
    const Frame frame = Encode(target, sources, options);
    const auto decoded = DecodeFile(frame.bytes, sources);
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    ASSERT_EQ(*decoded, target.bytes);
    EXPECT_EQ(frame.stats.digest, Hash128(target.bytes));
    EXPECT_EQ(frame.stats.encoded_bytes, frame.bytes.size());
    EXPECT_EQ(frame.stats.target_bytes, target.bytes.size());
  }

  Random random_{7};
};

TEST_F(FrameTest, RoundTripsTinyTargets) {
  for (std::size_t bytes = 0; bytes < 40; ++bytes) {
    File file;
    AppendRandom(random_, bytes, file.bytes);
    ExpectRoundTrip(file, {}, {});
  }
}

TEST_F(FrameTest, EmptyTargetIsAFrame) {
  const Frame frame = Encode(File());
  const MemorySource blob(frame.bytes);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ((*reader)->target_bytes(), 0u);
  EXPECT_EQ((*reader)->chunk_count(), 0u);
  EXPECT_EQ((*reader)->digest(), Hash128({}));
  EXPECT_TRUE((*reader)->ChunksOf(0, 100).empty());
  EXPECT_TRUE((*reader)->Read(0, {}, {}).ok());
  EXPECT_LT(frame.bytes.size(), 100u);
}

TEST_F(FrameTest, RoundTripsRandomFilesWithEveryCodec) {
  for (int round = 0; round < 60; ++round) {
    const File base =
        MakeModel(random_, Below(random_, 700), static_cast<int>(Below(random_, 6)), 64 + Below(random_, 6000));
    const File target = NextSave(random_, base, Below(random_, 700), 0.01 * static_cast<double>(Below(random_, 100)));
    for (const CodecChoice codec : {CodecChoice::kDefault, CodecChoice::kLmc, CodecChoice::kZstd, CodecChoice::kRaw}) {
      if (!CodecChoiceFromName(Name(codec))) continue;
      EncodeOptions options = SmallChunks(codec);
      options.chunk_bytes = 512 + Below(random_, 20000);
      options.window_bytes = 1 + Below(random_, 60000);
      ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip(target, {}, options)) << "round " << round;
      ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip(target, {&base}, options)) << "round " << round;
    }
  }
}

TEST_F(FrameTest, LayoutThatLiesCostsNothingButSize) {
  for (int round = 0; round < 50; ++round) {
    File base = MakeModel(random_, 200, 3, 2000);
    File target = NextSave(random_, base, 300, 0.3);
    for (File* file : {&base, &target}) {
      for (Tensor& tensor : file->layout.tensors) {
        tensor.element = static_cast<ElementType>(Below(random_, kElementTypeCount));
        if (Below(random_, 2) == 0) tensor.extents[0].offset = random_() >> Below(random_, 64);
        if (Below(random_, 2) == 0) tensor.extents[0].nbytes = 1 + (random_() >> (1 + Below(random_, 62)));
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip(target, {&base}, SmallChunks())) << "round " << round;
  }
}

TEST_F(FrameTest, EveryRangeReadsAsThatRange) {
  const File base = MakeModel(random_, 300, 4, 3000);
  const File target = NextSave(random_, base, 364, 0.2);
  const Frame frame = Encode(target, {&base}, SmallChunks());
  const MemorySource blob(frame.bytes);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok());
  const MemorySource base_source(base.bytes);
  const auto expect_range = [&](std::size_t offset, std::size_t length, int threads) {
    ByteVector out(length);
    const Status status = (*reader)->Read(offset, {&base_source}, out, threads);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(std::equal(out.begin(), out.end(), target.bytes.begin() + static_cast<std::ptrdiff_t>(offset)))
        << offset << "+" << length;
  };
  for (std::size_t offset = 0; offset < target.bytes.size(); offset += 97) {
    ASSERT_NO_FATAL_FAILURE(expect_range(offset, std::min<std::size_t>(target.bytes.size() - offset, 131), 1));
  }
  for (int round = 0; round < 200; ++round) {
    const std::size_t offset = Below(random_, target.bytes.size());
    const std::size_t length = Below(random_, target.bytes.size() - offset + 1);
    ASSERT_NO_FATAL_FAILURE(expect_range(offset, length, 1 + round % 3));
  }
}

TEST_F(FrameTest, ReadBeyondTheEndIsRefused) {
  File file;
  AppendText(random_, 1000, file.bytes);
  const Frame frame = Encode(file);
  const MemorySource blob(frame.bytes);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok());
  ByteVector out(10);
  EXPECT_TRUE((*reader)->Read(990, {}, out).ok());
  EXPECT_EQ((*reader)->Read(991, {}, out).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ((*reader)->Read(UINT64_MAX - 3, {}, out).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ((*reader)->ChunksOf(5, UINT64_MAX).size(), 1u);
  EXPECT_TRUE((*reader)->ChunksOf(UINT64_MAX, UINT64_MAX).empty());
  ByteVector chunk(999);
  EXPECT_EQ((*reader)->DecodeChunk(0, {}, chunk).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ((*reader)->DecodeChunk(1, {}, chunk).kind(), StatusKind::kInvalidArgument);
}

TEST_F(FrameTest, ThreadsDoNotShow) {
  const File base = MakeModel(random_, 300, 12, 20000);
  const File target = NextSave(random_, base, 364, 0.4);
  EncodeOptions options;
  options.chunk_bytes = 32768;
  options.window_bytes = 300000;
  options.threads = 1;
  const Frame one = Encode(target, {&base}, options);
  for (const int threads : {1, 2, 4, 0}) {
    options.threads = threads;
    EXPECT_EQ(Encode(target, {&base}, options).bytes, one.bytes) << threads;
  }
  const auto decoded = DecodeFile(one.bytes, {&base}, 4);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, target.bytes);
}

TEST_F(FrameTest, IdenticalFileCostsNextToNothing) {
  const File base = MakeModel(random_, 300, 4, 700000);
  const Frame frame = Encode(base, {&base});
  EXPECT_LT(frame.bytes.size(), 900u);
  EXPECT_EQ(frame.stats.target_bytes_by_codec.at(CodecId::kEqual), base.bytes.size());
  const MemorySource blob(frame.bytes);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok());
  EXPECT_LE((*reader)->chunk_count(), 8u) << "neighbouring equal chunks are merged";
  EXPECT_EQ((*reader)->dominant_codec(), "equal");
  EXPECT_EQ(*DecodeFile(frame.bytes, {&base}), base.bytes);
}

TEST_F(FrameTest, MovedTensorsCostWhatTheyCostInPlace) {
  const File base = MakeModel(random_, 1000, 6, 40000);
  Random in_place = random_;
  Random moved = random_;
  const std::size_t size_in_place = Encode(NextSave(in_place, base, 1000, 0.05), {&base}).bytes.size();
  const std::size_t size_moved = Encode(NextSave(moved, base, 1064, 0.05), {&base}).bytes.size();
  EXPECT_LT(size_in_place, base.bytes.size() / 2);
  EXPECT_LT(size_moved, size_in_place + size_in_place / 50);
}

TEST_F(FrameTest, HeadersOfAnotherLengthAreCodedAgainstTheBaseHeaders) {
  // Incompressible headers, each with one byte more than before.
  File base;
  File target;
  for (int i = 0; i < 50; ++i) {
    ByteVector header;
    AppendRandom(random_, 200, header);
    base.bytes.insert(base.bytes.end(), header.begin(), header.end());
    target.bytes.insert(target.bytes.end(), header.begin(), header.end());
    target.bytes.push_back(std::byte{0});
    const ByteVector weights = RandomWeights(random_, 1000);
    base.AddTensor(std::to_string(i), ElementType::kFloat32, weights);
    target.AddTensor(std::to_string(i), ElementType::kFloat32, weights);
  }
  const Frame frame = Encode(target, {&base});
  EXPECT_LT(frame.bytes.size(), 50u * 40) << "of 50 headers of 201 bytes";
  EXPECT_EQ(*DecodeFile(frame.bytes, {&base}), target.bytes);
}

TEST_F(FrameTest, GrownTensorPaysForItsNewRowsOnly) {
  File base;
  const ByteVector rows = RandomWeights(random_, 100 * 1000);
  base.AddTensor("embedding", ElementType::kFloat32, rows, {1000, 100});
  ByteVector grown = rows;
  const ByteVector more = RandomWeights(random_, 100 * 50);
  grown.insert(grown.end(), more.begin(), more.end());
  File target;
  AppendText(random_, 128, target.bytes);
  target.AddTensor("embedding", ElementType::kFloat32, grown, {1050, 100});
  const Frame frame = Encode(target, {&base});
  EXPECT_LT(frame.bytes.size(), more.size() + 500);
  EXPECT_EQ(*DecodeFile(frame.bytes, {&base}), target.bytes);
}

TEST_F(FrameTest, AppendedTextPaysForTheNewTextOnly) {
  File base;
  AppendRandom(random_, 1500000, base.bytes);
  File target = base;
  AppendRandom(random_, 3000, target.bytes);
  const Frame frame = Encode(target, {&base});
  EXPECT_LT(frame.bytes.size(), 3500u);
  EXPECT_EQ(*DecodeFile(frame.bytes, {&base}), target.bytes);
}

TEST_F(FrameTest, TextInsertedInFrontCostsThatText) {
  File base;
  AppendRandom(random_, 1500000, base.bytes);
  File target;
  AppendRandom(random_, 1000, target.bytes);
  target.bytes.insert(target.bytes.end(), base.bytes.begin(), base.bytes.end());
  const Frame frame = Encode(target, {&base});
  EXPECT_LT(frame.bytes.size(), 2000u);
  EXPECT_EQ(*DecodeFile(frame.bytes, {&base}), target.bytes);
}

TEST_F(FrameTest, BaseThatDoesNotHelpIsNotListed) {
  File base;
  base.AddTensor("w", ElementType::kFloat32, RandomWeights(random_, 100000));
  File target;
  target.AddTensor("w", ElementType::kFloat32, RandomWeights(random_, 100000));
  const Frame frame = Encode(target, {&base});
  EXPECT_FALSE(frame.stats.uses_sources);
  const MemorySource blob(frame.bytes);
  EXPECT_TRUE((*FrameReader::Open(blob))->sources().empty());
  EXPECT_LE(frame.bytes.size(), target.bytes.size() + 300);
}

TEST_F(FrameTest, OnlySourcesThatAreUsedAreListed) {
  File unrelated;
  AppendRandom(random_, 5000, unrelated.bytes);
  File twin;
  twin.AddTensor("frozen", ElementType::kFloat32, RandomWeights(random_, 100000));
  File target;
  target.AddTensor("new", ElementType::kFloat32, RandomWeights(random_, 1000));
  target.AddTensor("frozen", ElementType::kFloat32, twin.bytes);
  const Frame frame = Encode(target, {&unrelated, &twin});
  EXPECT_LT(frame.bytes.size(), 4500u) << "the frozen tensor is in the second source";
  const MemorySource blob(frame.bytes);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ((*reader)->sources().size(), 1u);
  EXPECT_EQ((*reader)->sources()[0].digest, Hash128(twin.bytes));
  EXPECT_EQ((*reader)->sources()[0].path, "base");
  EXPECT_EQ((*reader)->sources()[0].version, 7u);
  EXPECT_EQ((*reader)->sources()[0].size, twin.bytes.size());
  EXPECT_EQ(*DecodeFile(frame.bytes, {&twin}), target.bytes);
}

TEST_F(FrameTest, RawStoresTheBytesThemselves) {
  const File base = MakeModel(random_, 300, 4, 3000);
  const Frame frame = Encode(base, {&base}, SmallChunks(CodecChoice::kRaw));
  EXPECT_FALSE(frame.stats.uses_sources);
  EXPECT_EQ(frame.stats.target_bytes_by_codec.at(CodecId::kRaw), base.bytes.size());
  EXPECT_GT(frame.bytes.size(), base.bytes.size());
}

TEST_F(FrameTest, CallersSectionsComeBack) {
  File file;
  AppendText(random_, 100, file.bytes);
  EncodeOptions options;
  options.sections = {{64, "name"}, {70, std::string("\0bytes", 6)}, {UINT32_MAX, ""}};
  const Frame frame = Encode(file, {}, options);
  const MemorySource blob(frame.bytes);
  EXPECT_EQ((*FrameReader::Open(blob))->sections(), options.sections);
}

TEST_F(FrameTest, RefusesWrongOptionsAndSources) {
  File file;
  AppendText(random_, 100, file.bytes);
  EncodeOptions options;
  options.sections = {{63, "reserved"}};
  EXPECT_EQ(EncodeFile(file, {}, options).status().kind(), StatusKind::kInvalidArgument);
  options = {};
  options.chunk_bytes = 0;
  EXPECT_EQ(EncodeFile(file, {}, options).status().kind(), StatusKind::kInvalidArgument);
  options.chunk_bytes = std::size_t{1} << 30;
  EXPECT_EQ(EncodeFile(file, {}, options).status().kind(), StatusKind::kInvalidArgument);
  const MemorySource target(file.bytes);
  MemorySink sink;
  EncodeSource source{SourceOf(target, file.bytes), &target, nullptr};
  source.source.size = 1;
  EXPECT_EQ(EncodeFrame(target, file.layout, {source}, {}, sink).status().kind(), StatusKind::kInvalidArgument);
}

TEST_F(FrameTest, MissingAndShortSourcesAreNamed) {
  const File base = MakeModel(random_, 300, 2, 3000);
  const Frame frame = Encode(base, {&base});
  const MemorySource blob(frame.bytes);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok());
  ByteVector out(base.bytes.size());
  for (const std::vector<const ByteSource*>& none : {std::vector<const ByteSource*>{}, {nullptr}}) {
    const Status status = (*reader)->Read(0, none, out);
    EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(status.ToString(), ::testing::HasSubstr(Hash128(base.bytes).ToHex()));
  }
  const MemorySource shorter(Bytes(base.bytes).first(100));
  const Status status = (*reader)->Read(0, {&shorter}, out);
  EXPECT_EQ(status.kind(), StatusKind::kCorruption);
  EXPECT_THAT(status.ToString(), ::testing::HasSubstr("100 bytes"));
}

TEST_F(FrameTest, WrongBaseOfTheRightSizeIsNoticed) {
  const File base = MakeModel(random_, 300, 2, 3000);
  const File target = NextSave(random_, base, 300, 0.1);
  const Frame frame = Encode(target, {&base});
  const MemorySource blob(frame.bytes);
  ByteVector wrong = base.bytes;
  for (std::byte& byte : wrong) byte ^= std::byte{0x40};
  const MemorySource wrong_source(wrong);
  ByteVector out(target.bytes.size());
  EXPECT_EQ((*FrameReader::Open(blob))->Read(0, {&wrong_source}, out).kind(), StatusKind::kCorruption);
}

// A sparse file: zeros but for a few bytes, never in memory.
class SparseSource final : public ByteSource {
 public:
  SparseSource(std::uint64_t size, std::vector<std::uint64_t> ones) : size_(size), ones_(std::move(ones)) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    for (const std::uint64_t one : ones_) {
      if (one >= offset && one - offset < out.size()) out[one - offset] = std::byte{1};
    }
    return {};
  }

 private:
  const std::uint64_t size_;
  const std::vector<std::uint64_t> ones_;
};

TEST_F(FrameTest, SparseFilesAreTinyAndOffsetsBeyond32BitsWork) {
  const std::uint64_t bytes = (std::uint64_t{5} << 30) + 12345;
  const SparseSource target(bytes, {1000, bytes - 10});
  MemorySink sink;
  const auto stats = EncodeFrame(target, Layout(), {}, {}, sink);
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  EXPECT_LT(sink.bytes().size(), 30000u);
  const MemorySource blob(sink.bytes());
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->target_bytes(), bytes);
  EXPECT_EQ((*reader)->dominant_codec(), "fill");
  ByteVector tail(20);
  ASSERT_TRUE((*reader)->Read(bytes - 20, {}, tail).ok());
  EXPECT_EQ(tail[10], std::byte{1});
  EXPECT_EQ(tail[11], std::byte{0});
}

TEST_F(FrameTest, VerifyStoredBytesNoticesEveryByte) {
  const File base = MakeModel(random_, 300, 1, 300);
  Frame frame = Encode(base);
  for (std::size_t at = 0; at + 72 < frame.bytes.size(); ++at) {
    const MemorySource blob(frame.bytes);
    const auto reader = FrameReader::Open(blob);
    ASSERT_TRUE(reader.ok());
    ASSERT_TRUE((*reader)->VerifyStoredBytes().ok());
    frame.bytes[at] ^= std::byte{0x10};
    EXPECT_EQ((*reader)->VerifyStoredBytes().kind(), StatusKind::kCorruption) << at;
    frame.bytes[at] ^= std::byte{0x10};
  }
}

class FailingSink final : public ByteSink {
 public:
  explicit FailingSink(std::size_t room) : room_(room) {}
  Status Append(Bytes bytes) override {
    if (bytes.size() > room_) return Status::NoSpace("sink is full");
    room_ -= bytes.size();
    return {};
  }

 private:
  std::size_t room_;
};

class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes) const override {
    return Status::FromErrno(EIO, "read at " + std::to_string(offset));
  }

 private:
  const std::uint64_t size_;
};

TEST_F(FrameTest, FailuresOfSinkTargetAndSourceComeBack) {
  const File file = MakeModel(random_, 300, 3, 30000);
  const MemorySource target(file.bytes);
  for (const std::size_t room : {0u, 10u, 1000u, 200000u}) {
    FailingSink sink(room);
    EXPECT_EQ(EncodeFrame(target, file.layout, {}, {}, sink).status().kind(), StatusKind::kNoSpace) << room;
  }
  const FailingSource failing(file.bytes.size());
  MemorySink sink;
  const Status status = EncodeFrame(failing, file.layout, {}, {}, sink).status();
  EXPECT_EQ(status.ToErrno(), EIO);
  EXPECT_THAT(status.ToString(), ::testing::HasSubstr("target: read at 0"));
  const EncodeSource source{SourceOf(failing, {}), &failing, &file.layout};
  EXPECT_EQ(EncodeFrame(target, file.layout, {source}, {}, sink).status().ToErrno(), EIO);
}

// zstd that records how long the references were that it was given.
class ReferenceSpy final : public ChunkCodec {
 public:
  explicit ReferenceSpy(const ByteVector& expected_context) : expected_context_(expected_context) {}
  CodecId id() const override { return CodecId::kZstd; }
  std::size_t MaxEncodedBytes(ElementType element, std::size_t target_bytes) const override {
    return zstd_->MaxEncodedBytes(element, target_bytes);
  }
  Result<std::size_t> Encode(ElementType element, Bytes target, const References& references,
                             MutableBytes out) const override {
    if (element == ElementType::kFloat32 && target.size() == expected_context_.size()) {
      EXPECT_TRUE(std::equal(references.context.begin(), references.context.end(), expected_context_.begin(),
                             expected_context_.end()));
    }
    return zstd_->Encode(element, target, references, out);
  }
  Status Decode(ElementType element, Bytes encoded, const References& references, MutableBytes target) const override {
    return zstd_->Decode(element, encoded, references, target);
  }

 private:
  const ByteVector& expected_context_;
  std::unique_ptr<ChunkCodec> zstd_ = NewZstdCodec();
};

TEST_F(FrameTest, ContextIsAlignedAndListed) {
  File files[3];  // Context, base, target; the tensor lies elsewhere in each.
  ByteVector weights = RandomWeights(random_, 20000);
  for (std::size_t i = 0; i < 3; ++i) {
    AppendText(random_, 100 + 64 * i, files[i].bytes);
    files[i].AddTensor("w", ElementType::kFloat32, weights);
    weights = Nudged(random_, weights, 0.1);
  }
  const ByteVector context_weights(files[0].Of(0).begin(), files[0].Of(0).end());
  const MemorySource context(files[0].bytes);
  const MemorySource base(files[1].bytes);
  const MemorySource target(files[2].bytes);
  const std::vector<EncodeSource> sources = {
      {SourceOf(context, files[0].bytes, SourceRole::kContext), &context, &files[0].layout},
      {SourceOf(base, files[1].bytes), &base, &files[1].layout}};
  MemorySink sink;
  const CodecSet codecs = CodecSet::Single(std::make_unique<ReferenceSpy>(context_weights), true);
  ASSERT_TRUE(EncodeFrameWith(codecs, target, files[2].layout, sources, {}, sink).ok());
  const MemorySource blob(sink.bytes());
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  ASSERT_EQ((*reader)->sources().size(), 2u);
  EXPECT_EQ((*reader)->sources()[0].role, SourceRole::kContext);
  ByteVector decoded(files[2].bytes.size());
  const Status status = (*reader)->Read(0, {&context, &base}, decoded);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(decoded, files[2].bytes);
  EXPECT_EQ((*reader)->Read(0, {nullptr, &base}, decoded).kind(), StatusKind::kInvalidArgument);
}

// Any size, any bytes, nothing in memory.
class PatternSource final : public ByteSource {
 public:
  explicit PatternSource(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size_ || out.size() > size_ - offset) return Status::InvalidArgument("outside");
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>((offset + i) * 0x9e3779b97f4a7c15 >> 56);
    return {};
  }

 private:
  const std::uint64_t size_;
};

TEST_F(FrameTest, SourcesMayBeLargerThan63Bits) {
  const PatternSource base(UINT64_MAX - 5);
  for (const std::uint64_t at : {std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1000, UINT64_MAX - 5 - 4000}) {
    File file;
    ByteVector content(4000);
    ASSERT_TRUE(base.ReadAt(at, content).ok());
    AppendText(random_, 100, file.bytes);
    file.AddTensor("w", ElementType::kFloat32, content);
    Layout base_layout = file.layout;
    base_layout.tensors[0].extents[0].offset = at;
    const MemorySource target(file.bytes);
    MemorySink sink;
    const EncodeSource source{SourceOf(base, {}), &base, &base_layout};
    const auto stats = EncodeFrame(target, file.layout, {source}, {}, sink);
    ASSERT_TRUE(stats.ok()) << stats.status().ToString();
    EXPECT_EQ(stats->target_bytes_by_codec.at(CodecId::kEqual), 4000u);
    const MemorySource blob(sink.bytes());
    const auto reader = FrameReader::Open(blob);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    ByteVector decoded(file.bytes.size());
    ASSERT_TRUE((*reader)->Read(0, {&base}, decoded).ok());
    EXPECT_EQ(decoded, file.bytes);
  }
}

TEST(CodecChoiceTest, NamesOfTheBuildAreFound) {
  EXPECT_EQ(CodecChoiceFromName("default"), CodecChoice::kDefault);
  EXPECT_EQ(CodecChoiceFromName("zstd"), CodecChoice::kZstd);
  EXPECT_EQ(CodecChoiceFromName("raw"), CodecChoice::kRaw);
  EXPECT_EQ(CodecChoiceFromName("nonsense"), std::nullopt);
  EXPECT_EQ(CodecChoiceFromName(""), std::nullopt);
  EXPECT_EQ(Name(CodecChoice::kExcp), "excp");
}

}  // namespace
}  // namespace stepfs::codec
