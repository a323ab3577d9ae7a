"""Images of stacks (formats/layout/stacks_layout.h) with sound and untrue contents."""
import struct

HEADER_BYTES, TABLES = 184, 8
THREADS, FRAMES, MODULES, TEXTS, PYTHON, NAMES, SAMPLES = range(7)
STRIDES = {THREADS: 80, FRAMES: 8, MODULES: 64, TEXTS: 1, PYTHON: 24, NAMES: 16}
SAMPLED_STRIDES = {**STRIDES, SAMPLES: 24}  # of an image in a ring
MAGIC = b"TITNTACK"
INTERRUPTED = 1 << 63


class Image:
    """Tables filled row by row."""

    def __init__(self, strides=STRIDES):
        self.strides = strides
        self.rows = {table: bytearray() for table in strides}
        self.text("")

    def count(self, table):
        return len(self.rows[table]) // self.strides[table]

    def text(self, string):
        place = len(self.rows[TEXTS])
        self.rows[TEXTS] += string.encode() + b"\0"
        return place

    def module(self, begin, end, path):
        self.rows[MODULES] += struct.pack("<QQQII32s", begin, end, begin, self.text(path), 0, b"")

    def thread(self, tid, name, frames=(), python=(), outcome=0, **claims):
        """`python`: (file, function, line, is_entry, native)."""
        first_frame, first_python = self.count(FRAMES), self.count(PYTHON)
        self.rows[FRAMES] += struct.pack(f"<{len(frames)}Q", *frames)
        for file, function, line, is_entry, native in python:
            self.rows[PYTHON] += struct.pack("<IIiIII", self.text(file), self.text(function), line, is_entry, native, 0)
        first_frame = claims.get("first_frame", first_frame)
        self.rows[THREADS] += struct.pack("<iIBcHIqQQQQIIIIII", tid, self.text(name), outcome, b"S", 0,
                                          self.text("futex_wait"), 202, 1, 2, 3,
                                          10 ** 9, first_frame, claims.get("frame_count", len(frames)), first_python,
                                          claims.get("python_count", len(python)), 0, 0)

    def sample(self, stack, step, ticks):
        self.rows[SAMPLES] += struct.pack("<QqII", ticks, step, stack, 0)

    def name(self, address, name):
        self.rows[NAMES] += struct.pack("<QII", address, self.text(name), 0)

    def bytes(self, magic=MAGIC, major=1, tables=()):
        """`tables`: what a descriptor claims instead: table -> (offset, stride, count), None as it is."""
        tables, place, descriptors = dict(tables), HEADER_BYTES, b""
        for table in range(TABLES):
            stride = self.strides.get(table, 0)
            true = (place if stride else 0, stride, self.count(table) if stride else 0)
            claimed = tables.get(table, (None, None, None))
            descriptors += struct.pack("<QII", *(t if c is None else c for t, c in zip(true, claimed)))
            place += len(self.rows.get(table, b""))
        head = struct.pack("<8sHHIQQIIIIQ", magic, major, 0, HEADER_BYTES, 1_700_000_000 * 10 ** 9, 5_000_000, 0, 0,
                           self.rows[TEXTS].find(b"CPython"), 0, 0)
        return head + descriptors + b"".join(bytes(self.rows[table]) for table in self.strides)


def job(strides=STRIDES):
    image = Image(strides)
    image.text("CPython 3.12.4")
    image.module(0x1000, 0x9000, "/usr/bin/python3.12")
    image.module(0x10000, 0x20000, "/nowhere/libtitantrace.so")
    image.module(0x30000, 0x40000, "/nowhere/libdata.so")
    image.thread(100, "python3", (0x30010, 0x2000, 0x30500, 0x2000, 0x30010),
                 (("/w/data.py", "next_batch", 88, 1, 2), ("/w/train.py", "step", 12, 0, 0),
                  ("/w/train.py", "<module>", 212, 1, 4)))
    image.thread(101, "crashed", (0x10010, 0x10020, 0x30077 | INTERRUPTED, 0x30088))
    image.thread(102, "deaf", outcome=3)
    image.name(0x30500, "_ZN4data10next_batchEv")
    image.name(0x30010, "_ZN")
    image.thread(103, "jit", (0x7f0000000000,), (("", "", 0, 1, 0),), outcome=1)
    return image


def sampled(samples=((0, 5), (0, 6), (2, 6), (3, 7)), **claims):
    """An image of a ring: a stack, a step for each sample."""
    image = job(SAMPLED_STRIDES)
    for number, (stack, step) in enumerate(samples):
        image.sample(stack, step, 1000 + number)
    return image.bytes(**claims)


def changed(change):
    image = job()
    change(image)
    return image.bytes()


def stacks_samples():
    """(name, bytes, what the reader must say; empty: it is read)."""
    sound = job().bytes()
    huge = (1 << 32) - 1
    samples = [
        ("sound.stacks", sound, ""),
        ("empty.stacks", b"", "cut off"),
        ("header-only.stacks", sound[:HEADER_BYTES], ""),
        ("half-a-header.stacks", sound[:90], "cut off"),
        ("magic.stacks", job().bytes(magic=b"KCATNTIT"), "magic"),
        ("newer.stacks", job().bytes(major=9), "is not the 1"),
        ("frames-of-nobody.stacks", changed(lambda i: i.thread(7, "x", first_frame=huge, frame_count=5)), ""),
        ("frames-shared-by-all.stacks",
         changed(lambda i: [i.thread(7 + n, "x", first_frame=0, frame_count=huge) for n in range(9)]), ""),
        ("python-of-nobody.stacks", changed(lambda i: i.thread(7, "x", python_count=huge)), ""),
        ("python-in-a-frame-that-is-not-there.stacks",
         changed(lambda i: i.thread(7, "x", (1,), (("f.py", "f", -5, 1, huge),))), ""),
        ("deep.stacks", changed(lambda i: i.thread(7, "deep", (0x30010,) * 5000)), ""),
        ("strange-texts.stacks",
         changed(lambda i: i.thread(7, "\x1b[31m\n\u202e", (1,), (("\n", "\x1b]0;", 1, 1, 1),))), ""),
    ]
    for table in STRIDES:
        samples += [(f"table-{table}-{name}.stacks", job().bytes(tables={table: claim}), "")
                    for name, claim in (("beyond", (1 << 63, None, None)), ("huge", (None, None, huge)),
                                        ("stride-0", (None, 0, None)),
                                        ("stride-1", (None, 1, None)), ("stride-huge", (None, huge, None)),
                                        ("over-the-header", (0, None, None)))]
    samples += [(f"cut-at-{at}.stacks", sound[:at], "") for at in range(200, len(sound), 97)]
    return samples
