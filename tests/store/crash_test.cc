// SPDX-License-Identifier: Apache-2.0
//
// Cuts the power, or kills the process, at every file operation of random workloads, and holds what is there afterwards
// against a model: each name has one of the complete contents it had since it was last made durable, never a mix.
#include <fcntl.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "store/store.h"
#include "support/memory_file_ops.h"
#include "support/store_driver.h"
#include "support/temp_directory.h"

namespace stepfs::store {
namespace {

using Content = std::optional<std::string>;  // Nothing: the name does not exist.

struct Step {
  enum Kind { kWrite, kWriteSynced, kAppend, kRename, kUnlink, kSyncDirectory } kind;
  std::string name, to, bytes;
};

std::vector<Step> RandomSteps(std::mt19937_64& random) {
  const std::vector<std::string> names = {"a", "b", "c"};
  std::vector<Step> steps;
  const std::size_t count = 2 + random() % 5;
  for (std::size_t i = 0; i < count; ++i) {
    Step step;
    step.kind = static_cast<Step::Kind>(random() % 6);
    step.name = names[random() % names.size()];
    step.to = names[random() % names.size()];
    step.bytes = std::string(1 + random() % 3000, static_cast<char>('A' + i)) + std::to_string(random() % 100);
    steps.push_back(std::move(step));
  }
  return steps;
}

// What each name may hold after a crash.
class Model {
 public:
  Content Now(const std::string& name) const {
    const auto found = states_.find(name);
    return found == states_.end() ? Content() : found->second.back().content;
  }
  bool NowSynced(const std::string& name) const {
    const auto found = states_.find(name);
    return found != states_.end() && found->second.back().data_synced;
  }
  // A step is about to give a name a new state: from now on it may be there.
  void Become(const std::string& name, Content content, bool data_synced) {
    auto& states = StatesOf(name);
    states.push_back({std::move(content), data_synced});
  }
  // Everything that happened so far to names is durable; contents only where they were synced.
  void SyncNames() {
    for (auto& [name, states] : states_) {
      if (states.back().data_synced || !states.back().content) states = {states.back()};
    }
  }
  bool Allows(const std::string& name, const Content& found) const {
    const auto states = states_.find(name);
    if (states == states_.end()) return !found;
    for (const State& state : states->second) {
      if (state.content == found) return true;
    }
    return false;
  }
  std::string Describe(const std::string& name) const {
    std::string text;
    const auto states = states_.find(name);
    if (states == states_.end()) return "absent";
    for (const State& state : states->second) {
      text += state.content ? state.content->substr(0, 1).append(" x ").append(std::to_string(state.content->size()))
                            : std::string("absent");
      text += "; ";
    }
    return text;
  }

 private:
  struct State {
    Content content;
    bool data_synced;
  };
  std::vector<State>& StatesOf(const std::string& name) {
    auto& states = states_[name];
    if (states.empty()) states.push_back({Content(), true});
    return states;
  }
  std::map<std::string, std::vector<State>> states_;
};

class CrashTest : public ::testing::Test {
 protected:
  struct World {
    testing::TempDirectory directory;
    testing::MemoryFileOps files;
    std::unique_ptr<Store> store;
    int boots = 0;

    World() {
      std::string path;
      const std::string& whole = directory.path();
      for (std::size_t slash = whole.find('/', 1); slash != whole.npos; slash = whole.find('/', slash + 1)) {
        EXPECT_TRUE(files.MakeDirectory(whole.substr(0, slash)).ok());
      }
      EXPECT_TRUE(files.MakeDirectory(whole).ok());
      EXPECT_TRUE(files.MakeDirectory(whole + "/store").ok());
      for (std::string at = whole; at.size() > 1; at = at.substr(0, std::max<std::size_t>(1, at.rfind('/')))) {
        EXPECT_TRUE(files.SyncDirectory(at).ok());
      }
      EXPECT_TRUE(files.SyncDirectory("/").ok());
    }
    Status Open() {
      StoreOptions options;
      options.root = directory.path() + "/store";
      options.files = &files;
      options.start_threads = false;
      options.cache_bytes = 1 << 20;
      options.boot_id = "boot " + std::to_string(boots);
      auto opened = Store::Open(options);
      if (!opened.ok()) return opened.status();
      store = std::move(*opened);
      return {};
    }
  };

  // Runs steps until one fails; the model knows every state that may be seen. Returns the step that failed.
  static const Step* Run(World& world, const std::vector<Step>& steps, Model& model) {
    Tree& tree = world.store->tree();
    const InodeNumber root = index::kRootInode;
    for (const Step& step : steps) {
      switch (step.kind) {
        case Step::kWrite:
        case Step::kWriteSynced: {
          const bool synced = step.kind == Step::kWriteSynced;
          model.Become(step.name, step.bytes, synced);
          auto made = tree.Create(root, step.name, 0644, O_WRONLY | O_CREAT | O_TRUNC, {});
          if (!made.ok()) return &step;
          if (!tree.Write(*made->second, 0, AsBytes(step.bytes)).ok()) return &step;
          if (synced) {
            if (!tree.Fsync(*made->second).ok()) return &step;
            model.SyncNames();
          }
          if (!tree.Flush(*made->second).ok()) return &step;
          if (!tree.Release(std::move(made->second)).ok()) return &step;
          break;
        }
        case Step::kAppend: {
          const Content before = model.Now(step.name);
          if (!before) break;
          model.Become(step.name, *before + step.bytes, false);
          auto found = tree.Lookup(root, step.name);
          if (!found.ok()) return &step;
          auto file = tree.Open(found->ino, O_WRONLY | O_APPEND);
          if (!file.ok()) return &step;
          if (!tree.Write(**file, before->size(), AsBytes(step.bytes)).ok()) return &step;
          if (!tree.Flush(**file).ok()) return &step;
          if (!tree.Release(std::move(*file)).ok()) return &step;
          break;
        }
        case Step::kRename: {
          const Content moved = model.Now(step.name);
          if (!moved || step.name == step.to) break;
          const bool synced = model.NowSynced(step.name);
          model.Become(step.to, moved, synced);
          model.Become(step.name, std::nullopt, true);
          if (!tree.Rename(root, step.name, root, step.to, 0).ok()) return &step;
          break;
        }
        case Step::kUnlink: {
          if (!model.Now(step.name)) break;
          auto found = tree.Lookup(root, step.name);
          if (!found.ok()) return &step;
          model.Become(step.name, std::nullopt, true);
          if (!tree.Unlink(root, step.name).ok()) return &step;
          tree.Forget(found->ino);
          break;
        }
        case Step::kSyncDirectory:
          if (!tree.SyncDirectory(root).ok()) return &step;
          model.SyncNames();
          break;
      }
      tree.RunDuties();
    }
    return nullptr;
  }

  static Content Read(Store& store, const std::string& name) {
    auto found = store.tree().Lookup(index::kRootInode, name);
    if (!found.ok()) return std::nullopt;
    testing::StoreDriver driver(store);
    return driver.Read(name);
  }

  // Returns how many calls the whole workload makes; with `fail_from` > 0 everything fails from that call on.
  static std::uint64_t Crash(std::uint64_t workload, std::uint64_t fail_from, bool power_cut,
                             std::optional<std::uint64_t> survivors, bool* interrupted) {
    std::mt19937_64 random(workload);
    const std::vector<Step> steps = RandomSteps(random);
    World world;
    EXPECT_TRUE(world.Open().ok());
    Model model;
    const std::uint64_t before = world.files.calls();
    if (fail_from > 0) world.files.FailCallsFrom(fail_from, EIO);
    const Step* unfinished = Run(world, steps, model);
    const std::uint64_t calls = world.files.calls() - before;
    *interrupted = fail_from > 0 && calls >= fail_from;
    world.store->AbandonForTesting();
    world.store.reset();
    world.files.ClearFailures();
    if (power_cut) {
      world.files.CutPower(survivors);
      ++world.boots;
    } else {
      world.files.KillProcess();
    }
    const Status reopened = world.Open();
    EXPECT_TRUE(reopened.ok()) << "workload " << workload << " cut at " << fail_from << ": " << reopened.ToString();
    if (!reopened.ok()) return calls;
    for (const char* name : {"a", "b", "c"}) {
      const Content found = Read(*world.store, name);
      bool allowed = model.Allows(name, found);
      if (!power_cut) {
        // Everything a living system accepted is there. Only the step that failed may have left less: what its writer
        // had written until then.
        const bool in_progress = unfinished && (unfinished->name == name || unfinished->to == name);
        const Content now = model.Now(name);
        allowed = found == now || (in_progress && (allowed || (found && now && now->starts_with(*found))));
      }
      EXPECT_TRUE(allowed) << "workload " << workload << ", cut at call " << fail_from
                           << (power_cut ? " (power)" : " (kill)") << ": " << name << " holds "
                           << (found ? std::to_string(found->size()) + " bytes of " + found->substr(0, 1)
                                     : std::string("nothing"))
                           << ", allowed: " << model.Describe(name);
    }
    return calls;
  }
};

TEST_F(CrashTest, APowerCutAtAnyCallLeavesWholeContents) {
  int cuts = 0;
  for (std::uint64_t workload = 0; workload < 300; ++workload) {
    bool interrupted = false;
    const std::uint64_t calls = Crash(workload, 0, true, std::nullopt, &interrupted);
    std::mt19937_64 random(workload + 1000);
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t at = 1 + random() % (calls + 1);
      Crash(workload, at, true, std::nullopt, &interrupted);
      cuts += interrupted;
      Crash(workload, at, true, random(), &interrupted);
      cuts += interrupted;
    }
  }
  EXPECT_GT(cuts, 1000) << "too few cuts found work in flight";
}

TEST_F(CrashTest, AKillAtAnyCallLosesNothingThatWasClosed) {
  for (std::uint64_t workload = 0; workload < 200; ++workload) {
    bool interrupted = false;
    const std::uint64_t calls = Crash(workload, 0, false, std::nullopt, &interrupted);
    std::mt19937_64 random(workload + 2000);
    for (int i = 0; i < 4; ++i) Crash(workload, 1 + random() % (calls + 1), false, std::nullopt, &interrupted);
  }
}

}  // namespace
}  // namespace stepfs::store
