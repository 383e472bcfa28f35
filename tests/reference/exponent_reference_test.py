#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exponent_reference_test.py FOLDER: decodes every chunk that FOLDER/manifest.txt lists and compares."""
import pathlib
import sys

import exponent


def main():
    folder = pathlib.Path(sys.argv[1])
    entries = [line.split() for line in (folder / "manifest.txt").read_text().splitlines()]
    failed = not entries
    for name, element, _, has_base in entries:
        encoded = (folder / f"{name}.bin").read_bytes()
        expected = (folder / f"{name}.target").read_bytes()
        base = (folder / f"{name}.base").read_bytes() if has_base == "1" else None
        good = exponent.decode(int(element), encoded, base, len(expected)) == expected
        # Without its last byte no chunk is whole.
        try:
            exponent.decode(int(element), encoded[:-1], base, len(expected))
            good = False
        except exponent.Corrupt:
            pass
        print(f"{name}: {len(encoded)} -> {len(expected)} bytes: {'ok' if good else 'WRONG'}")
        failed |= not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
