#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes the golden frames with the decoder that was written from docs/format.md. Exit code 77 (skipped) without the
modules that it needs."""
import importlib.util
import pathlib
import sys
import unittest

MISSING = [name for name in ("xxhash", "zstandard") if importlib.util.find_spec(name) is None]
if MISSING:
    print("skipped: no Python module", " and ".join(MISSING))
    sys.exit(77)

import frame  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def contents_of(stem):
    path = GOLDEN / "v1" / "frame" / f"{stem}.base"
    if not path.exists():
        return {}
    data = path.read_bytes()
    return {frame.digest(data): data}


class GoldenFrames(unittest.TestCase):
    def test_version_1_decodes(self):
        paths = sorted((GOLDEN / "v1" / "frame").glob("*.frame"))
        self.assertGreaterEqual(len(paths), 5)
        for path in paths:
            stem = path.stem.split("-")[0]
            with self.subTest(path.name):
                decoded = frame.Frame(path.read_bytes()).decode(contents_of(stem))
                self.assertEqual(decoded, (GOLDEN / "v1" / "frame" / f"{stem}.target").read_bytes())

    def test_bad_frames_are_refused(self):
        for path in sorted((GOLDEN / "bad" / "frame").glob("*.frame")):
            with self.subTest(path.name), self.assertRaises((frame.Corrupt, frame.Unsupported)):
                frame.Frame(path.read_bytes()).decode(contents_of("small"))

    def test_flipped_bits_never_give_wrong_bytes(self):
        good = (GOLDEN / "v1" / "frame" / "small.frame").read_bytes()
        for bit in range(8 * len(good)):
            damaged = bytearray(good)
            damaged[bit // 8] ^= 1 << bit % 8
            with self.assertRaises((frame.Corrupt, frame.Unsupported)):
                frame.Frame(bytes(damaged)).decode(contents_of("small"))

    def test_flipping_a_stored_bit_breaks_the_stored_digest(self):
        good = (GOLDEN / "v1" / "frame" / "small.frame").read_bytes()
        stored = frame.Frame(good).stored_digest
        self.assertEqual(stored, frame.digest(good[: -frame.TRAILER_BYTES]))


if __name__ == "__main__":
    unittest.main()
