// SPDX-License-Identifier: Apache-2.0
//
// The one place that includes libfuse, and the one that knows its versions differ: 3.14 (Debian 12) to 3.17 (Debian
// 13).
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <cstdint>
#include <memory>

namespace stepfs::fs {

// Turns a capability (FUSE_CAP_*) on if the kernel offers it, or off.
inline void Want(fuse_conn_info& connection, std::uint64_t capability, bool on) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  if (on) {
    fuse_set_feature_flag(&connection, capability);
  } else {
    fuse_unset_feature_flag(&connection, capability);
  }
#else
  const auto bit = static_cast<unsigned>(capability);
  connection.want = on ? connection.want | (connection.capable & bit) : connection.want & ~bit;
#endif
}

// Serves requests until the mount goes away or fuse_session_exit is called. 0, or a negative errno.
inline int RunLoop(fuse_session* session, unsigned max_threads) {
  const std::unique_ptr<fuse_loop_config, void (*)(fuse_loop_config*)> config(fuse_loop_cfg_create(),
                                                                              fuse_loop_cfg_destroy);
  if (!config) return -ENOMEM;
  fuse_loop_cfg_set_clone_fd(config.get(), 1);
  fuse_loop_cfg_set_max_threads(config.get(), max_threads);
  // Threads that come and go cost more than threads that wait.
  fuse_loop_cfg_set_idle_threads(config.get(), max_threads);
  return fuse_session_loop_mt(session, config.get());
}

}  // namespace stepfs::fs
