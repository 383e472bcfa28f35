// SPDX-License-Identifier: Apache-2.0
//
// Commands on a store: opened by the command itself, and beside an owner that answers over its control socket.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "store/control.h"
#include "store/report.h"
#include "support/cli_driver.h"
#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs {
namespace {

using nlohmann::json;
using testing::Outcome;
using testing::ReadFile;
using testing::RunStepfs;
using testing::Take;

// An owner: an open store with its control socket.
class Owner {
 public:
  explicit Owner(const std::string& root, bool start_threads = true) {
    store::StoreOptions options;
    options.root = root;
    options.start_threads = start_threads;
    store_ = Take(store::Store::Open(options));
    control_ = Take(store::ControlServer::Start(root, [this](const store::Json& request, store::ReplySink& sink) {
      return store::RunCommand(*store_, {"plain"}, request, sink);
    }));
  }
  ~Owner() {
    control_.reset();
    store_.reset();
  }
  store::Store& store() { return *store_; }

 private:
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::ControlServer> control_;
};

std::string Bytes(char of, std::size_t count = 20'000) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(of + static_cast<char>(i * i % 7));
  return bytes;
}

// Each test runs both ways.
class StoreCommandsTest : public ::testing::TestWithParam<bool> {
 protected:
  StoreCommandsTest() {
    auto owner = std::make_unique<Owner>(root_);
    testing::StoreDriver driver(owner->store());
    driver.MakeDirectory("run");
    driver.MakeDirectory("run/checkpoint-100");
    driver.Write("run/last.pt", Bytes('a'));
    driver.Write("run/last.pt", Bytes('b'));
    driver.Write("run/checkpoint-100/opt.pt", Bytes('c'));
    driver.Write("run/gone.pt", Bytes('d'));
    driver.Unlink("run/gone.pt");
    if (GetParam()) owner_ = std::move(owner);
  }

  Outcome Run(std::vector<std::string> arguments) {
    Outcome outcome = RunStepfs(arguments);
    EXPECT_EQ(outcome.code == 0 ? 0u : 1u, std::count(outcome.err.begin(), outcome.err.end(), '\n')) << outcome.err;
    return outcome;
  }

  testing::TempDirectory directory_;
  const std::string root_ = directory_ / "store";
  const std::string output_ = directory_ / "out";
  std::unique_ptr<Owner> owner_;
};

TEST_P(StoreCommandsTest, SyncThenLogShowsEverythingSealed) {
  ASSERT_EQ(Run({"sync", root_}).code, 0);
  const Outcome outcome = Run({"log", root_, "--json"});
  ASSERT_EQ(outcome.code, 0);
  const json versions = json::parse(outcome.out);
  ASSERT_EQ(versions.size(), 4u);
  std::set<std::string> paths;
  for (const json& version : versions) {
    paths.insert(version["path"]);
    EXPECT_EQ(version["state"], "sealed");
    EXPECT_EQ(version.size(), 13u) << version;
  }
  EXPECT_EQ(paths, (std::set<std::string>{"run/last.pt", "run/checkpoint-100/opt.pt", "run/gone.pt"}));
}

TEST_P(StoreCommandsTest, LogAsATable) {
  const Outcome outcome = Run({"log", root_});
  EXPECT_TRUE(outcome.out.starts_with("PATH")) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 5);
  EXPECT_NE(outcome.out.find("run/gone.pt"), std::string::npos);
  EXPECT_NE(outcome.out.find("deleted"), std::string::npos);
}

TEST_P(StoreCommandsTest, StatusCountsVersions) {
  ASSERT_EQ(Run({"sync", root_}).code, 0);
  const json status = json::parse(Run({"status", "--json", root_}).out);
  EXPECT_EQ(status["versions"], 4);
  EXPECT_EQ(status["logical_bytes"], 80'000);
  EXPECT_EQ(status["backlog_bytes"], 0);
  EXPECT_EQ(status["mode"], GetParam() ? json("plain") : json(nullptr));
  EXPECT_NE(Run({"status", root_}).out.find("versions   4"), std::string::npos);
}

TEST_P(StoreCommandsTest, CatGivesAnyVersion) {
  EXPECT_EQ(Run({"cat", root_, "run/last.pt"}).out, Bytes('b'));
  EXPECT_EQ(Run({"cat", root_, "run/last.pt@1"}).out, Bytes('a'));
  EXPECT_EQ(Run({"cat", root_, "/run/last.pt@v000002"}).out, Bytes('b'));
  EXPECT_EQ(Run({"cat", root_, "run/checkpoint-100/opt.pt@step-100"}).out, Bytes('c'));
  EXPECT_EQ(Run({"cat", root_, "run/gone.pt"}).out, Bytes('d'));
  EXPECT_EQ(Run({"cat", root_, "run/last.pt@3"}).code, 1);
  EXPECT_EQ(Run({"cat", root_, "run"}).code, 1);
  EXPECT_EQ(Run({"cat", root_, "run/never.pt"}).code, 1);
}

TEST_P(StoreCommandsTest, RestoreKeepsModeAndTime) {
  ASSERT_EQ(Run({"restore", root_, "run/last.pt@1", "-o", output_}).code, 0);
  EXPECT_EQ(ReadFile(output_), Bytes('a'));
  struct stat info {};
  ASSERT_EQ(stat(output_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  const json versions = json::parse(Run({"log", root_, "--json"}).out);
  EXPECT_GT(info.st_mtime, 0);
  EXPECT_LE(info.st_mtime, time(nullptr));

  EXPECT_EQ(Run({"restore", root_, "run/last.pt@2", "-o", output_}).code, 1);
  EXPECT_EQ(ReadFile(output_), Bytes('a'));
  EXPECT_EQ(Run({"restore", root_, "run/last.pt@2", "-o", output_, "--force"}).code, 0);
  EXPECT_EQ(ReadFile(output_), Bytes('b'));
  EXPECT_EQ(Run({"restore", root_, "run/last.pt@9", "-o", directory_ / "none"}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "none"));
}

TEST_P(StoreCommandsTest, VerifyNamesWhatIsDamagedAndFails) {
  ASSERT_EQ(Run({"sync", root_}).code, 0);
  EXPECT_EQ(Run({"verify", root_}).code, 0);
  EXPECT_EQ(Run({"verify", "--deep", root_}).code, 0);
  int damaged = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ + "/blobs")) {
    if (!entry.is_regular_file()) continue;
    std::string bytes = ReadFile(entry.path());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
    testing::WriteFile(entry.path(), bytes);
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  const Outcome outcome = RunStepfs({"verify", root_, "--json"});
  EXPECT_EQ(outcome.code, 1);
  const json result = json::parse(outcome.out);
  ASSERT_FALSE(result["damaged"].empty());
  EXPECT_TRUE(result["damaged"][0]["path"].get<std::string>().starts_with("run/")) << result;
  EXPECT_EQ(RunStepfs({"verify", root_}).code, 1);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutOwner, StoreCommandsTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Owner" : "NoOwner"; });

TEST(StorePathTest, WhatIsNoStoreIsRefusedAndNothingIsMade) {
  const testing::TempDirectory directory;
  for (const char* command : {"log", "status", "sync", "verify"}) {
    for (const std::string& path : {directory.path(), directory / "absent"}) {
      const Outcome outcome = RunStepfs({command, path});
      EXPECT_EQ(outcome.code, 1) << command;
      EXPECT_EQ(outcome.err, "stepfs: " + path + " is neither a stepfs store nor inside a stepfs mount\n");
    }
  }
  EXPECT_EQ(RunStepfs({"cat", directory.path(), "a"}).code, 1);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(StorePathTest, AStoreOfAnUnknownFormatIsRefused) {
  const testing::TempDirectory directory;
  const std::string root = directory / "store";
  { const Owner made(root); }
  std::string format = ReadFile(root + "/format.json");
  format.replace(format.find("\"version\": 1"), 12, "\"version\": 9");
  testing::WriteFile(root + "/format.json", format);
  const Outcome outcome = RunStepfs({"log", root});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("newer stepfs"), std::string::npos) << outcome.err;
}

TEST(StorePathTest, HostileNamesStayOnOneLine) {
  const testing::TempDirectory directory;
  const std::string root = directory / "store";
  {
    Owner owner(root);
    testing::StoreDriver(owner.store()).Write("evil\x1b[2J\nname\xff", "x");
  }
  const Outcome table = RunStepfs({"log", root});
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 2);
  EXPECT_FALSE(json::parse(RunStepfs({"log", root, "--json"}).out, nullptr, false).is_discarded());
  EXPECT_EQ(RunStepfs({"cat", root, "evil\x1b[2J\nname\xff"}).out, "x");
  const Outcome missing = RunStepfs({"cat", root, "no\nsuch"});
  EXPECT_EQ(std::count(missing.err.begin(), missing.err.end(), '\n'), 1) << missing.err;
}

}  // namespace
}  // namespace stepfs
