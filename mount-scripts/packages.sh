# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by quickstart.sh and tests/run.sh: installs the Debian packages that are missing, and says which.

# What stepfs is built from, and what it needs to run. The same names in Debian 12, Debian 13 and Ubuntu 24.04.
# shellcheck disable=SC2034
STEPFS_BUILD_PACKAGES=(cmake ninja-build g++ pkg-config fuse3 libfuse3-dev liblmdb-dev libspdlog-dev libxxhash-dev
  libzstd-dev nlohmann-json3-dev libcli11-dev)
# shellcheck disable=SC2034
STEPFS_TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy python3-zstandard python3-xxhash
  attr acl)

# install_packages PACKAGE...: as root or with sudo; elsewhere than on Debian and its relatives it names them and goes on.
install_packages() {
  local missing=() package
  if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    echo "stepfs: this is no Debian or Ubuntu; make sure that you have what these packages hold: $*" >&2
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo > /dev/null; then
      echo "stepfs: missing packages, and no sudo to install them with: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "stepfs: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    > /dev/null
}

# launcher_options: prints the CMake option that uses ccache, where it is installed.
launcher_options() {
  if command -v ccache > /dev/null; then echo "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"; fi
}
