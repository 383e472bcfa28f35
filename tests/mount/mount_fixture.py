# SPDX-License-Identifier: Apache-2.0
"""A store and its mount in a private folder, for unittest. Runs as `NAME_test.py STEPFS`.

Exit code 77, with the reason printed, where /dev/fuse is absent; where it is there, a mount that fails is a failure.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TIMEOUT_S = 60
STEPFS = None


def run(*arguments, check=True):
    done = subprocess.run([STEPFS, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S)
    if check and done.returncode != 0:
        raise AssertionError(f"stepfs {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr}")
    return done


def daemon_of(store):
    """Process id of who has the store open."""
    return int((store / "lock").read_text().split()[1])


def wait_until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.02)


class MountTest(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="stepfs-mount-"))
        self.addCleanup(self.tear_down_mount)
        self.store, self.m = self.top / "store", self.top / "mnt"
        self.m.mkdir()
        self.mount()

    def tear_down_mount(self):
        subprocess.run(["umount", "-l", self.m], capture_output=True, timeout=TIMEOUT_S, check=False)
        try:  # What still serves is ours: it has our store open.
            pid = daemon_of(self.store)
            os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass
        shutil.rmtree(self.top, ignore_errors=True)

    def mount(self, *options):
        run("mount", *options, self.store, self.m)

    def umount(self):
        run("umount", self.m)

    def remount(self):
        self.umount()
        self.mount()

    def kill(self):
        pid = daemon_of(self.store)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}") or
                   open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z", "the daemon is gone")

    def versions(self, name, folder=None):
        listing = (folder or self.m) / ".stepfs" / "versions" / name
        return sorted(path for path in listing.iterdir() if path.name.startswith("v"))

    def committed(self, name, count, folder=None):
        """Versions of a name, once there are `count`: RELEASE, which commits, comes after close(2) has returned."""
        listing = (folder or self.m) / ".stepfs" / "versions" / name
        wait_until(lambda: listing.exists() and len(self.versions(name, folder)) >= count, f"{name} has {count} versions")
        versions = self.versions(name, folder)
        self.assertEqual(len(versions), count)
        return versions

    def assert_fails(self, error, call, *arguments):
        with self.assertRaises(OSError) as raised:
            call(*arguments)
        self.assertEqual(raised.exception.errno, error, os.strerror(raised.exception.errno or 0))


def main():
    global STEPFS
    if not os.path.exists("/dev/fuse"):
        print("SKIPPED: there is no /dev/fuse", flush=True)
        sys.exit(77)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("SKIPPED: no permission for /dev/fuse", flush=True)
        sys.exit(77)
    STEPFS = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(module="__main__", verbosity=2)
