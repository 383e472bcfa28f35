# SPDX-License-Identifier: Apache-2.0
"""A slow decoder of lmc chunks, written from docs/codec_lmc.md and nothing else."""

DELTA_XOR = 1
DELTA_DIFFERENCE = 2
MAX_CODE_BITS = 11


class Corrupt(Exception):
    """The chunk is not what docs/codec_lmc.md allows."""


class Unsupported(Exception):
    """The chunk is of a later version."""


class _Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Corrupt("cut short")
        self.at += count
        return self.data[self.at - count:self.at]

    def u8(self):
        return self.take(1)[0]

    def u16(self):
        return int.from_bytes(self.take(2), "little")

    def rest(self):
        return self.take(len(self.data) - self.at)

    def expect_end(self):
        if self.at != len(self.data):
            raise Corrupt("bytes left over")


class _Nibbles:
    def __init__(self, reader):
        self.reader = reader
        self.pending = None

    def next(self):
        if self.pending is not None:
            nibble, self.pending = self.pending, None
            return nibble
        byte = self.reader.u8()
        self.pending = byte >> 4
        return byte & 15


def _read_lengths(reader):
    count = reader.u8() + 1
    nibbles = _Nibbles(reader)
    lengths = []
    while len(lengths) < count:
        nibble = nibbles.next()
        if nibble <= MAX_CODE_BITS:
            lengths.append(nibble)
        elif nibble == 12:
            lengths += [0] * (3 + nibbles.next())
        elif nibble == 13:
            low = nibbles.next()
            lengths += [0] * (19 + low + 16 * nibbles.next())
        elif nibble == 14:
            if not lengths:
                raise Corrupt("nothing to repeat")
            lengths += [lengths[-1]] * (3 + nibbles.next())
        else:
            raise Corrupt("nibble 15")
    if len(lengths) > count:
        raise Corrupt("run beyond the last symbol")
    if nibbles.pending:
        raise Corrupt("padding is not zero")
    if sum(1 << (MAX_CODE_BITS - length) for length in lengths if length) != 1 << MAX_CODE_BITS:
        raise Corrupt("code is not complete")
    return lengths


def _canonical_codes(lengths):
    """{(length, code): symbol}"""
    codes = {}
    code = 0
    previous = None
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths) if length):
        if previous is not None:
            code = (code + 1) << (length - previous)
        codes[length, code] = symbol
        previous = length
    return codes


def _decode_stream(stream, codes, count):
    total = 8 * len(stream)
    at = 0
    symbols = []
    for _ in range(count):
        code = 0
        length = 0
        while (length, code) not in codes:
            if at == total:
                raise Corrupt("stream too short")
            code = code << 1 | (stream[at // 8] >> (at % 8) & 1)
            length += 1
            at += 1
        symbols.append(codes[length, code])
    if total - at >= 8 or (at < total and stream[-1] >> (at % 8)):
        raise Corrupt("stream does not end with its last symbol")
    return symbols


def _decode_huffman(body, n):
    reader = _Reader(body)
    codes = _canonical_codes(_read_lengths(reader))
    sizes = [reader.u16() for _ in range(3)]
    streams = [reader.take(size) for size in sizes]
    streams.append(reader.rest())
    out = bytearray(n)
    for s, stream in enumerate(streams):
        places = range(n - 1 - s, -1, -4)
        for place, symbol in zip(places, _decode_stream(stream, codes, len(places))):
            out[place] = symbol
    return bytes(out)


def _decode_runs(body, n):
    reader = _Reader(body)
    run_byte = reader.u8()
    token_count = reader.u16()
    literal_count = reader.u16()
    if not 1 <= literal_count <= token_count <= n:
        raise Corrupt("impossible counts")
    tokens = _decode_section(reader, token_count, inside_runs=True)
    literals = iter(_decode_section(reader, literal_count, inside_runs=True))
    reader.expect_end()
    out = bytearray([run_byte]) * n
    at = 0
    for token in tokens:
        if token < 248:
            at += token
            literal = next(literals, None)
            if at >= n or literal is None:
                raise Corrupt("literal out of place")
            out[at] = literal
            at += 1
        else:
            at += 248 << (token - 248)
            if at > n:
                raise Corrupt("run beyond the block")
    if next(literals, None) is not None:
        raise Corrupt("literals left over")
    return bytes(out)


def _decode_section(reader, n, inside_runs=False):
    tag = reader.u8()
    if tag == 0:
        return reader.take(n)
    if tag == 1:
        return reader.take(1) * n
    if tag == 2:
        return _decode_huffman(reader.take(reader.u16()), n)
    if tag == 3 and not inside_runs:
        return _decode_runs(reader.take(reader.u16()), n)
    raise Corrupt(f"tag {tag}")


def decode_lmc(encoded: bytes, width: int, base: "bytes | None", target_len: int) -> bytes:
    reader = _Reader(encoded)
    flags = reader.u8()
    block_bits = reader.u8()
    mask = reader.u8()
    delta = flags & 3
    grouped = bool(flags & 4)
    if delta == 3 or flags >> 3:
        raise Unsupported(f"flags {flags}")
    if not 8 <= block_bits <= 16:
        raise Corrupt(f"block bits {block_bits}")
    if delta and (base is None or len(base) != target_len):
        raise Corrupt("no base")

    elements = target_len // width
    planes = width if grouped else 1
    plane_bytes = elements if grouped else elements * width
    if mask >> planes:
        raise Corrupt("constant plane that is not there")
    constants = {p: reader.u8() for p in range(planes) if mask >> p & 1}
    tail = reader.take(target_len - elements * width)

    content = [bytearray([constants[p]]) * plane_bytes if p in constants else bytearray() for p in range(planes)]
    for begin in range(0, plane_bytes, 1 << block_bits):
        n = min(1 << block_bits, plane_bytes - begin)
        for p in range(planes):
            if p not in constants:
                content[p] += _decode_section(reader, n)
    reader.expect_end()

    deltas = bytearray(elements * width)
    for p in range(planes):
        deltas[p::planes] = content[p]
    out = bytearray()
    for i in range(0, elements * width, width):
        value = int.from_bytes(deltas[i:i + width], "little")
        if delta == DELTA_XOR:
            value ^= int.from_bytes(base[i:i + width], "little")
        elif delta == DELTA_DIFFERENCE:
            value = (value + int.from_bytes(base[i:i + width], "little")) % (1 << 8 * width)
        out += value.to_bytes(width, "little")
    return bytes(out + tail)
