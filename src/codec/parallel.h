// SPDX-License-Identifier: Apache-2.0
//
// ParallelFor: an OpenMP loop over independent work items whose answer does not depend on timing.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/status.h"

namespace stepfs::codec {

// The number of OpenMP threads that `threads` asks for; 0 means one a processor.
inline int ThreadCount(int threads) { return threads > 0 ? threads : omp_get_num_procs(); }

// Calls body(item, worker) -> Status for every item in [0, count) on up to `threads` threads; worker is in
// [0, threads). All items run even when one fails; the failure of the lowest-numbered item comes back. Exceptions of
// the body become a Status on the thread that threw.
// REQUIRES: threads >= 1; body may be called from several threads at once.
template <typename Body>
Status ParallelFor(std::size_t count, int threads, const Body& body) {
  const auto guarded = [&body](std::size_t item, int worker) -> Status {
    try {
      return body(item, worker);
    } catch (const std::bad_alloc&) {
      return Status::NoMemory("out of memory");
    } catch (const std::exception& failure) {
      return Status::InvalidArgument(std::string("unexpected exception: ") + failure.what());
    }
  };
  std::vector<Status> statuses(count);
  if (threads == 1 || count < 2) {
    for (std::size_t item = 0; item < count; ++item) statuses[item] = guarded(item, 0);
  } else {
    const int workers = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads), count));
#pragma omp parallel for schedule(dynamic) num_threads(workers)
    for (std::size_t item = 0; item < count; ++item) statuses[item] = guarded(item, omp_get_thread_num());
  }
  for (Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

}  // namespace stepfs::codec
