#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slow decoder of chunks of the exponent coder, written from docs/codec_exponent.md and nothing else."""

FLOAT, SIGNED, UNSIGNED, BYTE = range(4)
# By element type number: (width, kind, mantissa bits).
FORMS = [
    (1, BYTE, 0), (1, BYTE, 0), (1, BYTE, 0), (1, BYTE, 0), (2, SIGNED, 0), (2, UNSIGNED, 0), (4, SIGNED, 0),
    (4, UNSIGNED, 0), (8, SIGNED, 0), (8, UNSIGNED, 0), (2, FLOAT, 10), (2, FLOAT, 7), (4, FLOAT, 23), (8, FLOAT, 52),
    (1, FLOAT, 3), (1, FLOAT, 2), (1, BYTE, 0), (2, FLOAT, 7), (4, FLOAT, 23), (8, FLOAT, 52), (4, FLOAT, 23),
    (8, FLOAT, 52),
]
LANES = [1, 4, 32]
MOST_KEEP = {1: 6, 2: 3, 4: 2, 8: 1}
STATE_LOW = 1 << 15


class Corrupt(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Corrupt(message)


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        check(n <= len(self.data) - self.at, "truncated")
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self):
        value = 0
        for shift in range(0, 70, 7):
            b = self.byte()
            value |= (b & 127) << shift
            if b < 128:
                check(value < 1 << 64, "varint")
                return value
        raise Corrupt("varint")

    def rest(self):
        return self.take(len(self.data) - self.at)


class Bits:
    """Reads bits where `source` stands; `finish` moves it behind the last byte begun."""

    def __init__(self, source):
        self.source, self.bit = source, 8 * source.at

    def read(self, n):
        value = 0
        for i in range(n):
            check(self.bit < 8 * len(self.source.data), "bits are missing")
            value |= (self.source.data[self.bit // 8] >> self.bit % 8 & 1) << i
            self.bit += 1
        return value

    def unary(self):
        zeroes = 0
        while not self.read(1):
            zeroes += 1
        return zeroes

    def finish(self):
        self.source.at = (self.bit + 7) // 8


def read_frequencies(bits, table_log, most):
    last = bits.read(8)
    implied = bits.read(8) if bits.read(1) else 0
    check(last <= most and implied <= last, "frequencies")
    f, widths = [0] * 256, []
    for s in range(last + 1):
        if s == implied:
            widths.append(table_log)
            continue
        z = bits.unary()
        predicted = table_log if s == 0 else widths[s - 1] if s < 3 else widths[s - 2]
        n = predicted + (z // 2 if z % 2 == 0 else -(z + 1) // 2)
        check(0 <= n <= table_log, "bit width")
        widths.append(n)
        if n:
            kept = min(n - 1, 3)
            f[s] = ((1 << kept) | bits.read(kept)) << (n - 1 - kept)
    f[implied] = (1 << table_log) - sum(f)
    check(f[implied] >= 1, "sum of frequencies")
    return f


class Table:
    def __init__(self, frequencies):
        self.f, self.first, self.slots = frequencies, [], []
        for s, n in enumerate(frequencies):
            self.first.append(len(self.slots))
            self.slots += [s] * n


def decode_stream(data, lane_code, table_log, tables, contexts):
    check(lane_code < 3, "lane code")
    source, lanes = Bytes(data), LANES[lane_code]
    states = [int.from_bytes(source.take(4), "little") for _ in range(lanes)]
    check(all(STATE_LOW <= x < STATE_LOW << 16 for x in states), "state")
    symbols = []
    for i, context in enumerate(contexts):
        table, x = tables[context], states[i % lanes]
        slot = x % (1 << table_log)
        s = table.slots[slot]
        x = table.f[s] * (x >> table_log) + slot - table.first[s]
        if x < STATE_LOW:
            x = (x << 16) + int.from_bytes(source.take(2), "little")
        states[i % lanes] = x
        symbols.append(s)
    check(source.at == len(data) and all(x == STATE_LOW for x in states), "end of stream")
    return symbols


def run_of(firsts, context):
    return max(i for i, first in enumerate(firsts) if first <= context)


class Form:
    def __init__(self, element):
        self.width, self.kind, self.mantissa_bits = FORMS[element]
        self.w = 8 * self.width
        self.mask, self.top = (1 << self.w) - 1, 1 << (self.w - 1)

    def split(self, data):
        return [int.from_bytes(data[i : i + self.width], "little") for i in range(0, len(data), self.width)]

    def join(self, elements):
        return b"".join(e.to_bytes(self.width, "little") for e in elements)

    def context(self, b):
        if self.kind == FLOAT:
            e = (b << 1 & self.mask) >> (self.mantissa_bits + 1)
            return min(max(e, 895) - 895, 255) if self.width == 8 else e
        if self.kind == SIGNED:
            return (self.mask + 1 - b if b & self.top else b).bit_length()
        return b.bit_length() if self.kind == UNSIGNED else b >> 4

    def ordered(self, v):
        return ~v & self.mask if v & self.top else v | self.top

    def add(self, b, d):
        if self.kind != FLOAT:
            return b + d & self.mask
        o = self.ordered(b) + (-d if b & self.top else d) & self.mask
        return o ^ self.top if o & self.top else ~o & self.mask

    def rotate_back(self, v):
        if self.kind == FLOAT:
            return v >> 1 | (v & 1) << (self.w - 1)
        if self.kind == SIGNED:
            return v >> 1 ^ (self.mask if v & 1 else 0)
        return v

    def most_symbol(self, keep):
        return 2 * (((self.w - keep - 1) << keep) + (1 << keep)) - 1


def decode_dense(form, body, base):
    source = Bytes(body)
    parameters = source.byte()
    keep, lane_code, table_log = parameters & 7, parameters >> 3 & 3, 9 + (parameters >> 5 & 3)
    check(parameters < 128 and keep <= MOST_KEEP[form.width], "dense parameters")
    bits = Bits(source)
    clusters = bits.read(4) + 1
    firsts = [0] + [bits.read(8) for _ in range(clusters - 1)]
    check(all(a < b for a, b in zip(firsts, firsts[1:])), "clusters")
    tables = [Table(read_frequencies(bits, table_log, form.most_symbol(keep))) for _ in range(clusters)]
    bits.finish()
    stream = source.take(source.varint())
    contexts = [run_of(firsts, form.context(b)) for b in base]
    symbols = decode_stream(stream, lane_code, table_log, tables, contexts)
    raw, elements = Bits(source), []
    for b, symbol in zip(base, symbols):
        bucket = symbol + 1 >> 1
        r = max((bucket >> keep) - 1, 0)
        m = (bucket - (r << keep) << r) + raw.read(r)
        elements.append(form.add(b, -m if symbol & 1 else m))
    raw.finish()
    check(source.at == len(body), "end of dense body")
    return elements


def decode_sparse(form, body, base):
    source = Bytes(body)
    classes = source.byte() + 1
    check(classes <= 8, "classes")
    firsts = [0] + [source.byte() for _ in range(classes - 1)]
    check(all(a < b for a, b in zip(firsts, firsts[1:])), "classes")
    lists = []
    for _ in range(classes):
        changes = source.varint()
        lists.append((changes, source.varint() if changes else 1))
    check(0 < sum(n for n, _ in lists) <= len(base) and all(1 <= d <= len(base) for _, d in lists), "places")
    members = [[] for _ in range(classes)]
    for i, b in enumerate(base):
        members[run_of(firsts, form.context(b))].append(i)
    bits, changed = Bits(source), []
    for member, (changes, divisor) in zip(members, lists):
        at = -1
        for _ in range(changes):
            gap = bits.unary() * divisor
            b = (divisor - 1).bit_length()
            if b:
                cut, v = (1 << b) - divisor, bits.read(b - 1)
                gap += 2 * v + bits.read(1) - cut if v >= cut else v
            at += gap + 1
            check(at < len(member), "place behind the chunk")
            changed.append(member[at])
    bits.finish()
    changed.sort()
    elements = list(base)
    for i, e in zip(changed, decode_dense(form, source.rest(), [base[i] for i in changed])):
        elements[i] = e
    return elements


def decode_planes(form, body, count):
    source, planes = Bytes(body), []
    for p in range(form.width):
        method = source.byte()
        if method == 0:
            plane = source.take(count)
        elif method == 1:
            plane = source.take(1) * count
        elif method == 2:
            parameters = source.byte()
            check(parameters < 16, "plane parameters")
            table_log, bits = 9 + (parameters >> 2), Bits(source)
            table = Table(read_frequencies(bits, table_log, 255))
            bits.finish()
            plane = decode_stream(source.take(source.varint()), parameters & 3, table_log, [table], [0] * count)
        else:
            check(method == 3 and p > 0, "plane method")
            plane = [source.byte() if top else 0 for top in planes[0]]
        planes.append(plane)
    check(source.at == len(body), "end of planes")
    elements = []
    for parts in zip(*planes):
        elements.append(form.rotate_back(int.from_bytes(bytes(parts), "big")))
    return elements


def decode(element, encoded, base, length):
    """The `length` bytes of a chunk; `base` is empty, None or as long."""
    form = Form(element)
    count, tail = divmod(length, form.width)
    check(encoded, "no method")
    method = encoded[0]
    if method == 0:
        check(len(encoded) == 1 + length, "stored size")
        return bytes(encoded[1:])
    check(count > 0 and len(encoded) >= 1 + tail, "no elements")
    body, end = encoded[1 : len(encoded) - tail], bytes(encoded[len(encoded) - tail :])
    if method == 2:
        return form.join(decode_planes(form, body, count)) + end
    check(base and len(base) == length and method in (1, 3, 4), "method")
    elements = form.split(base[: count * form.width])
    if method == 1:
        check(not body, "equal chunk with a body")
    elif method == 3:
        elements = decode_dense(form, body, elements)
    else:
        elements = decode_sparse(form, body, elements)
    return form.join(elements) + end
