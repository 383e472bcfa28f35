#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slow decoder of stepfs frames, written from docs/format.md and nothing else.

    frame.py FRAME [--source FILE]... [-o OUT]

Sources are found by their digest. Needs the modules xxhash and zstandard (Debian: python3-xxhash, python3-zstandard).
"""
import argparse
import importlib
import struct
import sys

import xxhash
import zstandard

HEADER_BYTES = 20
TRAILER_BYTES = 72
RAW, EQUAL, ZSTD, LMC, EXPONENT, FILL = 0, 1, 2, 3, 4, 8
WIDTHS = [1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 2, 4, 8, 4, 8]
ALIGNED_BASE, CONTEXT, BASE_RANGES = 1, 2, 4
CONTENT_ROLE, CONTEXT_ROLE = 1, 2
MOST_CHUNK_BYTES, MOST_RANGE_BYTES, MOST_SECTION_BYTES = 16 << 20, 4 << 20, 1 << 30
MASK = (1 << 64) - 1


class Corrupt(Exception):
    pass


class Unsupported(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Corrupt(message)


def support(condition, message):
    if not condition:
        raise Unsupported(message)


def digest(data):
    """Low half, then high half."""
    number = xxhash.xxh3_128_intdigest(data)
    return struct.pack("<QQ", number & MASK, number >> 64)


def checksum(data):
    return xxhash.xxh3_64_intdigest(data)


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def left(self):
        return len(self.data) - self.at

    def raw(self, count):
        check(count <= self.left(), "truncated")
        self.at += count
        return self.data[self.at - count : self.at]

    def u8(self):
        return self.raw(1)[0]

    def u64(self):
        return struct.unpack("<Q", self.raw(8))[0]

    def varint(self):
        value = 0
        for index in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                check(value <= MASK, "varint of more than 64 bits")
                return value
        raise Corrupt("varint of more than ten bytes")

    def svarint(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def string(self):
        return self.raw(self.varint())

    def count(self, least_bytes):
        count = self.varint()
        check(count <= self.left() // least_bytes, "count larger than what is left")
        return count


class Piece:
    def __init__(self, offset, length):
        self.offset, self.length = offset, length
        self.base = self.context = 0


class Chunk:
    def __init__(self):
        self.pieces, self.ranges = [], []
        self.base_source = self.context_source = None

    def length(self):
        return sum(piece.length for piece in self.pieces)


class Frame:
    def __init__(self, data):
        check(len(data) >= HEADER_BYTES + TRAILER_BYTES, "shorter than header and trailer")
        header, trailer = data[:HEADER_BYTES], data[-TRAILER_BYTES:]
        check(header[:8] == b"\x89STEPFS\n", "magic")
        major, _minor, required, self.optional = struct.unpack("<HHII", header[8:])
        support(major == 1, "major version")
        begin, size, self.target_bytes = struct.unpack("<QQQ", trailer[:24])
        self.target_digest, self.stored_digest = trailer[24:40], trailer[40:56]
        check(trailer[64:] == b"\nSFPETS\x89", "end magic")
        check(begin >= HEADER_BYTES and begin + size + TRAILER_BYTES == len(data), "section area")
        check(size <= MOST_SECTION_BYTES, "section area too large")
        area = data[begin : begin + size]
        check(checksum(header + area + trailer[:56]) == struct.unpack("<Q", trailer[56:64])[0], "metadata checksum")
        support(required == 0, "required feature")
        self.data, self.sections_offset = data, begin
        self.sections = self.read_sections(area)
        check(1 in self.sections, "no chunk table")
        self.sources = self.read_sources(self.sections[2]) if 2 in self.sections else []
        self.chunks = self.read_chunks(self.sections[1])
        self.check_tiling()

    @staticmethod
    def read_sections(area):
        sections, last, reader = {}, 0, Reader(area)
        while reader.left():
            kind = reader.varint()
            check(last < kind < 1 << 32, "section order")
            content = reader.string()
            support(kind >= 32 or kind in (1, 2), "section type")
            sections[kind] = content
            last = kind
        return sections

    @staticmethod
    def read_sources(content):
        reader, sources = Reader(content), []
        for _ in range(reader.count(20)):
            role, name, size = reader.u8(), reader.raw(16), reader.varint()
            reader.varint()
            reader.string()
            support(role in (CONTENT_ROLE, CONTEXT_ROLE), "source role")
            sources.append((role, name, size))
        check(reader.left() == 0, "bytes after the last source")
        return sources

    def source_number(self, reader, role):
        number = reader.varint()
        check(number < len(self.sources) and self.sources[number][0] == role, "source number or role")
        return number

    def check_range(self, source, offset, length):
        check(offset <= MASK and offset + length <= self.sources[source][2], "range outside its source")

    def read_chunks(self, content):
        reader, chunks = Reader(content), []
        end = base_delta = context_delta = range_end = 0
        stored = HEADER_BYTES
        for _ in range(reader.count(15)):
            chunk = Chunk()
            chunk.codec, chunk.element, chunk.flags = reader.u8(), reader.u8(), reader.u8()
            support(chunk.element < len(WIDTHS), "element type")
            support(chunk.flags < 8, "chunk flag")
            if chunk.flags & (ALIGNED_BASE | BASE_RANGES):
                chunk.base_source = self.source_number(reader, CONTENT_ROLE)
            if chunk.flags & CONTEXT:
                chunk.context_source = self.source_number(reader, CONTEXT_ROLE)
            stored_bytes = reader.varint()
            chunk.checksum = reader.u64()
            count = reader.count(2)
            check(count >= 1, "chunk without pieces")
            for index in range(count):
                offset = (end + reader.svarint()) & MASK if index == 0 else end + reader.varint()
                piece = Piece(offset, reader.varint())
                check(piece.length >= 1 and offset + piece.length <= self.target_bytes, "piece")
                end = offset + piece.length
                if chunk.flags & ALIGNED_BASE:
                    base_delta = (base_delta + reader.svarint()) & MASK
                    piece.base = (offset + base_delta) & MASK
                    self.check_range(chunk.base_source, piece.base, piece.length)
                if chunk.flags & CONTEXT:
                    context_delta = (context_delta + reader.svarint()) & MASK
                    piece.context = (offset + context_delta) & MASK
                    self.check_range(chunk.context_source, piece.context, piece.length)
                chunk.pieces.append(piece)
            check(chunk.length() <= MOST_CHUNK_BYTES, "chunk too large")
            if chunk.flags & BASE_RANGES:
                check(chunk.codec == ZSTD and not chunk.flags & ALIGNED_BASE, "base ranges")
                count = reader.count(2)
                check(count >= 1, "no base ranges")
                for _ in range(count):
                    offset = (range_end + reader.svarint()) & MASK
                    length = reader.varint()
                    check(length >= 1, "empty base range")
                    self.check_range(chunk.base_source, offset, length)
                    chunk.ranges.append((offset, length))
                    range_end = offset + length
                check(sum(length for _, length in chunk.ranges) <= MOST_RANGE_BYTES, "base ranges too large")
            self.check_storage(chunk, stored_bytes)
            chunk.stored = (stored, stored + stored_bytes)
            stored += stored_bytes
            chunks.append(chunk)
        check(reader.left() == 0, "bytes after the last chunk")
        check(stored == self.sections_offset, "stored bytes")
        return chunks

    @staticmethod
    def check_storage(chunk, stored_bytes):
        if chunk.codec == RAW:
            fits = stored_bytes == chunk.length() and chunk.flags == 0
        elif chunk.codec == EQUAL:
            fits = stored_bytes == 0 and chunk.flags == ALIGNED_BASE
        elif chunk.codec == FILL:
            fits = stored_bytes == 1 and chunk.flags == 0
        else:
            fits = 0 < stored_bytes < chunk.length()
        check(fits, "stored length or flags")

    def check_tiling(self):
        end = 0
        for piece in sorted((piece for chunk in self.chunks for piece in chunk.pieces), key=lambda p: p.offset):
            check(piece.offset == end, "pieces do not tile the target")
            end += piece.length
        check(end == self.target_bytes, "pieces do not tile the target")

    def decode_chunk(self, chunk, contents):
        def content(number):
            _, name, size = self.sources[number]
            found = contents.get(name)
            check(found is not None, "missing source")
            check(len(found) == size, "length of a source")
            return found

        base = b""
        if chunk.flags & ALIGNED_BASE:
            source = content(chunk.base_source)
            base = b"".join(source[piece.base : piece.base + piece.length] for piece in chunk.pieces)
        if chunk.flags & BASE_RANGES:
            source = content(chunk.base_source)
            base = b"".join(source[offset : offset + length] for offset, length in chunk.ranges)
        stored = self.data[chunk.stored[0] : chunk.stored[1]]
        length = chunk.length()
        if chunk.codec == RAW:
            decoded = stored
        elif chunk.codec == EQUAL:
            decoded = base
        elif chunk.codec == FILL:
            decoded = stored * length
        elif chunk.codec == ZSTD:
            decoded = decode_zstd(stored, base, length)
        elif chunk.codec == LMC:
            decoded = importlib.import_module("lmc").decode_lmc(stored, WIDTHS[chunk.element], base or None, length)
        elif chunk.codec == EXPONENT:
            decoded = importlib.import_module("exponent").decode(chunk.element, stored, base or None, length)
        else:
            raise Unsupported("codec")
        check(len(decoded) == length and checksum(decoded) == chunk.checksum, "chunk checksum")
        return decoded

    def decode(self, contents):
        """The target. `contents` maps digests to the bytes of sources."""
        target = bytearray(self.target_bytes)
        for chunk in self.chunks:
            decoded, at = self.decode_chunk(chunk, contents), 0
            for piece in chunk.pieces:
                target[piece.offset : piece.offset + piece.length] = decoded[at : at + piece.length]
                at += piece.length
        check(digest(bytes(target)) == self.target_digest, "digest of the target")
        return bytes(target)


def decode_zstd(stored, base, length):
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if base else None
    try:
        return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(stored, max_output_size=length)
    except zstandard.ZstdError as error:
        raise Corrupt(f"zstd: {error}") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frame")
    parser.add_argument("--source", action="append", default=[])
    parser.add_argument("-o", dest="out")
    arguments = parser.parse_args()
    contents = {}
    for path in arguments.source:
        with open(path, "rb") as file:
            data = file.read()
        contents[digest(data)] = data
    with open(arguments.frame, "rb") as file:
        target = Frame(file.read()).decode(contents)
    if arguments.out:
        with open(arguments.out, "wb") as file:
            file.write(target)
    else:
        sys.stdout.buffer.write(target)


if __name__ == "__main__":
    main()
