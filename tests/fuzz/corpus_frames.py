"""zstd frames, byte by byte (RFC 8878), with claims that are not true."""
import struct

BLOCK_BYTES = 1 << 17
RAW, REPEATED = 0, 1


def zstd_frame(data=b"", repeated=0, byte=b"\1", claims=-1):
    """Stored as it is, or one byte `repeated` times. Its header claims that size, another one, or none (None)."""
    size = repeated or len(data)
    claims = size if claims == -1 else claims
    frame = struct.pack("<I", 0xFD2FB528)
    frame += struct.pack("<BB", 0, 7 << 3) if claims is None else struct.pack("<BBQ", 0xC0, 7 << 3, claims)
    for begin in range(0, max(size, 1), BLOCK_BYTES):
        length = min(BLOCK_BYTES, size - begin)
        last = begin + length >= size
        frame += struct.pack("<I", last | (REPEATED if repeated else RAW) << 1 | length << 3)[:3]
        frame += byte if repeated else data[begin:begin + length]
    return frame
