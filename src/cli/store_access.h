// SPDX-License-Identifier: Apache-2.0
//
// From what a user names to a store that answers: the owner of the store when there is one, else the store itself,
// opened by this process.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/progress.h"
#include "store/control.h"
#include "store/report.h"

namespace stepfs::cli {

// What a PATH argument means.
struct Location {
  std::string store;    // The store directory, absolute.
  std::string path;     // From the root of the mount; empty for all of it.
  std::string version;  // Set when the path names one in .stepfs/versions or .stepfs/deleted.
};

// `path` is a store, or anything in or at a mount, be it there now or only in the history.
Result<Location> Locate(const std::string& path);

// "run1/last.pt@12" -> ("run1/last.pt", "12"). A name may hold an '@': only what is a version after the last one
// counts.
struct PathAndVersion {
  std::string path;
  std::string version;  // Empty: none given.
};
PathAndVersion SplitVersion(const std::string& text);

class StoreAccess {
 public:
  // `start_threads`: when this process opens the store itself, the encoder works as well.
  static Result<StoreAccess> Open(const std::string& store, bool start_threads = false);

  Result<store::Json> Call(const store::Json& request, store::ReplySink& sink);

 private:
  StoreAccess() = default;
  std::optional<store::ControlClient> owner_;
  std::unique_ptr<store::Store> store_;
};

// A sink for commands whose answer is the result alone; draws a bar when it is given one.
class QuietSink : public store::ReplySink {
 public:
  explicit QuietSink(ProgressBar* bar = nullptr) : bar_(bar) {}
  bool Progress(std::uint64_t done, std::uint64_t total) override {
    if (bar_ != nullptr) bar_->Update(done, total);
    return true;
  }
  Status Item(const store::Json&) override { return {}; }
  Status Data(Bytes) override { return {}; }

 private:
  ProgressBar* bar_;
};

}  // namespace stepfs::cli
