#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounting, unmounting, refusals, and what a killed daemon leaves."""
import os
import random
import signal
import subprocess
import threading
import time

import mount_fixture
from mount_fixture import MountTest, daemon_of, run, wait_until


class Session(MountTest):
    def test_content_and_inodes_survive_a_new_mount(self):
        (self.m / "d").mkdir()
        (self.m / "d" / "f").write_bytes(b"z" * 300_000)
        inode = (self.m / "d" / "f").stat().st_ino
        self.remount()
        self.assertEqual((self.m / "d" / "f").read_bytes(), b"z" * 300_000)
        self.assertEqual((self.m / "d" / "f").stat().st_ino, inode)

    def test_signals_end_it_cleanly(self):
        for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            (self.m / "f").write_text(ending.name)
            pid = daemon_of(self.store)
            os.kill(pid, ending)
            wait_until(lambda: not os.path.ismount(self.m), f"{ending.name} unmounts")
            wait_until(lambda: not os.path.exists(f"/proc/{pid}") or "\nState:\tZ" in open(f"/proc/{pid}/status").read(),
                       "the daemon has ended")
            self.mount()
            self.assertEqual((self.m / "f").read_text(), ending.name)

    def test_foreground(self):
        self.umount()
        with subprocess.Popen([mount_fixture.STEPFS, "mount", "--foreground", self.store, self.m],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
            try:
                wait_until(lambda: os.path.ismount(self.m), "it is mounted")
                (self.m / "f").write_text("x")
                run("umount", self.m)
                self.assertEqual(server.wait(timeout=mount_fixture.TIMEOUT_S), 0, server.stderr.read())
            finally:
                server.kill()

    def test_umount_of_a_mount_in_use_says_who(self):
        with open(self.m / "f", "w"):
            done = run("umount", self.m, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(os.getpid()), done.stderr)
        self.umount()
        done = run("umount", self.m, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)

    def refused(self, word, *arguments):
        done = run("mount", *arguments, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(word, done.stderr)

    def test_refusals(self):
        point = self.top / "other"
        fresh = self.top / "fresh"
        self.refused("mkdir", fresh, point)
        point.mkdir()
        (point / "here").write_text("x")
        self.refused("not empty", fresh, point)
        self.refused("not a directory", fresh, point / "here")
        (point / "here").unlink()
        self.refused("inside", point / "store", point)
        self.refused("inside", self.top, point)
        self.refused("in use", self.store, point)
        self.refused("already", fresh, self.m)
        self.refused("inside", self.m / "store", point)
        self.assertFalse(fresh.exists())
        fresh.mkdir(mode=0o700)
        (fresh / "format.json").write_text('{"format": "stepfs-store", "version": 99, "features": []}')
        self.refused("99", fresh, point)
        self.assertEqual(os.listdir(fresh), ["format.json"])
        self.assertFalse(os.path.ismount(point))


class Killed(MountTest):
    def test_what_was_closed_is_whole(self):
        rng = random.Random(7)
        for number in range(4):
            closed, stop = {}, threading.Event()

            def write(letter):
                i = 0
                try:
                    while not stop.is_set():
                        name, content = f"{letter}{number}-{i % 5}", bytes([i % 251]) * (1000 + 37_123 * (i % 4))
                        closed.pop(name, None)
                        with open(self.m / name, "wb") as file:
                            file.write(content)
                        closed[name] = content
                        i += 1
                except OSError:
                    pass  # The daemon is gone.

            writers = [threading.Thread(target=write, args=(letter,)) for letter in "abc"]
            for writer in writers:
                writer.start()
            time.sleep(rng.uniform(0.1, 0.6))
            self.kill()
            stop.set()
            for writer in writers:
                writer.join()
            self.mount()  # Takes the dead mount away.
            self.assertTrue(closed)
            for name, content in closed.items():
                self.assertEqual((self.m / name).read_bytes(), content, name)

    def test_passed_on_bytes_of_an_open_file_are_kept(self):
        (self.m / "log").write_bytes(b"1" * 10_000)
        self.committed("log", 1)
        with open(self.m / "log", "ab", buffering=0) as file:
            file.write(b"2" * 10_000)
            self.kill()
            try:
                file.close()
            except OSError:
                pass
        self.mount()
        kept = [self.m / "log", *(self.m / ".stepfs" / "versions" / "log").iterdir()]
        partial = self.m / ".stepfs" / "deleted" / "log"
        if partial.exists():
            kept += partial.iterdir()
        contents = [path.read_bytes() for path in kept]
        self.assertIn(b"1" * 10_000, contents)
        self.assertIn(b"1" * 10_000 + b"2" * 10_000, contents)


if __name__ == "__main__":
    mount_fixture.main()
