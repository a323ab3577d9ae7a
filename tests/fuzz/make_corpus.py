#!/usr/bin/env python3
"""Writes the samples of the fuzz targets, as a part of the build: INTO/READER/* and, beside them, what the reader must
say of each (EXPECTED).

    make_corpus.py TITAN_SYNTH TITAN_ANALYZE INTO

A new sample is one line in the functions below. Inputs that a fuzzer found are files in found/READER; what must be said
of them stands in FOUND.
"""
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "synth")]
sys.dont_write_bytecode = True

import titan_decode  # noqa: E402
from corpus_archives import archive_samples  # noqa: E402
from corpus_flight_recorder import json_samples, pickle_samples  # noqa: E402
from corpus_frames import zstd_frame  # noqa: E402
from corpus_logs import log_samples  # noqa: E402
from corpus_stacks import SAMPLES, sampled, stacks_samples  # noqa: E402
from corpus_witness import witness_samples  # noqa: E402
from titan_file import container, section, unzstd  # noqa: E402

FOUND = {"ring": [("communicator-of-a-million.ring", "read: ")]}
TWO63, ALL_ONES = 1 << 63, (1 << 64) - 1
REGIONS_AT, REGION_BYTES, CURSORS_AT, CURSOR_BYTES, HEADER_BYTES = 872, 32, 3328, 64, 4096
MORE_REGIONS_AT, MORE_REGIONS = 2984, 8
CALLS, COMMUNICATORS, THREADS, TEXTS, CALL_SITES, STACK_SAMPLES = 1, 4, 5, 6, 12, 17  # kinds of regions


def patched(data, *changes):
    """Each change: offset, struct format, values."""
    copy = bytearray(data)
    for offset, form, *values in changes:
        struct.pack_into("<" + form, copy, offset, *values)
    return bytes(copy)


def regions(ring):
    """Kind -> place of its description, stride, offset, count, head. Where all rows may be in use, the head is behind
    the last one that is."""
    found = {}
    for i in range(struct.unpack_from("<I", ring, 20)[0]):
        described = REGIONS_AT + REGION_BYTES * i
        kind, stride, offset, count, _ = struct.unpack_from("<IIQQQ", ring, described)
        head = struct.unpack_from("<Q", ring, CURSORS_AT + CURSOR_BYTES * i)[0]
        found[kind] = (described, stride, offset, count, head)
    for i in range(MORE_REGIONS):
        described = MORE_REGIONS_AT + REGION_BYTES * i
        kind, stride, offset, count, _ = struct.unpack_from("<IIQQQ", ring, described)
        if kind != 0:
            used = len(ring[offset:offset + stride * count].rstrip(b"\0"))
            found[kind] = (described, stride, offset, count, -(-used // stride))
    return found


def shrunk(ring):
    """The same ring with regions no larger than what is in them."""
    small = bytearray(ring[:HEADER_BYTES])
    for described, stride, offset, count, head in regions(ring).values():
        used = min(count, max(head, 1))
        place = len(small)
        small += ring[offset:offset + used * stride]
        small += bytes(-len(small) % 64)
        struct.pack_into("<QQ", small, described + 8, place, used)
    struct.pack_into("<Q", small, 24, len(small))
    return bytes(small)


def region_field(ring, kind, field):
    """Where a field of a region's descriptor is: stride, offset, count."""
    return regions(ring)[kind][0] + {"stride": 4, "offset": 8, "count": 16}[field]


def rows(ring, kind):
    _, stride, offset, count, head = regions(ring)[kind]
    return [offset + i * stride for i in range(min(count, head))]


def clocks_backwards(ring):
    """Each call is left before it was entered, and entered before the one ahead of it; the second anchor is before the
    first."""
    changes = [(512, "QQQQ", 2, 1, 1, 1), (472, "Q", 0)]
    for number, place in enumerate(rows(ring, CALLS)):
        ticks = 2_000_000_000_000 - number * 1_000_000_000
        changes += [(place + 72, "QQQQ", ticks, ticks - 500, ticks - 700, ticks - 900)]
    return patched(ring, *changes)


def with_call_sites(ring, stack=(1, 1, 0, 1, 1, 1, 0), frames=(1, 2), offset=None, count=None):
    """The ring with a region of call sites; all its calls were made from one, a native frame and a Python frame
    deep."""
    place = lambda key, address, text, line: struct.pack("<QQIIiB3x", key, address, text, text, line, 1)
    tables = [(32, struct.pack("<QQIHHBBHI", *stack, 0, 0)), (32, place(1, 0x400123, 0, 0) + place(2, 0, 1, 7)),
              (4, struct.pack(f"<{len(frames)}I", *frames)), (16, struct.pack("<QII", 1, 0, 9)), (1, b"train.py"),
              (64, struct.pack("<QQQII32x", 0x400000, 0x500000, 0x400000, 1, 20))]
    head, bodies = b"", b""
    for stride, body in tables:
        head += struct.pack("<QII", 704 + len(bodies) if offset is None else offset, stride,
                            len(body) // stride if count is None else count)
        bodies += body + bytes(-len(body) % 8)
    cursors = b"".join(struct.pack("<Q56x", 1) for _ in range(8))
    region = struct.pack("<IIIIQ40x", 704, 3, 1, 1, 0) + head + bytes(32) + cursors + bodies
    number = struct.unpack_from("<I", ring, 20)[0]
    return patched(ring + region, (20, "I", number + 1), (24, "Q", len(ring + region)),
                   (REGIONS_AT + REGION_BYTES * number, "IIQQQ", CALL_SITES, 1, len(ring), len(region), 0),
                   *((call + 124, "I", 1) for call in rows(ring, CALLS)))


def with_stack_samples(ring, *images, stride=1, count=None):
    """The ring with a region of samples, in the last place for one."""
    each = max(map(len, images))
    region = b"".join(image.ljust(each, b"\0") for image in images)
    place = MORE_REGIONS_AT + REGION_BYTES * (MORE_REGIONS - 1)
    return patched(ring + region, (24, "Q", len(ring + region)),
                   (place, "IIQQQ", STACK_SAMPLES, stride, len(ring), len(region) if count is None else count, 0))


def rings_with_stack_samples(ring):
    sound, none, huge = sampled(), b"\0" * 200, 0xFFFFFFFF
    images = {"": (sound, none), "-of-both": (sampled(((1, 1),)), sound), "-that-were-not-begun": (none, none),
              "-of-stacks-that-are-not-there": (sampled(((99, 1), (huge, -5))), none),
              "-of-a-newer-version": (sampled(major=9), sound), "-of-another-kind": (sampled(magic=b"KCATNTIT"), sound),
              "-of-32-bits": (sampled(tables={SAMPLES: (None, None, huge)}), sound),
              "-at-2-63": (sampled(tables={SAMPLES: (TWO63, None, None)}), sound),
              "-over-the-header": (sampled(tables={SAMPLES: (0, None, huge)}), sound),
              "-of-stride-1": (sampled(tables={SAMPLES: (None, 1, huge)}), sound), "-cut": (sound[:150], sound[:90])}
    for name, pair in images.items():
        yield f"stack-samples{name}.ring", with_stack_samples(ring, *pair), "read: 10 calls"
    yield "stack-samples-of-2-63-bytes.ring", with_stack_samples(ring, sound, none, count=TWO63), "read: 10 calls"
    yield "stack-samples-in-words.ring", with_stack_samples(ring, sound, none, stride=8), "read: 10 calls"


def ring_samples(rings):
    ring = rings["hung-gpu-rank3"]
    first_call, first_row, first_thread = (rows(ring, kind)[0] for kind in (CALLS, COMMUNICATORS, THREADS))
    yield from ((f"{name}.ring", data, "read: ") for name, data in rings.items())
    yield "empty.ring", b"", "too short"
    yield "cut-in-header.ring", ring[:2000], "too short"
    yield "cut-in-a-region.ring", ring[:HEADER_BYTES + 500], "truncated"
    yield "header-alone.ring", patched(ring[:HEADER_BYTES], (20, "I", 0)), "read: 0 calls"
    yield "byte-order-of-the-other-kind.ring", patched(ring, (0, "8s", ring[7::-1]),
                                                       (12, "I", 0x04030201)), "byte order"
    yield "endian-tag-swapped.ring", patched(ring, (12, "I", 0x04030201)), "byte order"
    yield "newer-major.ring", patched(ring, (8, "H", 2)), "is not the 1"
    yield "region-count-of-32-bits.ring", patched(ring, (20, "I", 0xFFFFFFFF)), "read: 10 calls"
    yield "file-of-2-63-bytes.ring", patched(ring, (24, "Q", TWO63)), "read: 10 calls"
    for field, form in (("offset", "Q"), ("count", "Q"), ("stride", "I")):
        value = TWO63 if form == "Q" else 0x80000000
        says = "read: 0 calls" if field == "offset" else "a ring region reaches past the end"
        yield f"region-{field}-of-2-63.ring", patched(ring, (region_field(ring, CALLS, field), form, value)), says
    yield "regions-that-overflow.ring", patched(ring, (region_field(ring, CALLS, "count"), "Q",
                                                       ALL_ONES // 192 + 2)), "region"
    yield "stride-of-0.ring", patched(ring, (region_field(ring, CALLS, "stride"), "I", 0)), "fewer than"
    yield "all-regions-in-one-place.ring", patched(
        ring, *((region_field(ring, kind, "offset"), "Q", HEADER_BYTES) for kind in regions(ring))), "read: "
    yield "cursors-at-2-63.ring", patched(
        ring, *((CURSORS_AT + CURSOR_BYTES * i, "Q", TWO63 + i) for i in range(12))), "read: "
    yield "slots-of-2-63.ring", patched(ring, *((place, "Q", TWO63 + 1)
                                                for place in rows(ring, CALLS))), "read: 0 calls"
    yield "sequences-and-counts-of-2-63.ring", patched(
        ring, *((place + 16, "QQ", TWO63 + i, TWO63) for i, place in enumerate(rows(ring, CALLS)))), "read: "
    yield "clocks-backwards.ring", clocks_backwards(ring), "read: "
    yield "clock-at-the-end-of-time.ring", patched(
        ring, (472, "Q", ALL_ONES), (480, "QQQQ", 2, TWO63, ALL_ONES, ALL_ONES), (544, "Q", ALL_ONES),
        (first_call + 72, "Q", ALL_ONES)), "read: "
    yield "rank-of-31-bits.ring", patched(ring, (88, "iii", 2**31 - 1, -2**31, -2**31)), "read: "
    yield "same-rank-as-another-process.ring", patched(ring, (88, "i", 1)), "read: "
    yield "same-communicator-in-every-row.ring", patched(
        ring, *((place + 8, "Q", struct.unpack_from("<Q", ring, first_row + 8)[0])
                for place in rows(ring, COMMUNICATORS))), "read: "
    yield "communicator-of-31-bits.ring", patched(ring, (first_row + 88, "Qii", TWO63, 2**31 - 1, 2**31 - 2)), "read: "
    yield "calls-of-rows-that-are-not-there.ring", patched(
        ring, *((place + 112, "I", 0xFFFFFF00 + i) for i, place in enumerate(rows(ring, CALLS)))), "read: "
    yield "words-out-of-range.ring", patched(
        ring, *((place + 144, "HBBHB", 999, 77, 88, 0xFFFF, 99) for place in rows(ring, CALLS)),
        (552, "I", 12345)), "read: "
    yield "texts-outside-the-heap.ring", patched(
        ring, *((place + 8, "II", 0xFFFFFFFF, 0xFFFFFFFF) for place in rows(ring, TEXTS))), "read: "
    yield "call-sites.ring", with_call_sites(ring), "read: 10 calls"
    yield "call-sites-of-frames-that-are-not-there.ring", with_call_sites(
        ring, (1, 1, 0xFFFFFFFF, 0xFFFF, 0xFFFF, 1, 0xFF)), "read: 10 calls"
    yield "call-sites-of-places-that-are-not-there.ring", with_call_sites(
        ring, frames=(0xFFFFFFFF, 0x7FFFFFFF)), "read: 10 calls"
    yield "call-sites-at-2-63.ring", with_call_sites(ring, offset=TWO63, count=0xFFFFFFFF), "read: 10 calls"
    yield "call-sites-of-32-bits.ring", with_call_sites(ring, count=0xFFFFFFFF), "read: 10 calls"
    yield from rings_with_stack_samples(ring)
    yield "spans-deeper-than-8.ring", patched(ring, (first_thread + 56, "I", 0xFFFFFFFF)), "read: "


def dump_of(*sections, **header):
    return container(b"TITANDMP", *sections, **header)


def dump_samples(dumps, rings):
    ring = rings["hung-gpu-rank3"]
    meta = (b'{"schema":1,"dump":0,"reason":"timeout","realtime_ns":1800000040000000000,"ticks":1040000000000,'
            b'"process_alive":true}')
    whole = (section(1, zstd_frame(meta), len(meta)), section(2, zstd_frame(ring), len(ring)))
    good = dump_of(*whole)
    yield from ((f"{name}.titan", data, "read: ") for name, data in dumps.items())
    yield "not-compressed.titan", good, "read: "
    yield "clocks-backwards.titan", dump_of(whole[0],
                                            section(2, zstd_frame(clocks_backwards(ring)), len(ring))), "read: "
    yield "empty.titan", b"", "empty file"
    yield "cut-in-header.titan", good[:20], "truncated"
    yield "cut-in-section.titan", good[:-200], "truncated"
    yield "without-end.titan", good[:-40], "truncated"
    yield "without-meta.titan", dump_of(whole[1]), "meta section is lost"
    yield "without-ring.titan", dump_of(whole[0]), "holds no ring"
    yield "byte-order-of-the-other-kind.titan", patched(good, (0, "8s", b"PMDNATIT")), "byte order"
    yield "newer-major.titan", dump_of(*whole, major=99), "is not the 1"
    yield "header-of-32-bits.titan", dump_of(*whole, header_bytes=0xFFFFFFFF), "impossible size"
    yield "stored-2-63.titan", dump_of(whole[0], section(2, b"", 4096, stored=TWO63)), "cut off"
    yield "raw-2-63.titan", dump_of(whole[0], section(2, zstd_frame(ring), TWO63)), "over the limit"
    yield "offset-2-63.titan", dump_of(whole[0], section(2, zstd_frame(ring), len(ring), TWO63)), "over the limit"
    yield "offset-that-overflows.titan", dump_of(whole[0], section(2, zstd_frame(ring), len(ring),
                                                                   ALL_ONES - 100)), "over the limit"
    yield "far-apart.titan", dump_of(*whole, section(2, zstd_frame(b"\1" * 4096), 4096, (1 << 30) - 4096)), "read: "
    bomb, bomb_bytes, over_bytes = zstd_frame(repeated=256 << 20), 256 << 20, 2 << 30
    yield "bomb-that-says-2-gib.titan", dump_of(whole[0],
                                                section(2, zstd_frame(repeated=bomb_bytes, claims=over_bytes),
                                                        over_bytes)), "over the limit"
    yield "bomb-of-256-mib-that-says-4-kib.titan", dump_of(whole[0], section(2, bomb, 4096)), "zstd frame has"
    yield "bomb-of-256-mib-in-a-frame-of-4-kib.titan", dump_of(whole[0],
                                                               section(2, zstd_frame(repeated=256 << 20, claims=4096),
                                                                       4096)), "unpack"
    yield "bomb-of-unknown-size.titan", dump_of(whole[0], section(2, zstd_frame(repeated=256 << 20, claims=None),
                                                                  4096)), "cannot be unpacked"
    yield "bomb-of-64-mib.titan", dump_of(whole[0], section(2, zstd_frame(repeated=64 << 20), 64 << 20)), "not a"
    yield "little-that-claims-1-gib.titan", dump_of(whole[0],
                                                    section(2, zstd_frame(b"\1" * 100, claims=None),
                                                            1 << 30)), "unpacks to 100 bytes"
    yield "little-in-a-frame-of-1-gib.titan", dump_of(whole[0],
                                                      section(2, zstd_frame(b"\1" * 100, claims=1 << 30),
                                                              1 << 30)), "cannot be unpacked"
    yield "meta-of-17-mib.titan", dump_of(section(1, zstd_frame(repeated=17 << 20, byte=b" "), 17 << 20),
                                          whole[1]), "over the limit"
    yield "meta-of-2-mib-of-brackets.titan", dump_of(section(1, zstd_frame(repeated=2 << 20, byte=b"["), 2 << 20),
                                                     whole[1]), "meta section"
    nested = b'{"a":' * 20000 + b"1" + b"}" * 20000
    yield "meta-nested.titan", dump_of(section(1, zstd_frame(nested), len(nested)), whole[1]), "read: "
    yield "meta-no-json.titan", dump_of(section(1, zstd_frame(b"\xff\xfe{"), 3), whole[1]), "meta section is lost"
    odd = (b'{"dump":18446744073709551616,"reason":7,"realtime_ns":-1,"ticks":1e400,"process_alive":"no",'
           b'"environment":[]}')
    yield "meta-of-other-types.titan", dump_of(section(1, zstd_frame(odd), len(odd)), whole[1]), "meta section"
    yield "many-sections.titan", dump_of(whole[0],
                                         *[section(2, zstd_frame(repeated=131072, byte=b"\0"), 131072, i << 17)
                                           for i in range(200)], whole[1]), "read: "
    yield "sections-of-unknown-kinds.titan", dump_of(*[section(kind, b"anything", 8) for kind in (3, 99, 0xFFFFFFFF)],
                                                     *whole), "read: "
    yield "no-zstd.titan", dump_of(whole[0], section(2, b"anything at all", 15)), "not a zstd frame"


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def digest_of(*sections, **header):
    return container(b"TITDIGST", *sections, **header)


def digest_samples(digests):
    """Of each digest also a form that is not compressed, so that mutations get at the processes."""
    unpacked = {}
    for name, data in digests.items():
        yield f"{name}.digest", data, "read: "
        unpacked[name] = [(kind, unzstd(stored, raw)) for kind, stored, raw in sections_of(data)]
        yield f"{name}-not-compressed.digest", digest_of(*[section(kind, zstd_frame(raw), len(raw))
                                                           for kind, raw in unpacked[name]]), "read: "
    kind, process = unpacked["small"][0]
    packed = section(kind, zstd_frame(process), len(process))
    good = digest_of(packed)
    yield "same-process-twice.digest", digest_of(packed, packed), "read: 2 processes"
    yield "empty.digest", b"", "empty file"
    yield "cut-in-section.digest", good[:-100], "truncated"
    yield "without-end.digest", good[:-40], "truncated"
    yield "byte-order-of-the-other-kind.digest", patched(good, (0, "8s", good[7::-1])), "byte order"
    yield "newer-major.digest", digest_of(packed, major=2), "is not the 1"
    yield "stored-2-63.digest", digest_of(section(kind, b"", 4096, stored=TWO63)), "cut off"
    yield "raw-2-63.digest", digest_of(section(kind, zstd_frame(process), TWO63)), "over the limit"
    yield "bomb-of-256-mib.digest", digest_of(section(kind, zstd_frame(repeated=256 << 20),
                                                      256 << 20)), "over the limit"
    yield "bomb-of-256-mib-that-says-4-kib.digest", digest_of(section(kind, zstd_frame(repeated=256 << 20),
                                                                      4096)), "zstd frame"
    yield "bomb-of-256-mib-in-a-frame-of-4-kib.digest", digest_of(
        section(kind, zstd_frame(repeated=256 << 20, claims=4096), 4096)), "unpack"
    yield "bomb-of-32-mib.digest", digest_of(section(kind, zstd_frame(repeated=32 << 20), 32 << 20)), "skipped"
    for tag in range(1, 26):
        for words, count in (("2-63", TWO63), ("of-all-it-has", 600)):
            field = varint(count) + bytes(600)
            raw = varint(tag) + varint(len(field)) + field + process  # the first one of a tag counts
            yield f"count-{words}-in-field-{tag}.digest", digest_of(section(kind, zstd_frame(raw), len(raw))), ""
    for name, number in (("problems", 1), ("groups", 3)):
        raw = varint(TWO63)
        yield f"count-2-63-of-{name}.digest", digest_of(section(number, zstd_frame(raw), len(raw)),
                                                        packed), "read: 1 processes"
    for name, raw in (("in-half", process[:len(process) // 2]), ("in-its-last-field", process[:-1])):
        yield f"process-cut-{name}.digest", digest_of(section(kind, zstd_frame(raw), len(raw))), "skipped"


def journal_section(raw, kind=1):
    return section(kind, zstd_frame(raw), len(raw))


def journal_of(*blocks, index=b"", **header):
    """Without the end section of the other containers."""
    sections = [journal_section(block) for block in blocks]
    return container(b"TITNJRNL", *([journal_section(index, 2)] if index else []), *sections, **header)[:-40]


def journal_index(ring, *rows, processes=1, process_count=None, row_count=None):
    """Of blocks of that ring's process: each row has the block, and what is not as in journal_block."""
    pid, = struct.unpack_from("<i", ring, 64)
    start, = struct.unpack_from("<Q", ring, 72)
    boot_id = ring[168:208].split(b"\0")[0]
    process = varint(len(boot_id)) + boot_id + varint(2 * pid) + varint(start)
    difference = lambda number, before: varint((number - before) * 2 if number >= before
                                               else (before - number) * 2 - 1)
    content, ticket, call, step = b"", 0, 0, 0
    for block, odd in rows:
        row = {"process": 0, "size": len(journal_section(block)), "first": 7, "count": 3, "call": 40, "next_call": 47,
               "first_step": 1, "last_step": 2, **odd}
        content += b"".join((varint(row["process"]), varint(row["size"]), difference(row["first"], ticket),
                             varint(row["count"]), difference(row["call"], call),
                             difference(row["next_call"], row["call"]), difference(row["first_step"], step),
                             difference(row["last_step"], row["first_step"])))
        ticket, call, step = row["first"], row["call"], row["first_step"]
    tags = ((1, varint(processes if process_count is None else process_count) + process * processes),
            (2, varint(len(rows) if row_count is None else row_count) + content))
    return b"".join(varint(tag) + varint(len(field)) + field for tag, field in tags)


def journal_block(ring, markers=None, first=7, count=3, texts=(b"step", b"forward"), sites=((1 << 63 | 5, 2),),
                  calls=(40, 47), steps=1, more=()):
    """A step, a span that ends in it; or the columns given. Then fields of any tag."""
    def field(tag, content):
        return varint(tag) + varint(len(content)) + content

    if markers is None:
        rows = {"kind": (1, 2, 3), "depth": (0, 0, 0), "detail": (0, 0, 0), "name": (0, 2, 2), "text": (0, 0, 0),
                "site": (1, 1, 0), "thread": (84, 0, 0), "step": (2, 0, 0), "ticks": (2000, 20, 20), "span": (0, 9, 1),
                "value": (2, 0, 0), "extra": (0, 0, 0)}
        markers = b"".join(varint(value) for row in rows.values() for value in row)
    return (field(1, ring[:4096]) + field(2, b"".join(map(varint, (first, count, *calls)))) +
            field(3, varint(len(texts)) + b"".join(varint(len(text)) + text for text in texts)) +
            field(4, varint(len(sites)) + b"".join(varint(key) + varint(place) for key, place in sites)) +
            field(5, markers) + field(6, varint(steps) + b"".join(map(varint, (4, 3, 4096, 100, 200, 3, 2000, 900)))) +
            b"".join(field(tag, b"".join(map(varint, numbers))) for tag, numbers in more))


def journal_sums_samples(ring):
    """Sums by communicator and operation, and readings of the machine."""
    of = lambda *more: journal_of(journal_block(ring, more=more))
    communicators, row = (1, 0xabc, 16, 2), (4, 1, 3, 4096, 3, 700, 1500, 1500, 4000)
    calls = (*communicators, 1, 1, *row)
    health = (1, 2, 5, 0x7840, 0x8840, 4, 0, 0, 0, 4000, 20)
    yield "sums.journal", of((7, calls), (8, health)), "read: 3 markers with names and sums"
    most = (1 << 64) - 1
    for name, more in (("of-no-communicator", (7, (0, 1, 77, *row))),
                       ("of-no-operation", (7, (*communicators, 1, 1, 4, 255, *row[2:]))),
                       ("without-names", (7, (1, 0xabc, 16, 77, *calls[4:]))),
                       ("that-overflow", (7, (*communicators, 2, 1, 1, 4, 0, 1, 1, *[most] * 14))),
                       ("of-readings-without-names", (8, (1, 77, *health[2:]))),
                       ("of-readings-that-are-no-numbers", (8, (1, 2, most, 0xf87f, most, *[most] * 6)))):
        yield f"sums-{name}.journal", of(more), "read: 3 markers with names and sums"
    for name, more in (("2-63-communicators", (7, (TWO63,))), ("2-63-rows", (7, (*communicators, TWO63))),
                       ("more-rows-than-columns", (7, (*communicators, 2, 1, 1, *row))),
                       ("cut", (7, calls[:-1])), ("2-63-readings", (8, (TWO63, *health[1:]))),
                       ("more-readings-than-columns", (8, (2, *health[1:]))), ("readings-cut", (8, health[:-1]))):
        yield f"sums-{name}.journal", of(more), "fit together"


def journal_samples(rings):
    ring = rings["mixed-rank0"]
    good = journal_block(ring)
    yield "small.journal", journal_of(good), "read: 3 markers with names"
    yield "two-blocks.journal", journal_of(good, journal_block(ring, first=10)), "read: 6 markers"
    yield "empty.journal", b"", "empty file"
    yield "no-blocks.journal", journal_of(), "read: 0 markers"
    yield "cut-in-block.journal", journal_of(good, good)[:-30], "truncated"
    yield "newer-major.journal", journal_of(good, major=2), "is not the 1"
    yield "unknown-tag.journal", journal_of(good + varint(99) + varint(2) + b"ab"), "read: 3 markers"
    yield "not-a-ring.journal", journal_of(journal_block(bytes(4096))), "fit together"
    yield "header-cut.journal", journal_of(journal_block(ring[:2000])), "fit together"
    yield "no-markers.journal", journal_of(journal_block(ring, b"", count=0)), "read: 0 markers"
    for name, block in (("calls-backwards", journal_block(ring, calls=(5, 4))),
                        ("2-63-steps", journal_block(ring, steps=TWO63)),
                        ("more-steps-than-columns", journal_block(ring, steps=2)),
                        ("more-markers-than-columns", journal_block(ring, count=4)),
                        ("4097-markers", journal_block(ring, count=4097)),
                        ("2-63-markers", journal_block(ring, count=TWO63)),
                        ("ticket-2-63", journal_block(ring, first=TWO63))):
        yield f"{name}.journal", journal_of(block), "fit together"
    for name, block in (("site-without-text", journal_block(ring, sites=((5, 77),))),
                        ("no-texts", journal_block(ring, texts=()))):
        yield f"{name}.journal", journal_of(block), "read: 3 markers"
    yield from journal_index_samples(ring)
    yield from journal_sums_samples(ring)
    yield "bomb.journal", container(b"TITNJRNL", section(1, zstd_frame(repeated=256 << 20),
                                                         256 << 20)), "over the limit"


def journal_index_samples(ring):
    one, two = journal_block(ring), journal_block(ring, first=10)
    indexed = lambda *rows, **odd: journal_of(one, two, index=journal_index(ring, *rows, **odd))
    both = (one, {}), (two, {"first": 10})
    yield "indexed.journal", indexed(*both), "read: 6 markers"
    yield "index-of-one-of-two.journal", indexed(both[0]), "read: 6 markers"
    yield "index-of-more.journal", indexed(*both, (one, {})), "read: 6 markers with names; section 4: cut off"
    for name, odd in (("ticket", {"first": 8}), ("count", {"count": 2}), ("calls", {"call": 41}),
                      ("first-step", {"first_step": 2}), ("last-step", {"last_step": 1})):
        yield (f"index-of-another-{name}.journal", indexed((one, odd), both[1]),
               "read: 3 markers with names; a block is not what its index says")
    for name, odd in (("process-beyond", {"process": 1}), ("4097-markers", {"count": 4097}),
                      ("calls-backwards", {"next_call": 39}), ("ticket-2-62", {"first": TWO63 >> 1}),
                      ("size-of-a-header", {"size": 40})):
        yield (f"index-{name}.journal", indexed((one, odd), both[1]),
               "read: 6 markers with names; section 1: its fields do not fit together")
    for name, odd in (("2-63-rows", {"row_count": TWO63}), ("2-63-processes", {"process_count": TWO63})):
        yield (f"index-of-{name}.journal", indexed(*both, **odd),
               "read: 6 markers with names; section 1: its fields do not fit together")
    short, long = ((one, {"size": len(journal_section(one)) + more}) for more in (-1, 1))
    yield "index-of-a-shorter-block.journal", indexed(short, both[1]), "read: 0 markers"
    yield "index-of-a-longer-block.journal", indexed(long, both[1]), "section 3: cut off"


def sections_of(data):
    offset = struct.unpack_from("<I", data, 12)[0]
    while True:
        kind, _, stored, raw, _, _ = struct.unpack_from("<IIQQQQ", data, offset)
        if kind == 0:
            return
        offset += 40
        yield kind, data[offset:offset + stored], raw
        offset += stored


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def synthetic(synth, analyze, scratch):
    """Small jobs, as rings, dumps and digests."""
    jobs = {"mixed": ["--mixed"], "timed": ["--timed", "--ranks", 4, "--hosts", 2, "--steps", 3, "--fault", "none"],
            "hung-gpu": ["--ranks", 4, "--steps", 2, "--at", 1, "--fault", "gpu"],
            "p2p-cycle": ["--random", "p2p_cycle"],
            "small": ["--ranks", 2, "--steps", 2, "--rank", 1, "--at", 1]}
    wanted = {"mixed": (0, 1, 2), "timed": (3,), "hung-gpu": (3,), "p2p-cycle": (0,), "small": ()}
    dumps, rings, digests = {}, {}, {}
    for job, arguments in jobs.items():
        run(synth, scratch / job, *arguments)
        for path in sorted((scratch / job).rglob("*.titan")):
            rank = int(path.name[4:9])
            if rank in wanted[job]:
                ring = titan_decode.Ring(titan_decode.read_dump(path.read_bytes())).image
                rings[f"{job}-rank{rank}"] = shrunk(ring)
                if job != "timed":
                    dumps[f"{job}-rank{rank}"] = path.read_bytes()
        run(analyze, "digest", scratch / job, "--output", scratch / f"{job}.digest")
        if job != "hung-gpu":
            digests[job] = (scratch / f"{job}.digest").read_bytes()
    return dumps, rings, digests


def found_samples(reader):
    return [(f"found-{name}", (HERE / "found" / reader / name).read_bytes(), says)
            for name, says in FOUND.get(reader, [])]


def write(directory, samples):
    directory.mkdir(parents=True)
    for name, data, _ in samples:
        (directory / name).write_bytes(data)
    (directory / "EXPECTED").write_text("".join(f"{name}: {says or 'read: '}\n" for name, _, says in samples),
                                        encoding="utf-8")


def main():
    synth, analyze, into = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        dumps, rings, digests = synthetic(synth, analyze, pathlib.Path(scratch))
    shutil.rmtree(into, ignore_errors=True)
    own = list(dump_samples(dumps, rings))
    bomb = next(data for name, data, _ in own if name == "bomb-of-64-mib.titan")
    for reader, samples in {"ring": ring_samples(rings), "dump": own, "digest": digest_samples(digests),
                            "pickle": pickle_samples(), "json": json_samples(),
                            "archive": archive_samples(dumps, rings["mixed-rank0"], bomb), "stacks": stacks_samples(),
                            "journal": journal_samples(rings), "witness": witness_samples(),
                            "log": log_samples()}.items():
        write(into / reader, [*samples, *found_samples(reader)])


if __name__ == "__main__":
    main()
