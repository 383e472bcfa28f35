// SPDX-License-Identifier: Apache-2.0
//
// The machine dies at every single call of a workload. Whatever is found then must be the state after some number of
// its commits, not fewer than were known durable, and everything must go on from there.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "index/index.h"
#include "support/memory_file_ops.h"
#include "support/temp_directory.h"

namespace stepfs::index {
namespace {

using Model = std::map<std::string, std::string>;

WriteBatch BatchOf(std::uint64_t sequence, Model* model) {
  WriteBatch batch;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::string key = "key" + std::to_string((sequence * 7 + i * 3) % 11);
    if ((sequence + i) % 4 == 0) {
      batch.Delete(Table::kInodes, key);
      model->erase(key);
    } else {
      const std::string value = std::to_string(sequence) + std::string(sequence % 5 * 300, 'v');
      batch.Put(Table::kInodes, key, value);
      (*model)[key] = value;
    }
  }
  return batch;
}

Model StateAfter(std::uint64_t commits) {
  Model model;
  for (std::uint64_t i = 1; i <= commits; ++i) (void)BatchOf(i, &model);
  return model;
}

Model StateOf(const Index& index) {
  Model model;
  EXPECT_TRUE(index
                  .Scan(Table::kInodes, "", "",
                        [&](std::string_view key, std::string_view value) {
                          model.emplace(key, value);
                          return true;
                        })
                  .ok());
  return model;
}

struct Machine {
  testing::TempDirectory directory;
  testing::MemoryFileOps files;
  std::uint64_t acknowledged = 0;  // Commits that returned Ok.
  std::uint64_t durable = 0;       // Of these, covered by a sync or checkpoint that returned Ok.

  Result<std::unique_ptr<Index>> Open() {
    return Index::Open({directory.path() + "/lmdb", "/journal", &files, std::uint64_t{1} << 24});
  }

  // Until something fails or the end.
  void Run(std::uint64_t commits) {
    auto opened = Open();
    if (!opened.ok()) return;
    const std::unique_ptr<Index> index = std::move(opened).value();
    for (std::uint64_t i = acknowledged + 1; i <= commits; ++i) {
      Model ignored;
      if (!index->Commit(BatchOf(i, &ignored)).ok()) return;
      acknowledged = i;
      if (i % 4 == 0 && !index->SyncJournal().ok()) return;
      if (i % 4 == 0) durable = i;
      if (i % 9 == 0 && !index->Checkpoint().ok()) return;
      if (i % 9 == 0) durable = i;
    }
  }

  // Opens, checks, and takes what is there for the new truth.
  void Recover(const std::string& trace) {
    auto opened = Open();
    ASSERT_TRUE(opened.ok()) << trace << opened.status().ToString();
    const Model state = StateOf(**opened);
    for (std::uint64_t i = durable; i <= acknowledged; ++i) {
      if (state != StateAfter(i)) continue;
      acknowledged = durable = i;
      return;
    }
    FAIL() << trace << ": not a state between " << durable << " and " << acknowledged;
  }
};

constexpr std::uint64_t kCommits = 20;

std::uint64_t CallsOfWorkload() {
  Machine machine;
  machine.Run(kCommits);
  EXPECT_EQ(machine.acknowledged, kCommits);
  return machine.files.calls();
}

TEST(IndexCrashTest, PowerCutAtEveryCallKeepsWhatWasDurable) {
  const std::uint64_t calls = CallsOfWorkload();
  ASSERT_GT(calls, 30u);
  for (std::uint64_t call = 1; call <= calls + 1; ++call) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const std::string trace = "call " + std::to_string(call) + " seed " + std::to_string(seed);
      Machine machine;
      machine.files.FailCallsFrom(call, EIO);
      machine.Run(kCommits);
      if (seed == 0) {
        machine.files.CutPower();
      } else {
        machine.files.CutPower(call * 100 + seed);
      }
      machine.Recover(trace);
      if (HasFatalFailure()) return;
      // The next life must be as good: run on, and cut again.
      machine.Run(kCommits);
      ASSERT_EQ(machine.acknowledged, kCommits) << trace;
      machine.files.CutPower(call * 100 + seed);
      machine.Recover(trace + " again");
      if (HasFatalFailure()) return;
    }
  }
}

TEST(IndexCrashTest, KillAtEveryCallKeepsWhatWasAcknowledged) {
  const std::uint64_t calls = CallsOfWorkload();
  for (std::uint64_t call = 1; call <= calls + 1; ++call) {
    const std::string trace = "call " + std::to_string(call);
    Machine machine;
    machine.files.FailCallsFrom(call, EIO);
    machine.Run(kCommits);
    machine.files.KillProcess();
    machine.durable = machine.acknowledged;
    machine.Recover(trace);
    if (HasFatalFailure()) return;
    machine.Run(kCommits);
    ASSERT_EQ(machine.acknowledged, kCommits) << trace;
  }
}

TEST(IndexCrashTest, SingleFailureAtEveryCallLosesNothingAndIsReportedAtMostOnce) {
  const std::uint64_t calls = CallsOfWorkload();
  for (const int error : {ENOSPC, EIO}) {
    for (std::uint64_t call = 1; call <= calls; ++call) {
      const std::string trace = "call " + std::to_string(call) + " errno " + std::to_string(error);
      Machine machine;
      machine.files.FailCall(call, error);
      machine.Run(kCommits);
      const std::uint64_t acknowledged = machine.acknowledged;
      machine.durable = acknowledged;
      machine.Recover(trace);
      if (HasFatalFailure()) return;
      machine.Run(kCommits);
      ASSERT_EQ(machine.acknowledged, kCommits) << trace;
      machine.files.KillProcess();
      machine.durable = kCommits;
      machine.Recover(trace);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace stepfs::index
