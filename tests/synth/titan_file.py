"""What all files of titantrace are packed in (formats/FORMAT.md): for those who write and read them in Python."""
import ctypes
import os
import struct

ZSTD = ctypes.CDLL("libzstd.so.1")  # the recorder packs with it, too
ZSTD.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
ZSTD.ZSTD_compress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
ZSTD.ZSTD_createCCtx.restype = ctypes.c_void_p
for _function in (ZSTD.ZSTD_compressBound, ZSTD.ZSTD_compress2, ZSTD.ZSTD_decompress):
    _function.restype = ctypes.c_size_t
CONTEXT = ZSTD.ZSTD_createCCtx()
ZSTD.ZSTD_CCtx_setParameter(CONTEXT, 100, 1)  # level
ZSTD.ZSTD_CCtx_setParameter(CONTEXT, 201, 1)  # the content's checksum


def zstd(data):
    room = ZSTD.ZSTD_compressBound(len(data))
    out = ctypes.create_string_buffer(room)
    size = ZSTD.ZSTD_compress2(CONTEXT, out, room, data, len(data))
    if size > room:
        raise ValueError("zstd cannot pack that")
    return out.raw[:size]


def unzstd(data, raw_bytes):
    raw = ctypes.create_string_buffer(raw_bytes)
    size = ZSTD.ZSTD_decompress(raw, raw_bytes, data, len(data))
    if size > raw_bytes:
        raise ValueError("zstd cannot unpack that")
    return raw.raw[:size]


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def section(kind, frame, raw, offset=0, stored=None):
    head = struct.pack("<IIQQQ", kind, fnv1a64(frame) & 0xFFFFFFFF, len(frame) if stored is None else stored, raw,
                       offset)
    return head + struct.pack("<Q", fnv1a64(head)) + frame


def container(magic, *sections, major=1, header_bytes=32):
    head = struct.pack("<8sHHIQ", magic, major, 0, header_bytes, 0)
    return head + struct.pack("<Q", fnv1a64(head)) + b"".join(sections) + section(0, b"", 0)


def write_dump(path, sections):
    """Of (kind, offset in what is unpacked, bytes)."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(container(b"TITANDMP", *(section(kind, zstd(data), len(data), offset)
                                            for kind, offset, data in sections)))


def write_ring(path, pieces):
    """Of (offset, bytes), the header first, which has the file's size: the others are holes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        for offset, data in pieces:
            file.seek(offset)
            file.write(data)
        file.truncate(struct.unpack_from("<Q", pieces[0][1], 24)[0])
