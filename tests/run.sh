#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds a release, and runs every test but those labelled slow; ends with ctest's own summary.
#
#     ./tests/run.sh               the release build
#     ./tests/run.sh --slow        the tests labelled slow as well
#     ./tests/run.sh --sanitize    before that, base, codec, index and store under ASan + UBSan
set -uo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
# shellcheck source=mount-scripts/packages.sh
. mount-scripts/packages.sh
exclude=(-LE slow)
sanitize=no
for option in "$@"; do
  case $option in
    --slow) exclude=() ;;
    --sanitize) sanitize=yes ;;
    *) echo "usage: $0 [--slow] [--sanitize]" >&2; exit 2 ;;
  esac
done

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
if [ $sanitize = yes ]; then
  build asan-ubsan || exit 1
  echo "== tests under address and undefined-behaviour sanitizers"
  ctest --test-dir build/asan-ubsan -j "$jobs" -L 'unit|golden|fuzz-replay' -LE 'slow|mount' --output-on-failure ||
    sanitized=1
fi

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
