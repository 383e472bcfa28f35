#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands mount and umount, and the others inside a mount: mount_commands_test.py STEPFS. Exit code 77: skipped."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

STEPFS = os.path.abspath(sys.argv.pop(1))


def stepfs(*arguments, code=0):
    done = subprocess.run([STEPFS, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    if done.returncode != code:
        raise AssertionError(f"stepfs {arguments}: exit code {done.returncode}, expected {code}: {done.stderr}")
    if code == 1:
        assert done.stderr.startswith("stepfs: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr if code else done.stdout


class MountCommands(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="stepfs-commands-"))
        self.store, self.point = self.top / "store", self.top / "mnt"
        self.point.mkdir()
        self.addCleanup(self.clean)

    def clean(self):
        if str(self.point) in pathlib.Path("/proc/self/mounts").read_text():
            subprocess.run(["umount", "-l", self.point], check=False, timeout=60)
        shutil.rmtree(self.top, ignore_errors=True)

    def kill_daemon(self):
        pid = int((self.store / "lock").read_text().split()[1])
        os.kill(pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)

    def test_paths_inside_a_mount_name_their_history(self):
        stepfs("mount", self.store, self.point)
        run = self.point / "run"
        run.mkdir()
        for content in ("first", "second"):
            (run / "last.pt").write_text(content)
        (run / "gone.pt").write_text("gone")
        (run / "gone.pt").unlink()
        stepfs("sync", run)

        def log(path):
            return [(v["path"], v["version"]) for v in json.loads(stepfs("log", "--json", path))]

        both = [("run/last.pt", 1), ("run/last.pt", 2)]
        self.assertEqual(log(run / "last.pt"), both)
        self.assertEqual(log(run / ".stepfs/versions/last.pt"), both)
        self.assertEqual(log(run / ".stepfs/versions/last.pt/v000001"), both[:1])
        self.assertEqual(log(run / "gone.pt"), [("run/gone.pt", 1)])
        self.assertEqual(log(run / ".stepfs/deleted/gone.pt/v000001"), [("run/gone.pt", 1)])
        self.assertEqual(sorted(log(self.point)), [("run/gone.pt", 1), *both])
        self.assertEqual(json.loads(stepfs("status", "--json", run / "last.pt"))["versions"], 3)
        self.assertEqual(stepfs("cat", self.point, "run/last.pt@1"), "first")
        self.assertEqual(stepfs("cat", run, "gone.pt"), "gone")
        self.assertEqual(stepfs("cat", self.store, run / "last.pt"), "second")
        stepfs("umount", self.point)
        self.assertEqual(list(self.point.iterdir()), [])

    def test_a_dead_mount_is_cleaned_by_the_next(self):
        stepfs("mount", self.store, self.point)
        (self.point / "a").write_text("kept")
        self.kill_daemon()
        self.assertEqual(stepfs("cat", self.store, "a"), "kept")
        for _ in range(3):  # The kernel remembers the root of a dead mount for a moment: mount again at once.
            stepfs("mount", self.store, self.point)
            self.assertEqual((self.point / "a").read_text(), "kept")
            os.stat(self.point)
            self.kill_daemon()
        stepfs("mount", self.store, self.point)
        stepfs("umount", self.point)

    def test_bad_input_is_one_line_and_changes_nothing(self):
        (self.top / "full").mkdir()
        (self.top / "full" / "file").touch()
        for store, point, says in [
            (self.store, self.top / "absent", "mkdir -p"),
            (self.store, self.top / "full", "not empty"),
            (self.store, self.top / "full" / "file", "not a directory"),
            (self.point / "store", self.point, "inside"),
            (self.top / "full", self.point, "not a stepfs store"),
        ]:
            self.assertIn(says, stepfs("mount", store, point, code=1))
        self.assertFalse(self.store.exists())
        self.assertIn("not a stepfs mount", stepfs("umount", self.point, code=1))
        stepfs("mount", self.store, self.point)
        second = self.top / "second"
        second.mkdir()
        self.assertIn("in use", stepfs("mount", self.store, second, code=1))
        self.assertIn("already", stepfs("mount", self.top / "other", self.point, code=1))
        self.assertFalse((self.top / "other").exists())
        with open(self.point / "held", "w"):
            self.assertIn("in use", stepfs("umount", self.point, code=1))
        stepfs("umount", self.point)

    def test_each_save_is_a_line_in_the_log(self):
        stepfs("mount", self.store, self.point)
        (self.point / "a\nb").write_bytes(os.urandom(100_000))
        stepfs("umount", self.point)
        stepfs("sync", self.store)
        stepfs("mount", self.store, self.point)
        (self.point / "c").write_bytes(os.urandom(100_000))
        stepfs("sync", self.point)
        stepfs("umount", self.point)
        saves = [line for line in (self.store / "log/stepfs.log").read_text().splitlines() if " saved " in line]
        self.assertTrue(any("saved c v000001: 100000 bytes, " in line for line in saves), saves)

    def test_the_foreground_ends_by_a_signal(self):
        daemon = subprocess.Popen([STEPFS, "mount", "--foreground", self.store, self.point], stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.kill)
        until = time.monotonic() + 30
        while not os.path.ismount(self.point) and time.monotonic() < until:
            time.sleep(0.02)
        (self.point / "a").write_text("x")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=30), 0)
        self.assertFalse(os.path.ismount(self.point))
        self.assertEqual(stepfs("cat", self.store, "a"), "x")


if __name__ == "__main__":
    if not os.path.exists("/dev/fuse"):
        print("SKIPPED: /dev/fuse is absent", flush=True)
        sys.exit(77)
    unittest.main(verbosity=2)
