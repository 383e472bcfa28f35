// SPDX-License-Identifier: Apache-2.0
#include "store/control.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

struct RecordingSink final : ReplySink {
  bool Progress(std::uint64_t done, std::uint64_t total) override {
    progress.emplace_back(done, total);
    return progress.size() < give_up_after;
  }
  Status Item(const Json& item) override {
    items.push_back(item);
    return {};
  }
  Status Data(Bytes bytes) override {
    data.append(AsText(bytes));
    return {};
  }

  std::vector<std::pair<std::uint64_t, std::uint64_t>> progress;
  std::vector<Json> items;
  std::string data;
  std::size_t give_up_after = 1000;
};

Result<Json> Echo(const Json& request, ReplySink& sink) {
  if (request.value("command", "") == "fail") return Status::NotFound("no such thing");
  if (request.value("command", "") == "errno") return Status::FromErrno(ENOTEMPTY, "doing it");
  for (int i = 1; i <= request.value("progress", 0); ++i) {
    if (!sink.Progress(static_cast<std::uint64_t>(i), 10)) return Status::FromErrno(ECANCELED, "stopped");
  }
  for (int i = 0; i < request.value("items", 0); ++i) {
    if (Status status = sink.Item({{"number", i}}); !status.ok()) return status;
  }
  const std::string bytes(request.value("bytes", std::size_t{0}), '\n');
  if (!bytes.empty()) {
    if (Status status = sink.Data(AsBytes(bytes)); !status.ok()) return status;
  }
  return Json{{"echo", request}};
}

std::unique_ptr<ControlServer> StartServer(const std::string& store, ControlServer::Handler handler = Echo) {
  auto server = ControlServer::Start(store, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return std::move(server).value();
}

Result<Json> Ask(const std::string& store, const Json& request, RecordingSink& sink) {
  auto client = ControlClient::Connect(store);
  if (!client.ok()) return client.status();
  return client->Call(request, sink);
}

TEST(ControlTest, PassesItemsBytesProgressAndTheResult) {
  const testing::TempDirectory store;
  const auto server = StartServer(store.path());
  RecordingSink sink;
  const auto result = Ask(store.path(), {{"command", "x"}, {"items", 3}, {"bytes", 100'000}, {"progress", 2}}, sink);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ((*result)["echo"]["command"], "x");
  ASSERT_EQ(sink.items.size(), 3u);
  EXPECT_EQ(sink.items[2]["number"], 2);
  EXPECT_EQ(sink.data, std::string(100'000, '\n'));
  EXPECT_EQ(sink.progress.size(), 2u);
  EXPECT_EQ(sink.progress[1], (std::pair<std::uint64_t, std::uint64_t>(2, 10)));
}

TEST(ControlTest, FailuresKeepKindErrnoAndMessage) {
  const testing::TempDirectory store;
  const auto server = StartServer(store.path());
  RecordingSink sink;
  const auto missing = Ask(store.path(), {{"command", "fail"}}, sink).status();
  EXPECT_EQ(missing.kind(), StatusKind::kNotFound);
  EXPECT_EQ(missing.message(), "no such thing");
  const auto posix = Ask(store.path(), {{"command", "errno"}}, sink).status();
  EXPECT_EQ(posix.ToErrno(), ENOTEMPTY);
  EXPECT_EQ(posix.message(), Status::FromErrno(ENOTEMPTY, "doing it").message());
}

TEST(ControlTest, SeveralRequestsGoOverOneConnection) {
  const testing::TempDirectory store;
  const auto server = StartServer(store.path());
  auto client = ControlClient::Connect(store.path());
  ASSERT_TRUE(client.ok());
  for (int i = 0; i < 3; ++i) {
    RecordingSink sink;
    const auto result = client->Call({{"command", "x"}, {"number", i}}, sink);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ((*result)["echo"]["number"], i);
  }
}

TEST(ControlTest, NobodyThereIsNotFound) {
  const testing::TempDirectory store;
  EXPECT_EQ(ControlClient::Connect(store.path()).status().kind(), StatusKind::kNotFound);
  {
    // What a killed owner leaves: a socket nobody listens at.
    const int leftover = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (store.path() + "/control.sock").c_str());
    ASSERT_EQ(bind(leftover, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(leftover);
  }
  EXPECT_EQ(ControlClient::Connect(store.path()).status().kind(), StatusKind::kNotFound);
  const auto server = StartServer(store.path());
  EXPECT_TRUE(ControlClient::Connect(store.path()).ok());
}

TEST(ControlTest, TheSocketIsForItsOwnerOnlyAndGoesWithTheServer) {
  const testing::TempDirectory store;
  const std::string path = store.path() + "/control.sock";
  struct stat info {};
  {
    const auto server = StartServer(store.path());
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_TRUE(S_ISSOCK(info.st_mode));
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  EXPECT_NE(stat(path.c_str(), &info), 0);
}

TEST(ControlTest, AnotherUserIsRefusedEvenWhereTheModeWouldAllowIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  const testing::TempDirectory store;
  const auto server = StartServer(store.path());
  ASSERT_EQ(chmod(store.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((store.path() + "/control.sock").c_str(), 0666), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(3);
    RecordingSink sink;
    const auto result = Ask(store.path(), {{"command", "x"}}, sink);
    _exit(result.status().ToErrno() == EACCES ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ControlTest, PathsLongerThanASocketAddressWork) {
  const testing::TempDirectory top;
  const std::string store = top.path() + "/" + std::string(200, 'd');
  ASSERT_EQ(mkdir(store.c_str(), 0700), 0);
  EXPECT_EQ(ControlClient::Connect(store).status().kind(), StatusKind::kNotFound);
  const auto server = StartServer(store);
  RecordingSink sink;
  EXPECT_TRUE(Ask(store, {{"command", "x"}}, sink).ok());
}

TEST(ControlTest, AClientThatGivesUpStopsTheCommand) {
  const testing::TempDirectory store;
  std::atomic<bool> stopped{false};
  const auto server = StartServer(store.path(), [&](const Json&, ReplySink& sink) -> Result<Json> {
    while (sink.Progress(1, 2)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stopped = true;
    return Status::FromErrno(ECANCELED, "stopped");
  });
  RecordingSink sink;
  sink.give_up_after = 3;
  EXPECT_FALSE(Ask(store.path(), {{"command", "x"}}, sink).ok());
  for (int i = 0; i < 5000 && !stopped; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(stopped);
}

TEST(ControlTest, TheEndOfTheServerEndsRunningCommandsAndIdleConnections) {
  const testing::TempDirectory store;
  std::atomic<bool> running{false};
  auto server = StartServer(store.path(), [&](const Json&, ReplySink& sink) -> Result<Json> {
    running = true;
    while (sink.Progress(1, 2)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Status::FromErrno(ECANCELED, "stopped");
  });
  const auto idle = ControlClient::Connect(store.path());
  ASSERT_TRUE(idle.ok());
  std::thread asking([&] {
    RecordingSink sink;
    sink.give_up_after = SIZE_MAX;
    EXPECT_FALSE(Ask(store.path(), {{"command", "x"}}, sink).ok());
  });
  while (!running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server.reset();
  asking.join();
}

TEST(ControlTest, NonsenseIsRefusedAndDoesNotEndTheServer) {
  const testing::TempDirectory store;
  const auto server = StartServer(store.path());
  for (const std::string& text : {std::string("nonsense\n"), std::string("{\"command\": \"x\"\n"),
                                 std::string(std::size_t{3} << 20, 'x'), std::string("\0\xff\n", 3)}) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (store.path() + "/control.sock").c_str());
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    (void)send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    char answer[512] = {};
    (void)recv(fd, answer, sizeof answer - 1, 0);
    close(fd);
  }
  RecordingSink sink;
  EXPECT_TRUE(Ask(store.path(), {{"command", "x"}}, sink).ok());
}

}  // namespace
}  // namespace stepfs::store
