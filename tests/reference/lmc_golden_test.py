# SPDX-License-Identifier: Apache-2.0
"""lmc_golden_test.py FOLDER: decodes every chunk that FOLDER/manifest.txt lists and compares."""

import pathlib
import sys

import lmc


def main():
    folder = pathlib.Path(sys.argv[1])
    lines = (folder / "manifest.txt").read_text().splitlines()
    entries = [line.split() for line in lines if line and not line.startswith("#")]
    failed = not entries
    for name, width, has_base in entries:
        encoded = (folder / f"{name}.bin").read_bytes()
        expected = (folder / f"{name}.out").read_bytes()
        base = (folder / f"{name}.base").read_bytes() if has_base == "1" else None
        good = lmc.decode_lmc(encoded, int(width), base, len(expected)) == expected
        # The decoder must also notice damage: without its last byte no chunk is whole.
        try:
            lmc.decode_lmc(encoded[:-1], int(width), base, len(expected))
            good = False
        except lmc.Corrupt:
            pass
        print(f"{name}: {len(encoded)} -> {len(expected)} bytes: {'ok' if good else 'WRONG'}")
        failed |= not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
