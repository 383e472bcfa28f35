// SPDX-License-Identifier: Apache-2.0
#include "store/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

using testing::Take;

struct CollectingSink final : ReplySink {
  bool Progress(std::uint64_t, std::uint64_t) override { return true; }
  Status Item(const Json& item) override {
    items.push_back(item);
    return {};
  }
  Status Data(Bytes bytes) override {
    data.append(AsText(bytes));
    return {};
  }
  std::vector<Json> items;
  std::string data;
};

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    StoreOptions options;
    options.root = directory_.path() + "/store";
    store_ = Take(Store::Open(options));
  }

  Result<Json> Run(const Json& request) {
    sink_ = {};
    return RunCommand(*store_, {"plain"}, request, sink_);
  }
  static Json WithPath(const std::string& command, const std::string& path) {
    Json request = {{"command", command}};
    SetPath(request, path);
    return request;
  }

  testing::TempDirectory directory_;
  std::unique_ptr<Store> store_;
  CollectingSink sink_;
};

std::vector<std::string> KeysOf(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST_F(ReportTest, LogHasExactlyTheFieldsOfAVersion) {
  testing::StoreDriver driver(*store_);
  driver.MakeDirectory("checkpoint-500");
  driver.Write("checkpoint-500/a.bin", std::string(5000, 'x') + "first");
  driver.Write("checkpoint-500/a.bin", std::string(5000, 'x') + "second");
  Take(Run({{"command", "sync"}}));
  Take(Run(WithPath("log", "checkpoint-500/a.bin")));
  ASSERT_EQ(sink_.items.size(), 2u);
  const Json& version = sink_.items[1]["version"];
  EXPECT_EQ(KeysOf(version),
            (std::vector<std::string>{"path", "version", "step", "time", "logical_bytes", "stored_bytes", "ratio",
                                      "codec", "base", "depth", "state", "digest", "lossless"}));
  EXPECT_EQ(version["path"], "checkpoint-500/a.bin");
  EXPECT_EQ(version["version"], 2);
  EXPECT_EQ(version["step"], 500);
  EXPECT_EQ(version["logical_bytes"], 5006);
  EXPECT_LT(version["stored_bytes"], 5006);
  EXPECT_EQ(version["state"], "sealed");
  EXPECT_EQ(version["lossless"], true);
  EXPECT_EQ(version["digest"], Hash128(AsBytes(std::string(5000, 'x') + "second")).ToString());
}

TEST_F(ReportTest, LogOfADirectoryListsEverythingInIt) {
  testing::StoreDriver driver(*store_);
  driver.Write("a", "1");
  driver.MakeDirectory("d");
  driver.Write("d/b", "2");
  driver.Unlink("d/b");
  Take(Run(WithPath("log", "")));
  ASSERT_EQ(sink_.items.size(), 2u);
  EXPECT_EQ(sink_.items[1]["version"]["path"], "d/b");
  EXPECT_EQ(sink_.items[1]["notes"], Json::array({"deleted"}));
  EXPECT_EQ(Run(WithPath("log", "nothing")).status().kind(), StatusKind::kNotFound);
}

TEST_F(ReportTest, StatusTellsSizesAndMode) {
  testing::StoreDriver driver(*store_);
  driver.Write("a", std::string(100'000, 'a'));
  Take(Run({{"command", "sync"}}));
  const Json status = Take(Run({{"command", "status"}}));
  EXPECT_EQ(KeysOf(status), (std::vector<std::string>{"logical_bytes", "stored_bytes", "disk_bytes", "ratio",
                                                      "versions", "backlog_bytes", "mode", "warnings"}));
  EXPECT_EQ(status["logical_bytes"], 100'000);
  EXPECT_LT(status["stored_bytes"], 10'000);
  EXPECT_EQ(status["versions"], 1);
  EXPECT_EQ(status["backlog_bytes"], 0);
  EXPECT_EQ(status["mode"], "plain");
  EXPECT_EQ(KeysOf(status["disk_bytes"]), (std::vector<std::string>{"blobs", "index", "cache", "staging"}));
  CollectingSink sink;
  EXPECT_TRUE(Take(RunCommand(*store_, {}, {{"command", "status"}}, sink))["mode"].is_null());
}

TEST_F(ReportTest, ReadGivesTheBytesOfAnyVersion) {
  testing::StoreDriver driver(*store_);
  driver.Write("a", "first");
  driver.Write("a", "second!");
  const Json newest = Take(Run(WithPath("read", "a")));
  EXPECT_EQ(sink_.data, "second!");
  EXPECT_EQ(newest["version"], 2);
  EXPECT_EQ(newest["size"], 7);
  EXPECT_EQ(newest["mode"].get<unsigned>() & 0777, 0644u);
  Json request = WithPath("read", "/a");
  request["version"] = "v000001";
  Take(Run(request));
  EXPECT_EQ(sink_.data, "first");
  request["version"] = "3";
  EXPECT_EQ(Run(request).status().kind(), StatusKind::kNotFound);
  request["version"] = "newest";
  EXPECT_EQ(Run(request).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(Run(WithPath("read", "")).status().kind(), StatusKind::kInvalidArgument);
}

TEST_F(ReportTest, NamesThatAreNotUtf8AreFound) {
  testing::StoreDriver driver(*store_);
  const std::string name = "w\xff\n.pt";
  driver.Write(name, "bytes");
  Take(Run(WithPath("read", name)));
  EXPECT_EQ(sink_.data, "bytes");
  Take(Run(WithPath("log", name)));
  ASSERT_EQ(sink_.items.size(), 1u);
  EXPECT_FALSE(Json::parse(ToLine(sink_.items[0]), nullptr, false).is_discarded());
}

TEST_F(ReportTest, VerifyOfAWholeStoreFindsNothing) {
  testing::StoreDriver driver(*store_);
  driver.Write("a", std::string(100'000, 'a'));
  Take(Run({{"command", "sync"}}));
  const Json result = Take(Run({{"command", "verify"}, {"deep", true}}));
  EXPECT_EQ(result["damaged"], Json::array());
}

TEST_F(ReportTest, MalformedRequestsAreRefused) {
  for (const char* text :
       {"[]", "3", "{}", R"({"command": 3})", R"({"command": "none"})", R"({"command": "log", "path": 3})",
        R"({"command": "log", "path_hex": "6"})", R"({"command": "log", "path_hex": "zz"})",
        R"({"command": "read", "path": "a", "version": 1})", R"({"command": "verify", "deep": "yes"})"}) {
    EXPECT_FALSE(Run(Json::parse(text)).ok()) << text;
  }
}

TEST(ReportFormatTest, TimesAreRfc3339WithNanoseconds) {
  EXPECT_EQ(ToRfc3339(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(ToRfc3339(1'764'550'923'000'000'004), "2025-12-01T01:02:03.000000004Z");
  EXPECT_EQ(ToRfc3339(-1), "1969-12-31T23:59:59.999999999Z");
}

TEST(ReportFormatTest, VersionsAreNumbersOrSteps) {
  EXPECT_EQ(ParseVersion("12")->version, 12u);
  EXPECT_EQ(ParseVersion("v000012")->version, 12u);
  EXPECT_EQ(ParseVersion("step-500")->step, 500);
  for (const char* text : {"", "v", "0", "v0", "-1", "12x", "step-", "step", "vv1", "99999999999999999999"}) {
    EXPECT_FALSE(ParseVersion(text)) << text;
  }
}

TEST(ReportFormatTest, RatioIsStoredToLogical) {
  EXPECT_EQ(Ratio(25, 100), 0.25);
  EXPECT_EQ(Ratio(0, 0), 1.0);
  EXPECT_EQ(Ratio(1, 3), 0.333333);
}

}  // namespace
}  // namespace stepfs::store
