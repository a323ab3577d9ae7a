"""zstd frames of raw blocks with the content's checksum: enough to write, and plain Python."""

import struct

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
                      2870177450012600261)
BLOCK = 128 * 1024


def _rotate(x: int, n: int) -> int:
    return ((x << n) | (x >> (64 - n))) & MASK


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0 (xxhash specification)."""
    size = len(data)
    whole = size // 32 * 32
    if whole:
        a, b, c, d = (P1 + P2) & MASK, P2, 0, -P1 & MASK
        for w, x, y, z in struct.iter_unpack("<4Q", memoryview(data)[:whole]):
            a = (a + w * P2) & MASK
            a = (((a << 31) | (a >> 33)) & MASK) * P1 & MASK
            b = (b + x * P2) & MASK
            b = (((b << 31) | (b >> 33)) & MASK) * P1 & MASK
            c = (c + y * P2) & MASK
            c = (((c << 31) | (c >> 33)) & MASK) * P1 & MASK
            d = (d + z * P2) & MASK
            d = (((d << 31) | (d >> 33)) & MASK) * P1 & MASK
        h = (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & MASK
        for lane in (a, b, c, d):
            h = ((h ^ (_rotate(lane * P2 & MASK, 31) * P1 & MASK)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + size) & MASK
    at = whole
    while at + 8 <= size:
        lane = struct.unpack_from("<Q", data, at)[0]
        h = (_rotate(h ^ (_rotate(lane * P2 & MASK, 31) * P1 & MASK), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= size:
        h = (_rotate(h ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    while at < size:
        h = (_rotate(h ^ (data[at] * P5 & MASK), 11) * P1) & MASK
        at += 1
    h = ((h ^ (h >> 33)) * P2) & MASK
    h = ((h ^ (h >> 29)) * P3) & MASK
    return h ^ (h >> 32)


def frame(data: bytes) -> bytes:
    """RFC 8878: magic, descriptor (single segment, checksum, size in four bytes), raw blocks, checksum."""
    out = [struct.pack("<IBI", 0xFD2FB528, 0xA4, len(data))]
    pieces = [data[at:at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
    for number, piece in enumerate(pieces):
        last = number + 1 == len(pieces)
        out.append(struct.pack("<I", len(piece) << 3 | last)[:3] + piece)
    out.append(struct.pack("<I", xxh64(data) & 0xFFFFFFFF))
    return b"".join(out)


def fnv1a64(data: bytes) -> int:
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & MASK
    return h
