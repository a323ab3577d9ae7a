"""Dumps of titantrace, written from formats/FORMAT.md alone: a ring image of what a rank did, in a dump file.

Unlike PyTorch's recorder this one sees NCCL's calls (the members of an NCCL group are calls), the CUDA calls that the
host blocks in, what is given to streams, and, where the GPU is observed, how far its streams have come.
"""

import hashlib
import json
import os
import struct
from typing import Dict, List

from engine import MS, S, US, Engine, numel
from recorders.zstd_frames import fnv1a64, frame

KINDS = {"all_reduce": 1, "all_reduce_barrier": 1, "_all_gather_base": 4, "all_gather": 4, "_reduce_scatter_base": 5,
         "reduce_scatter": 5, "reduce": 2, "broadcast": 3, "_broadcast_oop": 3, "send": 9, "recv": 10}
REDUCES = (1, 2, 5)
ROOTED = (2, 3)
DTYPES = {"Float": 7, "BFloat16": 9, "Half": 6, "Long": 4, "Int": 2, "Byte": 1}
CALLS = {1: "ncclAllReduce", 2: "ncclReduce", 3: "ncclBroadcast", 4: "ncclAllGather", 5: "ncclReduceScatter",
         9: "ncclSend", 10: "ncclRecv"}
COMM_INIT = 20
ENQUEUED, PENDING, STARTED, FINISHED, ENTERED, RETURNED = 4, 5, 6, 7, 1, 9
KERNEL, EVENT_RECORD, EVENT_WAIT = 1, 5, 6
NONE32 = 0xFFFFFFFF
COLLECTIVE = struct.Struct("<8Qq5Q4I3iIHBBHBBiiQQI4HI")
CUDA_CALL = struct.Struct("<4QqIIiIQ")
MARKER = struct.Struct("<3QqIIIBBH")
COMMUNICATOR = struct.Struct("<IHBB10Q5iIIIiiiIQ6Q")
THREAD = struct.Struct("<II4QIIQI8II8Q16sQQ")
STRING = struct.Struct("<QII")
STREAM_WORK = struct.Struct("<6QIIIBBH")
MARKS = struct.Struct("<QQ")
REGION = struct.Struct("<IIQQQ")
PAGE = 4096
PIECE = 1 << 20  # elements that an all_to_all moves between two ranks


class Settings:
    def __init__(self, rng):
        self.timing = rng.random() < 0.7
        self.method = rng.choice([3, 3, 3, 2, 1])  # of observing the GPU, where it is observed
        self.work = rng.random() < 0.8  # TITANTRACE_LAUNCHES
        self.steps = rng.random() < 0.6
        self.ring = 512
        self.timeout_ms = 300000
        self.clocks_off_ns = rng.choice([0, 2 * MS, 3 * S])
        self.epoch_ns = (1763625600 + rng.randrange(86400)) * S
        self.format = "titan"
        self.names = rng.random() < 0.5

    def describe(self) -> dict:
        return {"recorder": "titan", "timing": self.timing, "ring": self.ring, "format": "titan",
                "stream_work": self.work, "clocks_off_ns": self.clocks_off_ns, "timeout_ms": self.timeout_ms}


class Texts:
    """Text index and heap; the id of a text is its row + 1, and 0 the empty one."""

    def __init__(self):
        self.ids: Dict[str, int] = {"": 0}
        self.index = b""
        self.heap = b""

    def __call__(self, text: str) -> int:
        if text not in self.ids:
            self.ids[text] = len(self.ids)
            data = text.encode()
            self.index += STRING.pack(fnv1a64(data), len(self.heap), len(data) + 1)
            self.heap += data
        return self.ids[text]


class Table:
    """Rows of a region; of a ring the newest `room` are kept."""

    def __init__(self, kind: int, stride: int, room: int, ring: bool):
        self.kind, self.stride, self.room, self.ring = kind, stride, room, ring
        self.rows: List[bytes] = []

    def bytes(self) -> bytes:
        if not self.ring or len(self.rows) <= self.room:
            return b"".join(self.rows)
        slots = [b""] * self.room
        for ticket in range(len(self.rows) - self.room, len(self.rows)):
            slots[ticket % self.room] = self.rows[ticket]
        return b"".join(slots)


def slot(ticket: int) -> int:
    return 2 * ticket + 2


def comm_id(group, key: str) -> int:
    return int.from_bytes(hashlib.sha256(("%s/%s" % (group.name, key)).encode()).digest()[:8], "little") | 1


class Writer:
    def __init__(self, engine: Engine, settings: Settings, rng, number: int):
        self.engine, self.settings, self.rng = engine, settings, rng
        self.run = "job-%d" % number
        per_host = engine.job.per_host
        hosts = (engine.job.world + per_host - 1) // per_host
        off = settings.clocks_off_ns
        self.offsets = [rng.randrange(-off, off + 1) if off else 0 for _ in range(hosts)]
        self.up = [rng.randrange(1000, 900000) * S for _ in range(hosts)]  # since boot
        self.lost = 0

    def host(self, rank: int) -> int:
        return rank // self.engine.job.per_host

    def ticks(self, rank: int, ns: int) -> int:
        return self.up[self.host(rank)] + ns

    def wall(self, rank: int, ns: int) -> int:
        return self.settings.epoch_ns + self.offsets[self.host(rank)] + ns

    def image(self, rank: int, now: int):
        """Ring header and regions as (offset, bytes)."""
        engine, settings = self.engine, self.settings
        tick = lambda ns: self.ticks(rank, ns)  # noqa: E731
        text = Texts()
        pid = 4000 + rank
        main = {"main": pid, "background": pid + 500}
        mine = [c for c in engine.comms.values() if rank in c.ranks and
                (c.born_ready or (rank, c.group.name, c.key) in engine.created)]
        rows = {(c.group.name, c.key): i for i, c in enumerate(mine)}
        calls = Table(1, 192, settings.ring, True)
        cuda = Table(2, 64, 256, True)
        marks = Table(3, 48, 256, True)
        work = Table(9, 64, 1024, True)
        launch_marks: Dict[int, bytes] = {}
        issued = [0] * len(mine)
        finished = [0] * len(mine)
        counters: List[Dict[str, List[int]]] = [{"send": [0] * len(c.ranks), "recv": [0] * len(c.ranks)} for c in mine]
        state = {"group": 0, "launch": 0}
        newest: Dict[str, tuple] = {}  # thread -> (name, returned) of its last call

        def after(thread: str, name: str, ns: int):
            if ns >= newest.get(thread, ("", -1))[1]:
                newest[thread] = (name, ns)

        def stream_of(comm) -> int:
            return 0x7f00_0000_8000 + 64 * rows[(comm.group.name, comm.key)]

        def compute_of(thread: str) -> int:
            return 0x7f00_0000_4000 + (64 if thread != "main" else 0)

        def step_at(ns: int) -> int:
            if not settings.steps:
                return -1
            found = -1
            for at, number in engine.steps[rank]:
                if at > ns:
                    break
                found = number
            return found

        def add_lifecycle(comm):
            entered, left = engine.created.get((rank, comm.group.name, comm.key), (0, 25 * MS))
            if entered > now:
                return
            inside = left is None or left > now
            ticket = len(calls.rows)
            calls.rows.append(COLLECTIVE.pack(
                slot(ticket), 0, 0, 0, 0, 0, 0, 0, step_at(entered), tick(entered), 0 if inside else tick(left), 0, 0,
                comm_id(comm.group, comm.key), rows[(comm.group.name, comm.key)], pid, 0, 0, -1, comm.ranks.index(rank),
                rank % engine.job.per_host, 0, COMM_INIT, 255, 255, 0, ENTERED if inside else RETURNED, 0, -1 if inside else 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0))

        def add_calls(records):
            record = records[-1]
            op, comm, item = record.op, record.comm, next(r.item for r in records if r.item is not None)
            row = rows[(comm.group.name, comm.key)]
            place = {member: i for i, member in enumerate(comm.ranks)}
            parts = []
            if op.kind == "call":
                parts = [(op.name, op.inputs, op.outputs, 0)]
            elif op.kind == "coalesced":
                parts = [(name, inputs, outputs, i) for i, (name, inputs, outputs) in enumerate(op.parts)]
            else:
                parts = [(direction, [[elements]], [[elements]], place[other]) for direction, other, elements in op.messages]
            if op.name == "all_to_all":
                # PyTorch makes it of a send and a receive for each member, in one NCCL group.
                parts = [(way, [[PIECE]], [[PIECE]], member) for member in range(len(comm.ranks)) for way in ("send", "recv")]
            grouped = op.kind in ("coalesced", "batch") or op.name == "all_to_all"
            if grouped:
                state["group"] += 1
            state["launch"] += 1
            launch = state["launch"]
            came = item.ready_ns is not None and item.ready_ns <= now
            done = item.end_ns is not None and item.end_ns <= now
            marked = settings.timing and settings.method == 3
            if marked:
                launch_marks[launch - 1] = MARKS.pack(launch if came else 0, launch if done else 0)
            said = (FINISHED if done else STARTED if came else PENDING) if settings.timing else ENQUEUED
            seen = self.rng.randrange(0, 5 * MS) if settings.method != 2 else 0
            for i, (name, inputs, outputs, peer) in enumerate(parts):
                kind = KINDS[name]
                p2p = name in ("send", "recv")
                if p2p:
                    sequence = counters[row][name][peer]
                    counters[row][name][peer] += 1
                else:
                    sequence = issued[row]
                    issued[row] += 1
                    if done and settings.timing:
                        finished[row] = issued[row]
                count = numel(outputs) if kind == 5 else numel(inputs)
                if kind == 3 and name == "_broadcast_oop":
                    count = numel(outputs)
                entered = record.created_ns + i * US
                calls.rows.append(COLLECTIVE.pack(
                    slot(len(calls.rows)), comm_id(comm.group, comm.key), sequence, count, 0x7e0000000000, 0x7e1000000000,
                    stream_of(comm), state["group"] if grouped else 0, step_at(entered), tick(entered),
                    tick(entered + 8 * US), tick(min(item.ready_ns + seen, now)) if came and settings.timing else 0,
                    tick(min(item.end_ns + seen, now)) if done and settings.timing else 0, 0, row, main[record.thread], 0, 0,
                    peer if p2p or kind in ROOTED else -1, place[rank], rank % engine.job.per_host, i if grouped else 0, kind,
                    DTYPES[op.dtype], 0 if kind in REDUCES else 255, 1 if grouped else 0, said, 0, 0, 0,
                    launch if marked else 0, 0, 0, 0, 0, 0, 0, 0))
                after(record.thread, CALLS[kind], entered + 8 * US)

        # Calls and creations of communicators, in the order of time.
        creations = sorted(((engine.created.get((rank, c.group.name, c.key), (0, 0))[0], i, c) for i, c in enumerate(mine)),
                           key=lambda x: x[:2])
        records = [r for r in engine.records[rank] if r.created_ns <= now]
        at = 0
        while at < len(records):
            upto = at + 1
            while upto < len(records) and records[upto].op is records[at].op:
                upto += 1
            while creations and creations[0][0] <= records[at].created_ns:
                add_lifecycle(creations.pop(0)[2])
            add_calls(records[at:upto])
            at = upto
        for _, _, comm in creations:
            add_lifecycle(comm)
        self.lost += max(0, len(calls.rows) - settings.ring)
        if settings.work:
            self.stream_work(rank, now, work, text, main, stream_of, compute_of, step_at)
        for ns, number in engine.steps[rank]:
            if settings.steps and ns <= now:
                marks.rows.append(MARKER.pack(slot(len(marks.rows)), tick(ns), number, number, 0, 0, pid, 1, 0, 0))
        threads = []
        for host in (h for h in engine.hosts if h.rank == rank):
            inside, since, of = 0, 0, 0
            for what, _, begun, until in host.visits:
                if begun > now:
                    break
                over = until is not None and until <= now
                cuda.rows.append(CUDA_CALL.pack(
                    slot(len(cuda.rows)), tick(begun), tick(until) if over else 0, compute_of(host.thread), step_at(begun),
                    text("cudaStreamSynchronize"), main[host.thread], 0 if over else -1, 0, 0))
                if over:
                    after(host.thread, "cudaStreamSynchronize", until)
                else:
                    inside, since, of = text("cudaStreamSynchronize"), begun, compute_of(host.thread)
            for (member, group, key), (entered, left) in engine.created.items():
                if member == rank and host.thread == "main" and entered <= now and (left is None or left > now):
                    inside, since = text("ncclCommInitRank"), entered
                    of = comm_id(engine.comms[(group, key)].group, key)
            last, returned = newest.get(host.thread, ("", -1))
            threads.append(THREAD.pack(main[host.thread], inside, tick(since) if inside else 0, of, 0, 0, 0, text(last),
                                       tick(returned) if returned >= 0 else 0, 0, *[0] * 8, 0, *[0] * 8,
                                       b"python3" if host.thread == "main" else b"checkpoint",
                                       sum(ns <= now and thread == host.thread for ns, _, thread, _ in engine.work[rank]),
                                       0))
        comms, p2p = [], b""
        for i, comm in enumerate(mine):
            entered, left = engine.created.get((rank, comm.group.name, comm.key), (0, 25 * MS))
            if entered > now:
                continue
            inside = left is None or left > now
            comms.append(COMMUNICATOR.pack(
                1, COMM_INIT, 1 if inside else 2, 0, comm_id(comm.group, comm.key), 0, 0, 0x7d0000000000 + 4096 * i, issued[i],
                finished[i], tick(entered), 0 if inside else tick(left), 0, len(p2p), len(comm.ranks), comm.ranks.index(rank),
                rank % engine.job.per_host, 0, 0, 0, 0, text(comm.group.desc) if settings.names and not comm.key else 0,
                -1 if inside else 0, 0, -1, pid, 0, *[0] * 6))
            p2p += struct.pack("<%dQ" % (2 * len(comm.ranks)), *counters[i]["send"], *counters[i]["recv"])
        rows_of_marks = 1
        while rows_of_marks < state["launch"] + 1:
            rows_of_marks *= 2
        regions = [
            (1, 192, settings.ring, calls.bytes(), len(calls.rows)), (2, 64, 256, cuda.bytes(), len(cuda.rows)),
            (3, 48, 256, marks.bytes(), len(marks.rows)), (4, 192, max(len(comms), 1), b"".join(comms), len(comms)),
            (5, 192, 4, b"".join(threads), len(threads)), (6, 16, 1024, text.index, len(text.ids) - 1),
            (7, 1, 65536, text.heap, len(text.heap)), (8, 1, max(len(p2p), 8), p2p, len(p2p)),
            (9, 64, 1024, work.bytes(), len(work.rows)),
            (10, 16, rows_of_marks, b"".join(launch_marks.get(i, MARKS.pack(0, 0)) for i in range(rows_of_marks)), rows_of_marks),
        ]
        return self.header(rank, now, regions)

    def stream_work(self, rank, now, work, text, main, stream_of, compute_of, step_at):
        """Kernels of the compute stream, and the events that make streams wait for each other."""
        events: Dict[int, int] = {}

        def add(ns, stream, thing, name, thread, call, kind):
            work.rows.append(STREAM_WORK.pack(slot(len(work.rows)), self.ticks(rank, ns), stream, thing, 1, 0, text(name),
                                              main[thread], text(call), kind, 0, 0))
        for ns, what, thread, item in self.engine.work[rank]:
            if ns > now:
                break
            compute = compute_of(thread if thread in main else "main")
            if what in ("kernel", "gpu_hang"):
                name = "sm90_xmma_gemm_bf16" if what == "kernel" else "spin_forever_kernel"
                add(ns - 3 * US, compute, 0x5000, name, thread, "cudaLaunchKernel", KERNEL)
                continue
            event = events.setdefault(id(item), 0x6000 + 64 * len(events))
            stream = stream_of(item.call.comm)
            if what == "call":
                add(ns - 2 * US, compute, event + 32, "cudaEventRecord", thread, "cudaEventRecord", EVENT_RECORD)
                add(ns - US, stream, event + 32, "cudaStreamWaitEvent", thread, "cudaStreamWaitEvent", EVENT_WAIT)
                add(ns + 9 * US, stream, event, "cudaEventRecord", thread, "cudaEventRecord", EVENT_RECORD)
            else:
                add(ns, compute, event, "cudaStreamWaitEvent", thread, "cudaStreamWaitEvent", EVENT_WAIT)

    def header(self, rank: int, now: int, regions):
        engine, settings = self.engine, self.settings
        host = self.host(rank)
        died = engine.dead_ns.get(rank)
        dead = died is not None and died <= now
        offset = PAGE
        descriptors, cursors, pieces = b"", b"", []
        for kind, stride, room, data, head in regions:
            descriptors += REGION.pack(kind, stride, offset, room, 0)
            cursors += struct.pack("<Q", head) + bytes(56)
            if data:
                pieces.append((offset, data))
            offset = (offset + stride * room + PAGE - 1) // PAGE * PAGE
        page = bytearray(PAGE)

        def put(at, form, *values):
            struct.pack_into("<" + form, page, at, *values)
        put(0, "8sHHIIIQ32sii", b"TITANRNG", 1, 2, 0x01020304, PAGE, len(regions), offset, b"titantrace 0.1", 4000 + rank, 1000)
        put(72, "QQiiii", 100000 + rank, 4026531836, rank, engine.job.world, rank % engine.job.per_host, 0)
        put(104, "64s40s128s128s", b"node-%d" % host, b"00000000-0000-0000-0000-%012d" % host, self.run.encode(),
            b"/usr/bin/python3")
        put(464, "IIQ", 1, 0, 1000000000)
        last = died if dead else now
        for at, ns in ((480, 0), (512, max(last - 300 * MS, 1))):
            put(at, "QQQQ", 2, self.ticks(rank, ns), self.ticks(rank, ns), self.wall(rank, ns))
        steps = [(ns, n) for ns, n in engine.steps[rank] if ns <= last]
        put(544, "QIi", self.ticks(rank, max(last - self.rng.randrange(S), 0)), 2 if dead and engine.exits.get(rank) == "exit" else 1, 0)
        put(560, "qQQQ", steps[-1][1] if steps and settings.steps else -1,
            self.ticks(rank, steps[-1][0]) if steps and settings.steps else 0, 0, settings.timeout_ms * MS)
        put(592, "IIiIQ", settings.method if settings.timing else 0, 22705, 12080, 1, 0)
        page[872:872 + len(descriptors)] = descriptors
        put(1280, "II", 1, 3)
        page[3328:3328 + len(cursors)] = cursors
        return [(0, bytes(page))] + pieces

    def write(self, directory: str, rank: int, dump_ns: int, reason: str = "timeout", asked_by: int = -1) -> str:
        died = self.engine.dead_ns.get(rank)
        dead = died is not None and died <= dump_ns
        meta = {"schema": 1, "dump": 1, "reason": "collected" if dead else reason, "detail": "", "requested_by_rank": asked_by,
                "realtime_ns": self.wall(rank, dump_ns), "ticks": self.ticks(rank, dump_ns),
                "saved_by_rank": (rank + 1) % self.engine.job.world if dead else -1, "process_alive": not dead,
                "environment": {}}
        sections = [(1, 0, json.dumps(meta).encode())]
        sections += [(2, offset, data) for offset, data in self.image(rank, dump_ns)]
        out = [checked(struct.pack("<8sHHIQ", b"TITANDMP", 1, 0, 32, 0))]
        for kind, offset, data in sections:
            stored = frame(data)
            out.append(checked(struct.pack("<IIQQQ", kind, fnv1a64(stored) & NONE32, len(stored), len(data), offset)) + stored)
        out.append(checked(struct.pack("<IIQQQ", 0, fnv1a64(b"") & NONE32, 0, 0, 0)))
        place = os.path.join(directory, self.run, "0")
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, "rank%05d.1.titan" % rank)
        with open(path, "wb") as file:
            file.write(b"".join(out))
        return path


def checked(data: bytes) -> bytes:
    return data + struct.pack("<Q", fnv1a64(data))
