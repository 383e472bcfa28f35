#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sequences of real checkpoints through a mount and compares every version of them.

    corpus_test.py STEPFS

Each folder of the corpus (STEPFS_CORPUS, else ../shared/corpus beside the checkout) that holds two files or more is a
sequence, in order of the names. It is written twice: over one name, and under its own step-numbered names. After
`stepfs sync`, after umount and mount, and once more with the cache emptied, every version must equal its original; and
all of them together must need at most 0.27 of what was written. Exit code 77: skipped.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MOST_STORED = 0.27
TIMEOUT_S = 240


def skip(reason):
    print(f"SKIPPED: {reason}", flush=True)
    sys.exit(77)


def find_corpus():
    beside = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
    corpus = pathlib.Path(os.environ.get("STEPFS_CORPUS", beside))
    if not corpus.is_dir():
        skip(f"there is no corpus at {corpus}; set STEPFS_CORPUS to a folder of checkpoint sequences")
    sequences = {}
    for folder in sorted(corpus.iterdir()):
        files = sorted(entry for entry in folder.iterdir() if entry.is_file()) if folder.is_dir() else []
        files = [file for file in files if file.suffix in (".pt", ".safetensors")]
        if len(files) >= 2:
            sequences[folder.name] = files
    if not sequences:
        skip(f"{corpus} holds no sequence")
    return sequences


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Mount:
    """A store and its mount in a private folder; unmounted whatever happens."""

    def __init__(self, stepfs):
        self.stepfs = stepfs
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="stepfs-corpus-"))
        self.store, self.point = self.top / "store", self.top / "mnt"
        self.point.mkdir()

    def run(self, *arguments):
        done = subprocess.run([self.stepfs, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode != 0:
            raise SystemExit(f"stepfs {' '.join(map(str, arguments))}: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def mount(self, *options):
        self.run("mount", *options, self.store, self.point)

    def umount(self):
        self.run("umount", self.point)

    def __enter__(self):
        self.mount()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            log = self.store / "log" / "stepfs.log"
            if log.exists():
                print("the end of the log:", *log.read_text(errors="replace").splitlines()[-30:], sep="\n  ")
        if os.path.ismount(self.point):
            subprocess.run(["umount", "-l", self.point], timeout=TIMEOUT_S, check=False)
        shutil.rmtree(self.top, ignore_errors=True)


def write(source, target):
    with open(source, "rb") as origin, open(target, "wb") as copy:
        shutil.copyfileobj(origin, copy, 1 << 20)


def expect(condition, message):
    if not condition:
        raise SystemExit(f"FAILED: {message}")


def compare(mount, sequences, digests, when):
    for name, files in sequences.items():
        over = mount.point / "over" / name
        last = f"last{files[0].suffix}"
        versions = sorted(path for path in (over / ".stepfs" / "versions" / last).iterdir() if path.name[0] == "v")
        expect(len(versions) == len(files), f"{when}: {name} has {len(versions)} versions, {len(files)} were written")
        for version, file in zip(versions, files):
            expect(sha256(version) == digests[file], f"{when}: {version} differs from {file.name}")
        expect(sha256(over / last) == digests[files[-1]], f"{when}: {over / last} is not the newest")
        for file in files:
            copy = mount.point / "steps" / name / file.name
            expect(sha256(copy) == digests[file], f"{when}: {copy} differs from its original")
    print(f"{when}: every version equals its original", flush=True)


def check_log(mount, sequences):
    versions = json.loads(mount.run("log", "--json", mount.point))
    written = 2 * sum(len(files) for files in sequences.values())
    expect(len(versions) == written, f"log lists {len(versions)} versions, {written} were written")
    for version in versions:
        expect(version["state"] == "sealed", f"after sync: {version}")
        expect(str(version["digest"]).startswith("xxh3-128:"), f"no digest: {version}")
        expect(isinstance(version["ratio"], (int, float)), f"no ratio: {version}")
        base = version["base"]
        expect(base is None or {"path", "version", "digest"} <= set(base), f"malformed base: {version}")
    for name, files in sequences.items():
        over = [v for v in versions if v["path"] == f"over/{name}/last{files[0].suffix}"]
        expect(any(v["base"] is not None for v in over), f"no version of {name} refers to a base")
        stored = sum(v["stored_bytes"] for v in over)
        logical = sum(v["logical_bytes"] for v in over)
        print(f"{name}: {logical} bytes in {len(over)} versions, {stored} stored, ratio {stored / logical:.4f}")


def check_size(mount):
    status = json.loads(mount.run("status", "--json", mount.point))
    stored = status["disk_bytes"]["blobs"] + status["disk_bytes"]["index"]
    ratio = stored / status["logical_bytes"]
    print(f"all: {status['logical_bytes']} bytes written, {stored} stored (blobs and index), ratio {ratio:.4f}")
    expect(ratio <= MOST_STORED, f"{ratio:.4f} of the bytes written are stored, at most {MOST_STORED} may be")


def main():
    stepfs = os.path.abspath(sys.argv[1])
    if not os.path.exists("/dev/fuse"):
        skip("/dev/fuse is absent")
    sequences = find_corpus()
    digests = {file: sha256(file) for files in sequences.values() for file in files}
    with Mount(stepfs) as mount:
        for name, files in sequences.items():
            over, steps = mount.point / "over" / name, mount.point / "steps" / name
            over.mkdir(parents=True)
            steps.mkdir(parents=True)
            for file in files:
                write(file, over / f"last{file.suffix}")
                write(file, steps / file.name)
        mount.run("sync", mount.point)
        compare(mount, sequences, digests, "after sync")
        check_log(mount, sequences)
        check_size(mount)
        mount.run("verify", "--deep", mount.point)

        mount.umount()
        mount.mount()
        compare(mount, sequences, digests, "after umount and mount")

        mount.umount()
        shutil.rmtree(mount.store / "cache")
        mount.mount("--cache-size", "0")
        compare(mount, sequences, digests, "with the cache emptied")
        mount.umount()


if __name__ == "__main__":
    main()
