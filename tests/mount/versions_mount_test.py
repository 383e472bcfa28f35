#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The .stepfs directories through a mount: versions, what was deleted, and that nothing there can be changed."""
import errno
import os
import random
import shutil
import stat
import subprocess

import mount_fixture
from mount_fixture import MountTest


class Versions(MountTest):
    def write_three(self, name="last.pt"):
        contents = [random.Random(i).randbytes(100_000 + i) for i in range(3)]
        for count, content in enumerate(contents, 1):
            (self.m / name).write_bytes(content)
            self.committed(name, count)
        return contents

    def test_every_version_is_a_file(self):
        contents = self.write_three()
        for when in ("staged", "sealed", "remounted"):
            with self.subTest(when):
                versions = self.versions("last.pt")
                self.assertEqual([v.name for v in versions], ["v000001", "v000002", "v000003"])
                self.assertEqual([v.read_bytes() for v in versions], contents)
                self.assertEqual([v.stat().st_size for v in versions], [len(c) for c in contents])
                self.assertTrue(all(v.stat().st_blocks > 0 for v in versions))
            if when == "staged":
                mount_fixture.run("sync", self.m)
            else:
                self.remount()
        self.assertEqual(os.getxattr(versions[1], "user.stepfs.state"), b"sealed")
        self.assertEqual(os.getxattr(versions[1], "user.stepfs.version"), b"2")
        self.assertTrue(os.getxattr(versions[1], "user.stepfs.digest").startswith(b"xxh3-128:"))
        self.assertEqual(os.listxattr(versions[1]), [])

    def test_tools_copy_them(self):
        contents = self.write_three()
        folder = self.m / ".stepfs" / "versions" / "last.pt"
        subprocess.run(["cp", folder / "v000002", self.m / "restored.pt"], check=True)
        subprocess.run(["cmp", folder / "v000002", self.m / "restored.pt"], check=True)
        subprocess.run(["cp", "-a", folder, self.top / "copy"], check=True)
        subprocess.run(["tar", "-cSf", self.top / "all.tar", "-C", folder, "."], check=True)
        (self.top / "out").mkdir()
        subprocess.run(["tar", "-xf", self.top / "all.tar", "-C", self.top / "out"], check=True)
        for place in ("copy", "out"):
            self.assertEqual((self.top / place / "v000003").read_bytes(), contents[2])
        self.assertIn("v000001", subprocess.run(["ls", "-l", folder], check=True, capture_output=True, text=True).stdout)

    def test_a_step_is_another_name_of_its_version(self):
        folder = self.m / "checkpoint-500"
        folder.mkdir()
        (folder / "model.bin").write_bytes(b"w" * 5000)
        self.committed("model.bin", 1, folder)
        listing = folder / ".stepfs" / "versions" / "model.bin"
        self.assertEqual(sorted(os.listdir(listing)), ["step-500", "v000001"])
        self.assertEqual((listing / "step-500").stat().st_ino, (listing / "v000001").stat().st_ino)
        for wrong in ("step-0500", "step-501", "v1", "v0000001", "v000002", "v"):
            self.assertFalse((listing / wrong).exists(), wrong)

    def test_it_is_in_no_listing(self):
        self.write_three()
        self.assertEqual(os.listdir(self.m), ["last.pt"])
        self.assertEqual(sorted(os.listdir(self.m / ".stepfs")), ["deleted", "versions"])
        inode = (self.m / ".stepfs").stat().st_ino
        self.assertGreaterEqual(inode, 1 << 63)
        self.assertEqual((self.m / ".stepfs").stat().st_ino, inode)

    def test_nothing_can_be_changed(self):
        self.write_three()
        version = self.m / ".stepfs" / "versions" / "last.pt" / "v000001"
        self.assert_fails(errno.EEXIST, os.mkdir, self.m / ".stepfs")
        self.assert_fails(errno.EROFS, os.rmdir, self.m / ".stepfs")
        self.assert_fails(errno.EROFS, os.rename, self.m / ".stepfs", self.m / "x")
        if os.geteuid() == 0:  # Others are refused by the permissions before.
            self.assert_fails(errno.EROFS, os.unlink, version)
            self.assert_fails(errno.EROFS, os.chmod, version, 0o777)
            self.assert_fails(errno.EROFS, os.truncate, version, 0)
            self.assert_fails(errno.EROFS, os.open, version, os.O_RDWR)
            self.assert_fails(errno.EROFS, os.open, version.with_name("new"), os.O_CREAT | os.O_WRONLY)
            self.assert_fails(errno.EROFS, os.mkdir, version.with_name("new"))
            self.assert_fails(errno.EROFS, os.link, version, self.m / "linked")
            self.assert_fails(errno.EROFS, os.setxattr, version, "user.x", b"1")
        with open(version, "rb") as file:
            self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_HOLE), os.fstat(file.fileno()).st_size)

    def test_who_may_not_read_the_file_may_not_read_its_history(self):
        path = self.m / "secret"
        path.write_text("x" * 2000)
        os.chmod(path, 0o600)
        self.committed("secret", 1)
        os.chmod(path, 0o644)
        path.write_text("y" * 2000)
        _, second = self.committed("secret", 2)
        os.chmod(path, 0o400)
        self.assertEqual(stat.S_IMODE(second.stat().st_mode), 0o400)
        os.chmod(self.m, 0o750)
        self.assertEqual(stat.S_IMODE((self.m / ".stepfs" / "versions").stat().st_mode), 0o550)


class Deleted(MountTest):
    def deleted(self, *parts):
        return self.m.joinpath(".stepfs", "deleted", *parts)

    def test_removed_file(self):
        (self.m / "f").write_text("first " * 300)
        self.committed("f", 1)
        os.unlink(self.m / "f")
        self.assertEqual(self.deleted("f", "v000001").read_text(), "first " * 300)
        self.assertFalse((self.m / ".stepfs" / "versions" / "f").exists())
        (self.m / "f").write_text("second " * 300)
        self.assertEqual(len(self.committed("f", 2)), 2)
        self.assertEqual(os.listdir(self.deleted("f")), ["v000001"])

    def test_removed_directories(self):
        for content in ("one", "two"):
            folder = self.m / "checkpoint-1" / "sub"
            folder.mkdir(parents=True)
            (folder.parent / "model").write_text(content * 1000)
            (folder / "state").write_text(content * 500)
            self.committed("model", 1, folder.parent)
            self.committed("state", 1, folder)
            shutil.rmtree(self.m / "checkpoint-1")
        self.assertEqual(sorted(os.listdir(self.deleted("checkpoint-1"))), ["1", "2"])
        for number, content in (("1", "one"), ("2", "two")):
            grave = self.deleted("checkpoint-1", number)
            self.assertEqual(sorted(os.listdir(grave)), ["model", "sub"])
            self.assertEqual((grave / "model").read_text(), content * 1000)
            self.assertEqual((grave / "sub" / "state").read_text(), content * 500)
        shutil.copytree(self.deleted("checkpoint-1", "2"), self.m / "back")
        self.assertEqual((self.m / "back" / "sub" / "state").read_text(), "two" * 500)
        self.remount()
        self.assertEqual(self.deleted("checkpoint-1", "1", "model").read_text(), "one" * 1000)


if __name__ == "__main__":
    mount_fixture.main()
