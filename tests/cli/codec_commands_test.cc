// SPDX-License-Identifier: Apache-2.0
//
// encode, decode, layout, version, and what all commands do with wrong usage.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "support/cli_driver.h"
#include "support/temp_directory.h"

namespace stepfs {
namespace {

using testing::Outcome;
using testing::ReadFile;
using testing::RunStepfs;
using testing::WriteFile;

// A safetensors file with one float32 tensor; the second has the same weights, some of them changed a little.
std::string Checkpoint(std::uint32_t changes) {
  constexpr std::uint32_t kElements = 100'000;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<std::uint32_t> weights(kElements);
  for (auto& weight : weights) {
    const float value = normal(random);
    std::memcpy(&weight, &value, sizeof weight);
  }
  for (std::uint32_t i = 0; i < changes; ++i) weights[random() % kElements] ^= 3;
  std::string header = R"({"w":{"dtype":"F32","shape":[100000],"data_offsets":[0,400000]}})";
  while (header.size() % 8 != 0) header += ' ';
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(reinterpret_cast<const char*>(weights.data()), kElements * 4);
}

class CodecCommandsTest : public ::testing::Test {
 protected:
  CodecCommandsTest() {
    WriteFile(base_, Checkpoint(0));
    WriteFile(target_, Checkpoint(20'000));
  }
  testing::TempDirectory directory_;
  const std::string base_ = directory_ / "base.safetensors";
  const std::string target_ = directory_ / "target.safetensors";
  const std::string frame_ = directory_ / "frame";
  const std::string back_ = directory_ / "back";
};

TEST_F(CodecCommandsTest, EveryCodecGivesTheTargetBack) {
  const std::string help = RunStepfs({"encode", "--help"}).out;
  for (const std::string codec : {"default", "lmc", "zstd", "raw"}) {
    EXPECT_NE(help.find(codec), help.npos);
    const Outcome encoded =
        RunStepfs({"encode", "--codec", codec, "--base", base_, target_, "-o", frame_, "--force", "--json"});
    ASSERT_EQ(encoded.code, 0) << encoded.err;
    const auto told = nlohmann::json::parse(encoded.out);
    EXPECT_EQ(told["logical_bytes"], std::filesystem::file_size(target_));
    EXPECT_EQ(told["stored_bytes"], std::filesystem::file_size(frame_));
    EXPECT_EQ(told["lossless"], true);
    const Outcome decoded = RunStepfs({"decode", "--base", base_, frame_, "-o", back_, "--force"});
    ASSERT_EQ(decoded.code, 0) << decoded.err;
    EXPECT_EQ(ReadFile(back_), ReadFile(target_)) << codec;
  }
}

TEST_F(CodecCommandsTest, ABaseMakesItSmallerAndIsNeededToDecode) {
  const Outcome alone = RunStepfs({"encode", target_, "-o", frame_, "--json"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const auto anchor = nlohmann::json::parse(alone.out);
  EXPECT_TRUE(anchor["base"].is_null());
  EXPECT_EQ(anchor["depth"], 0);
  const Outcome delta = RunStepfs({"encode", "--base", base_, target_, "-o", frame_, "--force", "--json"});
  ASSERT_EQ(delta.code, 0) << delta.err;
  const auto told = nlohmann::json::parse(delta.out);
  EXPECT_EQ(told["base"]["path"], "base.safetensors");
  EXPECT_EQ(told["depth"], 1);
  EXPECT_LT(told["stored_bytes"].get<double>(), 0.5 * anchor["stored_bytes"].get<double>());

  const Outcome without = RunStepfs({"decode", frame_, "-o", back_});
  EXPECT_EQ(without.code, 1);
  EXPECT_NE(without.err.find("--base"), without.err.npos) << without.err;
  const Outcome wrong = RunStepfs({"decode", "--base", target_, frame_, "-o", back_});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_FALSE(std::filesystem::exists(back_));
}

TEST_F(CodecCommandsTest, ContextsMayBeRepeatedAndPrecedeTheFile) {
  const Outcome encoded =
      RunStepfs({"encode", "--base", base_, "--context", base_, "--context", target_, target_, "-o", frame_});
  ASSERT_EQ(encoded.code, 0) << encoded.err;
  const Outcome decoded =
      RunStepfs({"decode", "--base", base_, "--context", base_, "--context", target_, frame_, "-o", back_});
  ASSERT_EQ(decoded.code, 0) << decoded.err;
  EXPECT_EQ(ReadFile(back_), ReadFile(target_));
}

TEST_F(CodecCommandsTest, OutputIsNeverOverwrittenUnasked) {
  WriteFile(frame_, "precious");
  const Outcome refused = RunStepfs({"encode", target_, "-o", frame_});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("--force"), refused.err.npos);
  EXPECT_EQ(ReadFile(frame_), "precious");
  const Outcome device = RunStepfs({"encode", target_, "-o", "/dev/null", "--force"});
  EXPECT_EQ(device.code, 1);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(CodecCommandsTest, ADamagedFrameIsOneLineAndLeavesNothing) {
  ASSERT_EQ(RunStepfs({"encode", target_, "-o", frame_}).code, 0);
  std::string bytes = ReadFile(frame_);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
  WriteFile(frame_, bytes);
  const Outcome decoded = RunStepfs({"decode", frame_, "-o", back_});
  EXPECT_EQ(decoded.code, 1);
  EXPECT_EQ(std::count(decoded.err.begin(), decoded.err.end(), '\n'), 1) << decoded.err;
  EXPECT_TRUE(decoded.err.starts_with("stepfs: "));
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_NE(entry.path(), back_);
    EXPECT_FALSE(entry.path().filename().string().starts_with(".stepfs-"));
  }
  const Outcome nonsense = RunStepfs({"decode", target_, "-o", back_});
  EXPECT_EQ(nonsense.code, 1);
}

TEST_F(CodecCommandsTest, LayoutListsTensors) {
  const auto layout = nlohmann::json::parse(RunStepfs({"layout", target_, "--json"}).out);
  ASSERT_EQ(layout.size(), 1u);
  EXPECT_EQ(layout[0]["name"], "w");
  EXPECT_EQ(layout[0]["nbytes"], 400000);
  EXPECT_NE(RunStepfs({"layout", target_}).out.find("format safetensors, 1 tensors"), std::string::npos);
}

TEST(UsageTest, WrongUsageIsCodeTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"nonsense"},
      {"log"},
      {"log", "a", "b"},
      {"encode", "--codec", "none", "a", "-o", "b"},
      {"encode", "a"},
      {"mount", "--cache-size", "many", "a", "b"},
      {"mount", "--durable", "never", "a", "b"},
      {"mount", "--log-level", "loud", "a", "b"},
      {"mount", "--encode-threads", "0", "a", "b"},
      {"status", "--jsno", "a"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = RunStepfs(arguments);
    EXPECT_EQ(outcome.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST(UsageTest, HelpAndVersionAreOutput) {
  EXPECT_EQ(RunStepfs({"--help"}).code, 0);
  for (const char* command : {"mount", "umount", "sync", "log", "status", "verify", "cat", "restore", "encode",
                              "decode", "layout", "version"}) {
    EXPECT_NE(RunStepfs({"--help"}).out.find(command), std::string::npos) << command;
    EXPECT_EQ(RunStepfs({command, "--help"}).code, 0) << command;
  }
  EXPECT_TRUE(RunStepfs({"version"}).out.starts_with("stepfs "));
}

}  // namespace
}  // namespace stepfs
