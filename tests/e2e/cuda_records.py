"""CUDA calls and stream work of a ring or dump, read by the second reader's rules (formats/FORMAT.md, 3.5, 3.8 and
3.10)."""

import collections
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "synth"))
import titan_decode  # noqa: E402

WORK_KINDS = {1: "kernel", 2: "copy", 3: "memory_set", 4: "host_function", 5: "event_record", 6: "event_wait",
              7: "graph_launch", 8: "value_wait", 9: "value_write", 10: "stream_ordered_memory"}
Blocking = collections.namedtuple("Blocking", "call object result thread finished")
Work = collections.namedtuple("Work", "kind call name stream object amount thread captured")
Counted = collections.namedtuple("Counted", "launches queries")


class Records:
    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        self.ring = titan_decode.Ring(titan_decode.read_dump(data) if data[:8] == b"TITANDMP" else data)

    def _slots(self, kind):
        stride, offset, count, head = self.ring.regions[kind]
        for ticket in range(max(0, head - count), head):
            place = offset + (ticket % count) * stride
            if struct.unpack_from("<Q", self.ring.image, place)[0] == 2 * ticket + 2:
                yield place

    def blocking(self):
        for place in self._slots(2):
            _, returned, thing, _, name, thread, result = struct.unpack_from("<QQQqIIi", self.ring.image, place + 8)
            yield Blocking(self.ring.text(name), thing, result, thread, returned != 0)

    def work(self):
        for place in self._slots(9):
            _, stream, thing, amount, _, name, thread, call, kind, flags = struct.unpack_from(
                "<QQQQQIIIBB", self.ring.image, place + 8)
            yield Work(WORK_KINDS.get(kind, kind), self.ring.text(call), self.ring.text(name), stream, thing, amount,
                       thread, bool(flags & 1))

    def counted(self):
        """Sums over the threads."""
        stride, offset, count, _ = self.ring.regions[5]
        rows = [struct.unpack_from("<QQ", self.ring.image, offset + row * stride + 176) for row in range(count)]
        return Counted(sum(row[0] for row in rows), sum(row[1] for row in rows))
