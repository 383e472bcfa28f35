// SPDX-License-Identifier: Apache-2.0
//
// Frames that are damaged, truncated or made up by someone hostile: an error or the right bytes, never anything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "codec/frame.h"
#include "codec/frame_format.h"
#include "support/frame_fixtures.h"

namespace stepfs::codec {
namespace {

using testing::AppendText;
using testing::DecodeFile;
using testing::EncodeFile;
using testing::File;
using testing::Random;
using testing::RandomWeights;

// A small frame in which every codec that the frame itself knows, zstd, pieces, ranges and a source occur.
struct SmallFrame {
  SmallFrame() {
    Random random(3);
    AppendText(random, 300, base.bytes);
    AppendText(random, 310, target.bytes);
    const ByteVector same = RandomWeights(random, 200);
    base.AddTensor("same", ElementType::kFloat32, same);
    target.AddTensor("same", ElementType::kFloat32, same);
    target.AddTensor("zeros", ElementType::kFloat32, ByteVector(800));
    target.AddTensor("more", ElementType::kFloat32, RandomWeights(random, 64));
    AppendText(random, 20, target.bytes);
    EncodeOptions options;
    options.codec = CodecChoice::kZstd;
    options.threads = 1;
    options.chunk_bytes = 512;
    options.sections = {{64, "caller"}};
    frame = EncodeFile(target, {&base}, options)->bytes;
  }
  File base;
  File target;
  ByteVector frame;
};

// For each byte of the frame whether it is stored by zstd.
std::vector<bool> StoredByZstd(Bytes frame) {
  const FrameTrailer trailer = *ParseTrailer(frame.last(kFrameTrailerBytes), frame.size());
  const auto sections = *ParseSections(frame.subspan(trailer.sections_offset, trailer.sections_bytes));
  const ChunkTable table =
      *ParseChunkTable(sections.at(kSectionChunkTable), *ParseSources(sections.at(kSectionSources)),
                       trailer.target_bytes, trailer.sections_offset);
  std::vector<bool> stored(frame.size(), false);
  for (const ChunkRecord& chunk : table.chunks) {
    for (std::uint32_t i = 0; i < chunk.encoded_bytes; ++i) {
      stored[chunk.encoded_offset + i] = chunk.codec == CodecId::kZstd;
    }
  }
  return stored;
}

TEST(FrameDamageTest, SmallFrameIsWhatTheTestsNeed) {
  const SmallFrame small;
  const MemorySource blob(small.frame);
  const auto reader = FrameReader::Open(blob);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const auto& codecs = (*reader)->target_bytes_by_codec();
  for (const CodecId codec : {CodecId::kRaw, CodecId::kEqual, CodecId::kFill, CodecId::kZstd}) {
    EXPECT_TRUE(codecs.count(codec)) << Name(codec);
  }
  EXPECT_EQ(*DecodeFile(small.frame, {&small.base}), small.target.bytes);
}

TEST(FrameDamageTest, EveryPrefixIsRefused) {
  const SmallFrame small;
  for (std::size_t bytes = 0; bytes < small.frame.size(); ++bytes) {
    const MemorySource blob(Bytes(small.frame).first(bytes));
    const auto reader = FrameReader::Open(blob);
    ASSERT_FALSE(reader.ok()) << bytes;
    EXPECT_EQ(reader.status().kind(), StatusKind::kCorruption) << bytes;
  }
}

TEST(FrameDamageTest, FlippedBitsNeverGiveWrongBytes) {
  const SmallFrame small;
  const std::vector<bool> in_zstd = StoredByZstd(small.frame);
  for (std::size_t bit = 0; bit < 8 * small.frame.size(); ++bit) {
    ByteVector damaged = small.frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    const auto decoded = DecodeFile(damaged, {&small.base});
    if (decoded.ok()) {
      EXPECT_EQ(*decoded, small.target.bytes) << "bit " << bit;
      EXPECT_TRUE(in_zstd[bit / 8]) << "only zstd has bits that do not matter (unused ones, larger windows): " << bit;
    } else {
      const StatusKind kind = decoded.status().kind();
      EXPECT_TRUE(kind == StatusKind::kCorruption || kind == StatusKind::kUnsupported) << decoded.status().ToString();
    }
  }
}

TEST(FrameDamageTest, BytesBehindTheFrameAreRefused) {
  SmallFrame small;
  small.frame.push_back(std::byte{0});
  const MemorySource blob(small.frame);
  EXPECT_EQ(FrameReader::Open(blob).status().kind(), StatusKind::kCorruption);
}

// Takes a frame apart, lets the test change any part, and puts it together with right checksums.
class Forger {
 public:
  explicit Forger(Bytes frame) {
    header = *ParseHeader(frame.first(kFrameHeaderBytes));
    trailer = *ParseTrailer(frame.last(kFrameTrailerBytes), frame.size());
    stored.assign(frame.begin() + kFrameHeaderBytes,
                  frame.begin() + static_cast<std::ptrdiff_t>(trailer.sections_offset));
    const auto parsed = *ParseSections(frame.subspan(trailer.sections_offset, trailer.sections_bytes));
    for (const auto& [type, content] : parsed) sections[type] = content;
    if (sections.count(kSectionSources)) sources = *ParseSources(sections[kSectionSources]);
    table = *ParseChunkTable(sections[kSectionChunkTable], sources, trailer.target_bytes, trailer.sections_offset);
  }

  // Writes sources and table into their sections, too.
  void Rebuild() {
    sections[kSectionSources] = EncodeSources(sources);
    sections[kSectionChunkTable] = EncodeChunkTable(table);
  }

  ByteVector Frame() const {
    ByteWriter area;
    for (const auto& [type, content] : sections) AppendSection(type, content, area);
    ByteWriter frame;
    const std::string header_bytes = EncodeHeader(header);
    frame.Raw(header_bytes);
    frame.Raw(Bytes(stored));
    FrameTrailer forged = trailer;
    forged.sections_offset = frame.size();
    forged.sections_bytes = area.size();
    frame.Raw(area.bytes());
    forged.stored_digest = Hash128(AsBytes(frame.bytes()));
    forged.metadata_hash = MetadataHash(AsBytes(header_bytes), AsBytes(area.bytes()), AsBytes(EncodeTrailer(forged)));
    frame.Raw(EncodeTrailer(forged));
    const Bytes bytes = AsBytes(frame.bytes());
    return {bytes.begin(), bytes.end()};
  }

  FrameHeader header;
  FrameTrailer trailer;
  ByteVector stored;
  std::map<std::uint32_t, std::string> sections;
  std::vector<FrameSource> sources;
  ChunkTable table;
};

Status OpenForged(const Forger& forger) {
  const ByteVector frame = forger.Frame();
  const MemorySource blob(frame);
  return FrameReader::Open(blob).status();
}

ChunkRecord& FirstOf(Forger& forger, CodecId codec) {
  for (ChunkRecord& chunk : forger.table.chunks) {
    if (chunk.codec == codec) return chunk;
  }
  ADD_FAILURE() << "no chunk of codec " << Name(codec);
  return forger.table.chunks[0];
}

TEST(FrameForgeryTest, UntouchedForgeryOpens) {
  const SmallFrame small;
  Forger forger(small.frame);
  forger.Rebuild();
  EXPECT_EQ(forger.Frame(), small.frame);
}

TEST(FrameForgeryTest, VersionsAndFeatures) {
  const SmallFrame small;
  Forger forger(small.frame);
  forger.header.minor = 9;
  EXPECT_TRUE(OpenForged(forger).ok()) << "a newer minor version is readable";
  forger.header.optional_features = 0xfffffffe;
  EXPECT_TRUE(OpenForged(forger).ok()) << "optional features are skipped";
  forger.header.required_features = 1u << 7;
  EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kUnsupported);
  forger.header.required_features = 0;
  forger.header.major = 2;
  EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kUnsupported);
}

TEST(FrameForgeryTest, NearLosslessFlagShows) {
  const SmallFrame small;
  Forger forger(small.frame);
  forger.header.optional_features = kOptionalNearLossless;
  const ByteVector frame = forger.Frame();
  const MemorySource blob(frame);
  EXPECT_FALSE((*FrameReader::Open(blob))->lossless());
  const MemorySource plain(small.frame);
  EXPECT_TRUE((*FrameReader::Open(plain))->lossless());
}

TEST(FrameForgeryTest, UnknownSections) {
  const SmallFrame small;
  Forger forger(small.frame);
  forger.sections[kFirstSkippableSection] = "statistics of a later version";
  EXPECT_TRUE(OpenForged(forger).ok());
  forger.sections[kFirstSkippableSection - 1] = "something that matters";
  EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kUnsupported);
  forger.sections.clear();
  EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kCorruption) << "no chunk table";
}

TEST(FrameForgeryTest, ChunkTablesThatLieAreRefused) {
  const SmallFrame small;
  const std::pair<const char*, std::function<void(Forger&)>> lies[] = {
      {"gap", [](Forger& f) { f.table.pieces.back().length -= 1; }},
      {"overlap", [](Forger& f) { f.table.pieces.back().offset -= 1; }},
      {"piece twice", [](Forger& f) { f.table.pieces[1].offset = f.table.pieces[0].offset; }},
      {"piece beyond the end", [](Forger& f) { f.table.pieces.back().offset += 1; }},
      {"piece near the end of the numbers", [](Forger& f) { f.table.pieces.back().offset = UINT64_MAX - 1; }},
      {"empty piece", [](Forger& f) { f.table.pieces.back().length = 0; }},
      {"huge piece", [](Forger& f) { f.table.pieces.back().length = UINT32_MAX; }},
      {"no pieces", [](Forger& f) { f.table.chunks.back().piece_count = 0; }},
      {"longer target", [](Forger& f) { f.trailer.target_bytes += 1; }},
      {"shorter target", [](Forger& f) { f.trailer.target_bytes -= 1; }},
      {"huge target", [](Forger& f) { f.trailer.target_bytes = UINT64_MAX; }},
      {"missing chunk", [](Forger& f) { f.table.chunks.pop_back(); }},
      {"more stored bytes", [](Forger& f) { f.stored.push_back(std::byte{0}); }},
      {"base beyond its source",
       [](Forger& f) { f.table.pieces[FirstOf(f, CodecId::kEqual).first_piece].base = f.sources[0].size - 3; }},
      {"base before its source",
       [](Forger& f) { f.table.pieces[FirstOf(f, CodecId::kEqual).first_piece].base = UINT64_MAX - 3; }},
      {"source that is not listed", [](Forger& f) { FirstOf(f, CodecId::kEqual).base_source = 1; }},
      {"no sources", [](Forger& f) { f.sources.clear(); }},
      {"short source", [](Forger& f) { f.sources[0].size = 10; }},
      {"content that is only a context", [](Forger& f) { f.sources[0].role = SourceRole::kContext; }},
      {"context that is a content", [](Forger& f) { FirstOf(f, CodecId::kZstd).flags |= kChunkContext; }},
      {"equal without base", [](Forger& f) { FirstOf(f, CodecId::kEqual).flags = 0; }},
      {"raw with base", [](Forger& f) { FirstOf(f, CodecId::kRaw).flags = kChunkAlignedBase; }},
      {"short raw", [](Forger& f) { FirstOf(f, CodecId::kRaw).encoded_bytes -= 1; }},
      {"fill of two bytes", [](Forger& f) { FirstOf(f, CodecId::kFill).encoded_bytes = 2; }},
      {"empty zstd", [](Forger& f) { FirstOf(f, CodecId::kZstd).encoded_bytes = 0; }},
      {"zstd that is not smaller",
       [](Forger& f) {
         ChunkRecord& chunk = FirstOf(f, CodecId::kZstd);
         chunk.encoded_bytes = chunk.target_bytes;
       }},
      {"base ranges and an aligned base",
       [](Forger& f) {
         for (ChunkRecord& chunk : f.table.chunks) {
           if (chunk.flags == kChunkBaseRanges) chunk.flags |= kChunkAlignedBase;
         }
       }},
      {"empty base range", [](Forger& f) { f.table.base_ranges[0].length = 0; }},
      {"huge base range",
       [](Forger& f) {
         f.sources[0].size = UINT64_MAX;
         f.table.base_ranges[0].length = UINT32_MAX;
       }},
      {"base range outside", [](Forger& f) { f.table.base_ranges[0].offset = UINT64_MAX - 1; }},
  };
  for (const auto& [name, lie] : lies) {
    Forger forger(small.frame);
    lie(forger);
    forger.Rebuild();
    const Status status = OpenForged(forger);
    EXPECT_EQ(status.kind(), StatusKind::kCorruption) << name << ": " << status.ToString();
  }
}

TEST(FrameForgeryTest, UnknownFlagsElementsRolesAndCodecsAreUnsupported) {
  const SmallFrame small;
  const std::pair<const char*, std::function<void(Forger&)>> news[] = {
      {"chunk flag", [](Forger& f) { f.table.chunks[0].flags |= 0x80; }},
      {"element type", [](Forger& f) { f.table.chunks[0].element = static_cast<ElementType>(200); }},
      {"source role", [](Forger& f) { f.sources[0].role = static_cast<SourceRole>(9); }},
  };
  for (const auto& [name, change] : news) {
    Forger forger(small.frame);
    change(forger);
    forger.Rebuild();
    EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kUnsupported) << name;
  }
  Forger forger(small.frame);
  FirstOf(forger, CodecId::kZstd).codec = static_cast<CodecId>(250);
  for (ChunkRecord& chunk : forger.table.chunks) {
    if (chunk.codec == static_cast<CodecId>(250)) chunk.flags = 0;
  }
  forger.Rebuild();
  EXPECT_TRUE(OpenForged(forger).ok()) << "the other chunks are readable";
  EXPECT_EQ(DecodeFile(forger.Frame(), {&small.base}).status().kind(), StatusKind::kUnsupported);
}

TEST(FrameForgeryTest, TruncatedTablesAreRefused) {
  const SmallFrame small;
  const std::map<std::uint32_t, std::string> whole = Forger(small.frame).sections;
  for (const std::uint32_t type : {kSectionChunkTable, kSectionSources}) {
    for (std::size_t bytes = 0; bytes < whole.at(type).size(); ++bytes) {
      Forger forger(small.frame);
      forger.sections[type].resize(bytes);
      EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kCorruption) << type << ": " << bytes;
    }
    Forger forger(small.frame);
    forger.sections[type].push_back('\0');
    EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kCorruption) << type;
  }
}

TEST(FrameForgeryTest, HugeCountsAllocateNothing) {
  const SmallFrame small;
  for (const std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 40, UINT64_MAX}) {
    ByteWriter huge;
    huge.Varint(count);
    huge.Raw(std::string(100, '\1'));
    for (const std::uint32_t type : {kSectionChunkTable, kSectionSources}) {
      Forger forger(small.frame);
      forger.sections[type] = huge.bytes();
      EXPECT_EQ(OpenForged(forger).kind(), StatusKind::kCorruption);
    }
  }
}

// Forged stored bytes get as far as the codec and the chunk's checksum.
TEST(FrameForgeryTest, StoredBytesThatLieAreNoticedWhenDecoded) {
  const SmallFrame small;
  for (std::size_t at = 0; at < Forger(small.frame).stored.size(); ++at) {
    Forger forger(small.frame);
    forger.stored[at] ^= std::byte{0xff};
    const auto decoded = DecodeFile(forger.Frame(), {&small.base});
    if (decoded.ok()) {
      EXPECT_EQ(*decoded, small.target.bytes);
    } else {
      EXPECT_EQ(decoded.status().kind(), StatusKind::kCorruption);
      EXPECT_THAT(decoded.status().ToString(), ::testing::HasSubstr("chunk "));
    }
  }
}

}  // namespace
}  // namespace stepfs::codec
