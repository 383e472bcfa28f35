#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh clone to a mounted stepfs with a few checkpoints in it:
#
#     ./mount-scripts/quickstart.sh [--mount DIR] [--store DIR] [--no-demo]
#
# Installs what is missing, builds a release, mounts, trains something small into the mount, lists the versions it left,
# restores one and compares it. May be run again at any time.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
mount_dir=$HOME/ckpts
store_dir=$HOME/.local/share/stepfs/store
demo=yes

usage() {
  echo "usage: $0 [--mount DIR] [--store DIR] [--no-demo]"
}
while [ $# -gt 0 ]; do
  case $1 in
    --mount) mount_dir=${2:?"--mount needs a directory"}; shift 2 ;;
    --store) store_dir=${2:?"--store needs a directory"}; shift 2 ;;
    --no-demo) demo=no; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# shellcheck source=mount-scripts/packages.sh
. "$top/mount-scripts/packages.sh"

echo "== 1. What is needed"
install_packages "${STEPFS_BUILD_PACKAGES[@]}"

echo "== 2. Build (build/quickstart)"
build=$top/build/quickstart
# shellcheck disable=SC2046
cmake -S "$top" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTEPFS_TESTS=OFF -DSTEPFS_BENCHMARKS=OFF \
  $(launcher_options) > "$top/build-quickstart.log" 2>&1 || { cat "$top/build-quickstart.log" >&2; exit 1; }
cmake --build "$build" >> "$top/build-quickstart.log" 2>&1 || { tail -n 40 "$top/build-quickstart.log" >&2; exit 1; }
rm -f "$top/build-quickstart.log"
stepfs=$build/src/cli/stepfs
echo "built $stepfs"

echo "== 3. Mount"
if [ ! -e /dev/fuse ]; then
  echo "There is no /dev/fuse here: load the fuse kernel module, or in a container pass --device /dev/fuse --cap-add SYS_ADMIN." >&2
  exit 1
fi
if [ "$(awk -v dir="$(realpath -m "$mount_dir")" '$2 == dir {type = $3} END {print type}' /proc/mounts)" = fuse.stepfs ] &&
  "$stepfs" status "$mount_dir" > /dev/null 2>&1; then
  echo "already mounted at $mount_dir"
else
  mkdir -p "$mount_dir" "$(dirname "$store_dir")" 2> /dev/null || true  # A stale mount point cannot be made; mount mends it.
  "$stepfs" mount "$store_dir" "$mount_dir"
  echo "mounted $store_dir at $mount_dir"
fi

if [ "$demo" = yes ]; then
  echo "== 4. Train something, saving over one name"
  run=$mount_dir/demo
  mkdir -p "$run"
  if python3 -c 'import torch' 2> /dev/null; then
    python3 "$top/mount-scripts/demo/train_torch.py" "$run/last.pt"
    last=last.pt
  else
    "$build/mount-scripts/demo/stepfs-demo" "$run/last.safetensors"
    last=last.safetensors
  fi
  "$stepfs" sync "$mount_dir"

  echo "== 5. Every save is still there"
  ls -l "$run/.stepfs/versions/$last/"
  "$stepfs" log "$run/$last"

  echo "== 6. Restore one and compare"
  version=$(find "$run/.stepfs/versions/$last" -name 'v*' | sort | tail -n 2 | head -n 1)
  restored=$(mktemp)
  trap 'rm -f "$restored"' EXIT
  cp "$version" "$restored"
  cmp "$version" "$restored"
  "$stepfs" cat "$store_dir" "demo/$last@$(basename "$version" | tr -d v | sed 's/^0*//')" | cmp - "$restored"
  echo "restored $(basename "$version") bit for bit"
  "$stepfs" status "$mount_dir"
fi

cat << EOF

What next:
  point a training job at $mount_dir   (any framework; nothing in it changes)
  ls $mount_dir/RUN/.stepfs/versions/FILE/    its older versions, as ordinary files
  $stepfs log $mount_dir                      what each save cost
  $stepfs umount $mount_dir                   when you are done; $stepfs mount $store_dir $mount_dir brings it back
EOF
