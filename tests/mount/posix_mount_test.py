#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File system calls through a mount: names, attributes, data, several processes."""
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import subprocess

import mount_fixture
from mount_fixture import MountTest

libc = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2


def renameat2(source, target, flags):
    if libc.renameat2(-100, os.fsencode(source), -100, os.fsencode(target), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


class Names(MountTest):
    def test_mount_is_shown_as_ours(self):
        line = [l for l in open("/proc/self/mounts") if str(self.m) in l][0].split()
        self.assertEqual((line[0], line[2]), (str(self.store), "fuse.stepfs"))
        for option in ("nosuid", "nodev", "default_permissions"):
            self.assertIn(option, line[3].split(","))

    def test_rename_replaces_refuses_and_exchanges(self):
        a, b = self.m / "a", self.m / "b"
        a.write_text("A"), b.write_text("B")
        self.assert_fails(errno.EEXIST, renameat2, a, b, RENAME_NOREPLACE)
        renameat2(a, b, RENAME_EXCHANGE)
        self.assertEqual((a.read_text(), b.read_text()), ("B", "A"))
        os.rename(a, b)
        self.assertEqual((b.read_text(), os.listdir(self.m)), ("B", ["b"]))
        self.assert_fails(errno.ENOENT, renameat2, b, a, RENAME_EXCHANGE)

    def test_directory_rename_keeps_open_files(self):
        (self.m / "d").mkdir()
        with open(self.m / "d" / "f", "w") as file:
            file.write("before ")
            file.flush()
            os.rename(self.m / "d", self.m / "e")
            file.write("after")
        self.assertEqual((self.m / "e" / "f").read_text(), "before after")
        self.assert_fails(errno.EINVAL, os.rename, self.m / "e", self.m / "e" / "below")
        self.assert_fails(errno.ENOTEMPTY, os.rmdir, self.m / "e")

    def test_links(self):
        (self.m / "f").write_text("x")
        os.link(self.m / "f", self.m / "g")
        self.assertEqual((self.m / "g").stat().st_nlink, 2)
        self.assertEqual((self.m / "f").stat().st_ino, (self.m / "g").stat().st_ino)
        self.assert_fails(errno.EEXIST, os.link, self.m / "f", self.m / "g")
        os.unlink(self.m / "f")
        self.assertEqual(((self.m / "g").read_text(), (self.m / "g").stat().st_nlink), ("x", 1))
        os.symlink("g", self.m / "s")
        self.assertEqual((os.readlink(self.m / "s"), (self.m / "s").read_text()), ("g", "x"))

    def test_unlinked_and_replaced_files_stay_readable(self):
        path = self.m / "f"
        path.write_text("old")
        with open(path, "r+") as unlinked:
            os.unlink(path)
            unlinked.seek(0, 2)
            unlinked.write("er")
            unlinked.flush()
            self.assertEqual((os.pread(unlinked.fileno(), 10, 0), os.fstat(unlinked.fileno()).st_nlink), (b"older", 0))
        path.write_text("one")
        (self.m / "t").write_text("two")
        with open(path) as replaced:
            os.rename(self.m / "t", path)
            self.assertEqual((replaced.read(), path.read_text()), ("one", "two"))

    def test_listing_of_5000_files(self):
        names = {f"file-{i:04d}" for i in range(5000)}
        folder = self.m / "many"
        folder.mkdir()
        for name in names:
            os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY))
        listed = os.listdir(folder)
        self.assertEqual((len(listed), set(listed)), (5000, names))
        with os.scandir(folder) as entries:
            self.assertTrue(all(e.is_file() and e.inode() == e.stat().st_ino for e in entries))

    def test_special_nodes(self):
        os.mkfifo(self.m / "fifo", 0o600)
        self.assertTrue(stat.S_ISFIFO((self.m / "fifo").stat().st_mode))
        self.assert_fails(errno.ENAMETOOLONG, os.mkdir, self.m / ("n" * 256))


class Attributes(MountTest):
    def test_mode_owner_and_times(self):
        path = self.m / "f"
        path.write_text("x")
        os.chmod(path, 0o640)
        os.utime(path, ns=(1_000_000_001, 2_000_000_002))
        if os.geteuid() == 0:
            os.chown(path, 12, 34)
            self.assertEqual((path.stat().st_uid, path.stat().st_gid), (12, 34))
        for _ in range(2):
            info = path.stat()
            self.assertEqual((stat.S_IMODE(info.st_mode), info.st_atime_ns, info.st_mtime_ns, info.st_size),
                             (0o640, 1_000_000_001, 2_000_000_002, 1))
            inode = info.st_ino
            self.remount()
            self.assertEqual(path.stat().st_ino, inode)

    def test_setgid_directory_hands_its_group_down(self):
        folder = self.m / "shared"
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, -1, 4321)
        os.chmod(folder, 0o2775)
        group = folder.stat().st_gid
        (folder / "f").write_text("x")
        (folder / "sub").mkdir()
        self.assertEqual(((folder / "f").stat().st_gid, (folder / "sub").stat().st_gid), (group, group))
        self.assertTrue((folder / "sub").stat().st_mode & stat.S_ISGID)

    def test_xattrs(self):
        path = self.m / "f"
        path.write_text("x" * 100)
        os.setxattr(path, "user.note", b"hello")
        self.assertEqual((os.getxattr(path, "user.note"), os.listxattr(path)), (b"hello", ["user.note"]))
        self.assert_fails(errno.EEXIST, os.setxattr, path, "user.note", b"", os.XATTR_CREATE)
        os.removexattr(path, "user.note")
        self.assert_fails(errno.ENODATA, os.getxattr, path, "user.note")
        self.assert_fails(errno.ENODATA, os.getxattr, path, "security.capability")
        self.committed("f", 1)
        self.assertEqual(os.getxattr(path, "user.stepfs.version"), b"1")
        self.assertEqual(os.listxattr(path), [])
        self.assert_fails(errno.EPERM, os.setxattr, path, "user.stepfs.version", b"2")

    def test_statfs(self):
        mounted, below = os.statvfs(self.m), os.statvfs(self.store)
        self.assertEqual((mounted.f_namemax, mounted.f_blocks), (255, below.f_blocks))


class Data(MountTest):
    def test_append_truncate_and_rewrite_in_place(self):
        path = self.m / "f"
        path.write_bytes(b"0123456789" * 1000)
        mount_fixture.run("sync", self.m)
        with open(path, "r+b") as file:  # sealed by now
            file.seek(5000)
            file.write(b"middle")
        with open(path, "ab") as file:
            file.write(b"end")
        expected = bytearray(b"0123456789" * 1000)
        expected[5000:5006] = b"middle"
        self.assertEqual(path.read_bytes(), bytes(expected) + b"end")
        os.truncate(path, 5003)
        self.assertEqual(path.read_bytes(), bytes(expected[:5003]))
        os.truncate(path, 6000)
        self.assertEqual(path.read_bytes(), bytes(expected[:5003]) + bytes(997))
        self.remount()
        self.assertEqual(path.read_bytes(), bytes(expected[:5003]) + bytes(997))

    def test_fallocate_and_seek(self):
        fd = os.open(self.m / "f", os.O_CREAT | os.O_RDWR)
        try:
            fallocate(fd, 0, 0, 1 << 20)
            self.assertEqual(os.fstat(fd).st_size, 1 << 20)
            fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 2 << 20)
            self.assertEqual(os.fstat(fd).st_size, 1 << 20)
            os.pwrite(fd, b"x" * 65536, 0)
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)
            self.assertEqual(os.pread(fd, 4098, 0), bytes(4096) + b"xx")
            self.assertEqual(os.lseek(fd, 8192, os.SEEK_DATA), 8192)
            self.assert_fails(errno.ENXIO, os.lseek, fd, 1 << 20, os.SEEK_DATA)
        finally:
            os.close(fd)

    def test_mapped_file(self):
        with open(self.m / "f", "w+b") as file:
            file.truncate(10_000)
            with mmap.mmap(file.fileno(), 0) as view:
                view[5000:5005] = b"store"
                view.flush()
        self.assertEqual((self.m / "f").read_bytes()[4999:5006], b"\0store\0")

    def test_fsync_of_files_and_directories(self):
        fd = os.open(self.m / "f", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"x")
        os.fsync(fd), os.fdatasync(fd), os.close(fd)
        fd = os.open(self.m, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(fd), os.close(fd)

    def test_locks_are_local_and_released_at_close(self):
        path = self.m / "f"
        path.write_text("x")
        with open(path) as first, open(path) as second:
            fcntl.flock(first, fcntl.LOCK_EX)
            self.assert_fails(errno.EAGAIN, fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            first.close()
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_many_processes(self):
        script = """for i in $(seq 20); do head -c 30000 /dev/zero | tr '\\0' $2 > "$1/$2.tmp"; mv "$1/$2.tmp" "$1/$2"
                    echo $2 >> "$1/all"; done"""
        writers = [subprocess.Popen(["sh", "-ec", script, "-", self.m, letter]) for letter in "abcdef"]
        for writer in writers:
            self.assertEqual(writer.wait(timeout=mount_fixture.TIMEOUT_S), 0)
        for letter in "abcdef":
            self.assertEqual((self.m / letter).read_text(), letter * 30000)
        self.assertEqual(sorted((self.m / "all").read_text().split()), sorted("abcdef" * 20))


if __name__ == "__main__":
    mount_fixture.main()
