#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds, and runs every test but those labelled slow; ends with ctest's own summary.
#
#     ./tests/run.sh            a release build with everything, then ASan + UBSan over base, codec, index and store
#     ./tests/run.sh --slow     the tests labelled slow as well
set -uo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
# shellcheck source=mount-scripts/packages.sh
. mount-scripts/packages.sh
exclude=(-LE slow)
[ "${1:-}" != --slow ] || exclude=()

install_packages "${STEPFS_BUILD_PACKAGES[@]}" "${STEPFS_TEST_PACKAGES[@]}" || exit 1
jobs=$(nproc)

# build PRESET: configures and builds; prints only what goes wrong.
build() {
  local log=build/$1.log
  mkdir -p build
  echo "== building $1"
  # shellcheck disable=SC2046
  if ! cmake --preset "$1" $(launcher_options) > "$log" 2>&1 || ! cmake --build --preset "$1" -j "$jobs" >> "$log" 2>&1; then
    grep -nE 'error|FAILED|warning' "$log" | head -n 40
    tail -n 20 "$log"
    return 1
  fi
}

# Sanitizers first, so that the last lines are those of the complete run.
sanitized=0
build asan-ubsan || exit 1
echo "== tests under address and undefined-behaviour sanitizers"
ctest --test-dir build/asan-ubsan -j "$jobs" -L 'unit|golden|fuzz-replay' -LE 'slow|mount' --output-on-failure || sanitized=1

build release || exit 1
if [ ! -e /dev/fuse ]; then
  echo "!! /dev/fuse is absent: the mount tests are SKIPPED. Everything else runs."
fi
[ $sanitized -eq 0 ] || echo "!! tests failed under sanitizers (above); the run as a whole fails whatever follows"
echo "== tests of the release build"
ctest --test-dir build/release -j "$jobs" "${exclude[@]}" --output-on-failure
status=$?
[ $sanitized -eq 0 ] || exit 1
exit $status
