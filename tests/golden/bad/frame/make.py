#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the frames of this folder from ../../v1/frame/small.frame. Each is wrong in one way; all checksums that the wrong
thing does not concern are right. Needs xxhash and zstandard, as tests/reference/frame.py does."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "reference"))
import frame  # noqa: E402

GOOD = (HERE.parents[1] / "v1" / "frame" / "small.frame").read_bytes()
HEADER, TRAILER = GOOD[: frame.HEADER_BYTES], GOOD[-frame.TRAILER_BYTES :]
BEGIN = struct.unpack("<Q", TRAILER[:8])[0]
STORED = GOOD[frame.HEADER_BYTES : BEGIN]
AREA = GOOD[BEGIN : -frame.TRAILER_BYTES]


def build(header=HEADER, stored=STORED, area=AREA):
    body = header + stored + area
    fields = struct.pack("<QQ", len(header + stored), len(area)) + TRAILER[16:40] + frame.digest(body)
    return body + fields + struct.pack("<Q", frame.checksum(header + area + fields)) + TRAILER[64:]


def patched(data, at, *values):
    """`at` counts from the beginning of the section area in the document's dump."""
    at -= BEGIN
    return data[:at] + bytes(values) + data[at + len(values) :]


BAD = {
    "truncated": GOOD[:-1],
    "not-a-frame": b"PK\x03\x04" + GOOD[4:],
    "newer-major": build(header=HEADER[:8] + b"\x02" + HEADER[9:]),
    "required-feature": build(header=HEADER[:12] + b"\x01" + HEADER[13:]),
    "unknown-section": build(area=AREA + b"\x03\x00"),
    "flipped-stored-byte": build(stored=b"S" + STORED[1:]),
    "flipped-metadata": GOOD[:BEGIN] + patched(AREA, 0x24, 0x97) + TRAILER,
    "piece-overlap": build(area=patched(AREA, 0x3D, 0x01)),  # Chunk 1 begins one byte before the end of chunk 0.
    "base-outside": build(area=patched(AREA, 0x40, 0x12)),  # Base delta 9.
    "unknown-codec": build(area=patched(AREA, 0x41, 0x63)),
}

assert build() == GOOD
for name, data in BAD.items():
    (HERE / f"{name}.frame").write_bytes(data)
