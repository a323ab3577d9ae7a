"""Dumps of titantrace, written from formats/FORMAT.md alone: a ring image of what a rank did, in a dump file.

Unlike PyTorch's recorder this one sees NCCL's calls (the members of an NCCL group are calls), the CUDA calls that the
host blocks in, what is given to streams, and, where the GPU is observed, how far its streams have come.
"""

import hashlib
import itertools
import json
import os
import struct
import sys
from typing import Dict, List

from engine import MS, S, US, Engine, numel
from recorders import stacks

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "synth"))

import titan_file  # noqa: E402

KINDS = {"all_reduce": 1, "all_reduce_barrier": 1, "_all_gather_base": 4, "all_gather": 4, "_reduce_scatter_base": 5,
         "reduce_scatter": 5, "reduce": 2, "broadcast": 3, "_broadcast_oop": 3, "send": 9, "recv": 10}
REDUCES = (1, 2, 5)
ROOTED = (2, 3)
DTYPES = {"Float": 7, "BFloat16": 9, "Half": 6, "Long": 4, "Int": 2, "Byte": 1}
CALLS = {1: "ncclAllReduce", 2: "ncclReduce", 3: "ncclBroadcast", 4: "ncclAllGather", 5: "ncclReduceScatter",
         9: "ncclSend", 10: "ncclRecv"}
COUNTED_BY_OUTPUT = ("_reduce_scatter_base", "reduce_scatter", "_broadcast_oop")
COMM_INIT, COMM_ABORT = 20, 27
CREATING, LIVE, ABORTED = 1, 2, 5
AFTER_ABORT = 5 * MS  # until kernels that wait return
EVENTS, TIMING, WRITES = 1, 2, 3  # methods of observing the GPU
MARKED_BY_WRITES = 128  # flag of a call
ALL_AS = None  # what run.py --marks says: (method, steps of which one has writes), instead of what the case has drawn
ENQUEUED, PENDING, STARTED, FINISHED, ENTERED, RETURNED = 4, 5, 6, 7, 1, 9
KERNEL, EVENT_RECORD, EVENT_WAIT = 1, 5, 6
NONE32 = 0xFFFFFFFF
NONE64 = 0xFFFFFFFFFFFFFFFF
COLLECTIVE = struct.Struct("<8Qq5Q4I3iIHBBHBBiiQQI4HI")
CUDA_CALL = struct.Struct("<4QqIIiIQ")
MARKER = struct.Struct("<3QqIIIBBH16x")
COMMUNICATOR = struct.Struct("<IHBB10Q5iIIIiiiIQ6Q")
THREAD = struct.Struct("<II4QIIQI8II8Q16sQQ")
STRING = struct.Struct("<QII")
STREAM_WORK = struct.Struct("<6QIIIBBH")
MARKS = struct.Struct("<QQ")
REGION = struct.Struct("<IIQQQ")
PAGE = 4096
PIECES = {"call": 3}  # pieces of stream work of what the engine counts as one
PIECE = 1 << 20  # elements that an all_to_all moves between two ranks


class Settings:
    # What only newer classes have (they set `newer`): threads as they are, with what they ask in loops and where they
    # stand, how processes ended, and rings of 64 entries.
    newer = False
    watchdog = False  # PyTorch's thread that asks for the events of all calls every 100 ms
    stacks = False
    small = False
    legacy_stream = False  # the main thread computes on stream 0, as PyTorch does by default
    blocking = "cudaStreamSynchronize"  # what hosts wait in: .item() and torch.cuda.synchronize() are others
    pids = 4000  # of rank 0
    salt = ""  # of the ids of communicators, which two jobs do not share
    jump = None  # (host, at, by): a clock of the day that was set while the job ran

    def __init__(self, rng):
        self.timing = rng.random() < 0.7
        self.method = rng.choice([WRITES, WRITES, WRITES, TIMING, 1])  # of observing the GPU, where it is observed
        self.budget = 0
        if ALL_AS and self.method != TIMING:
            self.method, steps = ALL_AS
            self.budget = 3000 if steps > 1 else 0
        drawn = rng.random()
        # Else TITANTRACE_LAUNCHES=0: only what makes streams wait for each other is recorded.
        self.kernels = drawn < 0.8
        self.sees_cuda = drawn < 0.95  # else TITANTRACE_CUDA=off: no CUDA call is seen at all
        self.steps = rng.random() < 0.6
        self.as_rings = False
        self.ring = 512
        self.timeout_ms = 300000
        self.clocks_off_ns = rng.choice([0, 2 * MS, 3 * S])
        self.epoch_ns = (1763625600 + rng.randrange(86400)) * S
        self.format = "titan"
        self.names = rng.random() < 0.5

    def marks_of(self, step: int) -> int:
        """The method of a step's launches. Under a budget, one step of N has writes."""
        return WRITES if self.budget and step % ALL_AS[1] == 1 else self.method

    @property
    def cuda(self) -> bool:
        """Without either witness nothing would be known of any GPU."""
        return self.sees_cuda or not self.timing

    def environment(self) -> dict:
        """What differs from the defaults, as far as the recorder says it."""
        found = {} if self.timing else {"TITANTRACE_GPU_PROGRESS": "off"}
        if not self.cuda:
            found["TITANTRACE_CUDA"] = "off"
        elif not self.kernels:
            found["TITANTRACE_LAUNCHES"] = "0"
        return found

    def describe(self) -> dict:
        return {"recorder": "titan", "timing": self.timing, "ring": self.ring, "format": "titan",
                "kernels": self.kernels, "cuda": self.cuda, "clocks_off_ns": self.clocks_off_ns,
                "timeout_ms": self.timeout_ms}


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
            self.index += STRING.pack(titan_file.fnv1a64(data), len(self.heap), len(data) + 1)
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


def comm_id(group, key: str, salt: str) -> int:
    return int.from_bytes(hashlib.sha256(("%s/%s%s" % (group.name, key, salt)).encode()).digest()[:8], "little") | 1


class Image:
    """What the ring of one rank held at one moment."""

    def __init__(self, writer: "Writer", rank: int, now: int):
        self.writer, self.rank, self.now = writer, rank, now
        self.engine, self.settings = writer.engine, writer.settings
        self.device = rank % self.engine.job.per_host
        self.tids = tids_of(self.engine, rank, self.settings.pids)
        self.text = Texts()
        self.calls = Table(1, 192, self.settings.ring, True)
        self.cuda = Table(2, 64, 64 if self.settings.small else 256, True)
        self.markers = Table(3, 64, 64 if self.settings.small else 256, True)
        self.communicators = Table(4, 192, 64, False)
        self.threads = Table(5, 192, 16 if self.settings.newer else 4, False)
        self.work = Table(9, 64, 1024, True)
        self.counters = b""
        self.marks: Dict[int, bytes] = {}
        self.groups = self.launches = 0
        self.newest: Dict[str, tuple] = {}  # thread -> (name, returned) of its last call
        self.events: Dict[int, int] = {}
        self.aborted = self.engine.aborted_ns.get(rank, now + 1)
        self.comms = [comm for comm in self.engine.comms.values() if rank in comm.ranks and
                      (comm.born_ready or self.key(comm) in self.engine.created) and self.creation(comm)[0] <= now]
        self.rows = {(comm.group.name, comm.key): i for i, comm in enumerate(self.comms)}
        self.issued = [0] * len(self.comms)
        self.finished = [0] * len(self.comms)
        self.messages = [{"send": [0] * len(comm.ranks), "recv": [0] * len(comm.ranks)} for comm in self.comms]

    # Helpers.
    def key(self, comm) -> tuple:
        return self.rank, comm.group.name, comm.key

    def creation(self, comm) -> tuple:
        """Entered, left (None: still inside) as seen now."""
        entered, left = self.engine.created.get(self.key(comm), (0, 25 * MS))
        return entered, None if left is None or left > self.now else left

    def id_of(self, comm) -> int:
        return comm_id(comm.group, comm.key, self.settings.salt)

    def creator(self, comm) -> str:
        return self.engine.creators.get(self.key(comm), "main") if self.settings.newer else "main"

    def tick(self, ns: int) -> int:
        return self.writer.ticks(self.rank, ns)

    def stream_of(self, comm) -> int:
        return 0x7f00_0000_8000 + 64 * self.rows[(comm.group.name, comm.key)]

    def compute_of(self, thread: str) -> int:
        if thread == "main" and self.settings.legacy_stream:
            return 0
        return 0x7f00_0000_4000 + 64 * list(self.tids).index(thread)

    def step_at(self, ns: int) -> int:
        if not self.settings.steps:
            return -1
        return max((number for at, number in self.engine.steps[self.rank] if at <= ns), default=-1)

    def returned(self, thread: str, name: str, ns: int):
        if ns >= self.newest.get(thread, ("", -1))[1]:
            self.newest[thread] = (name, ns)

    # Regions.
    def fill(self):
        """Calls and creations of communicators, in the order of time; then the rest."""
        creations = sorted(self.comms, key=lambda comm: self.creation(comm)[0])
        records = [record for record in self.engine.records[self.rank] if record.created_ns <= self.now]
        for _, of_one in itertools.groupby(records, key=lambda record: id(record.op)):
            of_one = list(of_one)
            while creations and self.creation(creations[0])[0] <= of_one[0].created_ns:
                self.add_creation(creations.pop(0))
            self.add_calls(of_one)
        for comm in creations:
            self.add_creation(comm)
        if self.aborted <= self.now:
            for comm in self.comms:
                self.add_abort(comm)
        if self.settings.cuda:
            self.add_work()
        for ns, number in self.engine.steps[self.rank]:
            if self.settings.steps and ns <= self.now:
                self.markers.rows.append(MARKER.pack(slot(len(self.markers.rows)), self.tick(ns), number, number, 0, 0,
                                                     self.tids["main"], 1, 0, 0))
        for host in self.engine.hosts:
            if host.rank == self.rank and (host.thread == "main" or host.inside != "done" or not self.settings.newer):
                self.add_thread(host)
        if self.settings.watchdog:
            self.add_watchdog()
        for comm in self.comms:
            self.add_communicator(comm)

    def add_creation(self, comm):
        entered, left = self.creation(comm)
        self.calls.rows.append(COLLECTIVE.pack(
            slot(len(self.calls.rows)), 0, 0, 0, 0, 0, 0, 0, self.step_at(entered), self.tick(entered),
            0 if left is None else self.tick(left), 0, 0, self.id_of(comm),
            self.rows[(comm.group.name, comm.key)], self.tids[self.creator(comm)], 0, 0, -1,
            comm.ranks.index(self.rank), self.device, 0,
            COMM_INIT, 255, 255, 0, ENTERED if left is None else RETURNED, 0, -1 if left is None else 0, *[0] * 9))

    def add_abort(self, comm):
        """By PyTorch's watchdog: what waits on the GPU returns some milliseconds later."""
        back = self.aborted + AFTER_ABORT
        row = self.rows[(comm.group.name, comm.key)]
        self.calls.rows.append(COLLECTIVE.pack(
            slot(len(self.calls.rows)), self.id_of(comm), self.issued[row], 0, 0, 0, 0, 0, self.step_at(self.aborted),
            self.tick(self.aborted), self.tick(back) if back <= self.now else 0, 0, 0, 0, row, watchdog_tid(self.rank),
            0, 0, -1, comm.ranks.index(self.rank), self.device, 0, COMM_ABORT, 255, 255, 0,
            RETURNED if back <= self.now else ENTERED, 0, 0 if back <= self.now else -1, *[0] * 9))

    def until(self, end_ns):
        """When something ended, or will have, for all that can be seen here."""
        return self.aborted + AFTER_ABORT if end_ns is None and self.aborted <= self.now else end_ns

    def parts(self, op, comm) -> list:
        """(name, inputs, outputs, peer or root) of each NCCL call that one of PyTorch's makes."""
        place = {member: i for i, member in enumerate(comm.ranks)}
        if op.name == "all_to_all":
            # A send and a receive for each member, in one NCCL group.
            return [(way, [[PIECE]], [[PIECE]], member) for member in range(len(comm.ranks))
                    for way in ("send", "recv")]
        if op.kind == "call":
            return [(op.name, op.inputs, op.outputs, 0)]
        if op.kind == "coalesced":
            return [(name, inputs, outputs, i) for i, (name, inputs, outputs) in enumerate(op.parts)]
        return [(direction, [[elements]], [[elements]], place[other]) for direction, other, elements in op.messages]

    def add_calls(self, records):
        """What one call of PyTorch's is for NCCL: calls of one launch."""
        settings, record = self.settings, records[-1]
        op, comm = record.op, record.comm
        item = next(r.item for r in records if r.item is not None)
        row = self.rows[(comm.group.name, comm.key)]
        grouped = op.kind in ("coalesced", "batch") or op.name == "all_to_all"
        self.groups += grouped
        self.launches += 1
        ready_ns, end_ns = self.until(item.ready_ns), self.until(item.end_ns)
        came = ready_ns is not None and ready_ns <= self.now
        done = end_ns is not None and end_ns <= self.now
        step = self.step_at(record.created_ns)
        marked = settings.timing and settings.marks_of(self.launches // 256 if step < 0 else step) == WRITES
        numbered = marked or (settings.timing and settings.budget != 0)
        if marked:
            self.marks[self.launches - 1] = MARKS.pack(self.launches if came else 0, self.launches if done else 0)
        state = ENQUEUED if not settings.timing else FINISHED if done else STARTED if came else PENDING
        seen = self.writer.rng.randrange(0, 5 * MS) if settings.method != TIMING else 0
        started = self.tick(min(ready_ns + seen, self.now)) if came and settings.timing else 0
        finished = self.tick(min(end_ns + seen, self.now)) if done and settings.timing else 0
        for i, (name, inputs, outputs, peer) in enumerate(self.parts(op, comm)):
            kind = KINDS[name]
            message = name in ("send", "recv")
            if message:
                sequence = self.messages[row][name][peer]
                self.messages[row][name][peer] += 1
            else:
                sequence = self.issued[row]
                self.issued[row] += 1
                if finished:
                    self.finished[row] = self.issued[row]
            entered = record.created_ns + i * US // 100
            self.calls.rows.append(COLLECTIVE.pack(
                slot(len(self.calls.rows)), self.id_of(comm), sequence,
                numel(outputs) if name in COUNTED_BY_OUTPUT else numel(inputs), 0x7e0000000000, 0x7e1000000000,
                self.stream_of(comm), self.groups if grouped else 0, self.step_at(entered), self.tick(entered),
                self.tick(entered + 8 * US), started, finished, 0, row, self.tids[record.thread], 0, 0,
                peer if message or kind in ROOTED else -1, comm.ranks.index(self.rank), self.device,
                i if grouped else 0, kind,
                DTYPES[op.dtype], 0 if kind in REDUCES else 255,
                (1 if grouped else 0) | (MARKED_BY_WRITES if marked else 0), state, 0, 0, 0,
                self.launches if numbered else 0, *[0] * 7))
            self.returned(record.thread, CALLS[kind], entered + 8 * US)

    def add_work(self):
        """Kernels of the compute stream, and the events that make streams wait for each other."""
        events = self.events

        def add(ns, stream, thing, name, thread, call, kind):
            self.work.rows.append(STREAM_WORK.pack(slot(len(self.work.rows)), self.tick(ns), stream, thing, 1, 0,
                                                   self.text(name), self.tids[thread], self.text(call), kind, 0, 0))
        for ns, what, thread, item in self.engine.work[self.rank]:
            if ns > self.now:
                break
            compute = self.compute_of(thread)
            if what in ("kernel", "gpu_hang"):
                name = "sm90_xmma_gemm_bf16" if what == "kernel" else "spin_forever_kernel"
                if self.settings.kernels:
                    add(ns - 3 * US, compute, 0x5000, name, thread, "cudaLaunchKernel", KERNEL)
                continue
            event = events.setdefault(id(item), 0x6000 + 64 * len(events))
            if what == "record":
                add(ns - US, compute, event, "cudaEventRecord", thread, "cudaEventRecord", EVENT_RECORD)
                continue
            stream = self.stream_of(item.call.comm)
            if what == "call":
                add(ns - 2 * US, compute, event + 32, "cudaEventRecord", thread, "cudaEventRecord", EVENT_RECORD)
                add(ns - US, stream, event + 32, "cudaStreamWaitEvent", thread, "cudaStreamWaitEvent", EVENT_WAIT)
                add(ns + US // 2, stream, event, "cudaEventRecord", thread, "cudaEventRecord", EVENT_RECORD)
            else:
                add(ns - 4 * US, compute, event, "cudaStreamWaitEvent", thread, "cudaStreamWaitEvent", EVENT_WAIT)

    def add_thread(self, host):
        inside = since = of = 0
        stream, tid = self.compute_of(host.thread), self.tids[host.thread]
        call = self.settings.blocking
        about = {"cudaDeviceSynchronize": 0, "cudaMemcpy": 0x7e20_0000_1000}.get(call, stream)
        for _, _, begun, until in host.visits:
            if begun > self.now or not self.settings.cuda:
                break
            until = self.until(until)
            over = until is not None and until <= self.now
            self.cuda.rows.append(CUDA_CALL.pack(
                slot(len(self.cuda.rows)), self.tick(begun), self.tick(until) if over else 0, about,
                self.step_at(begun), self.text(call), tid, 0 if over else -1, 0, 0))
            if over:
                self.returned(host.thread, call, until)
            else:
                inside, since, of = self.text(call), begun, about
        for comm in self.comms:
            entered, left = self.creation(comm)
            if host.thread == self.creator(comm) and left is None:
                inside, since, of = self.text("ncclCommInitRank"), entered, self.id_of(comm)
        polls, queries, asked = self.asked(host, stream)
        if polls and not inside:
            of = asked
        last, returned = self.newest.get(host.thread, ("", -1))
        launches = sum(PIECES.get(what, 1) for ns, what, thread, _ in self.engine.work[self.rank]
                       if ns <= self.now and thread == host.thread and self.settings.cuda)
        self.threads.rows.append(THREAD.pack(
            tid, inside, self.tick(since) if inside else 0, of, 0, 0, 0, self.text(last),
            self.tick(returned) if returned >= 0 else 0, 0, *[0] * 8, polls, *[0] * 8,
            b"python3" if host.thread == "main" else stacks.thread_name(host.thread).encode(), launches, queries))

    def asked(self, host, stream: int) -> tuple:
        """Queries since the newest other call, all queries, and what the newest was about."""
        polls = queries = of = 0
        if not self.settings.cuda:
            return 0, 0, 0
        for what, item, begun, until in host.polls:
            if begun > self.now:
                break
            end = self.now if until is None or until > self.now else until
            times = max(1, (end - begun) // self.writer.pause)
            queries += times
            name = "cudaStreamQuery" if what == "stream" else "cudaEventQuery"
            newest = self.newest.get(host.thread, ("", -1))[1]
            self.returned(host.thread, name, max(end - self.writer.pause // 2, begun))
            polls = times if self.newest[host.thread][1] != newest else 0
            of = stream if what == "stream" else self.events.get(id(item), 0x5f00)
        return min(polls, NONE32), queries, of

    def add_watchdog(self):
        """It asks for the oldest call that has not ended, if there is one, every 100 ms."""
        waits = [record.item for record in self.engine.records[self.rank] if record.item is not None
                 and record.created_ns <= self.now and not (record.item.end_ns and record.item.end_ns <= self.now)]
        if not waits or not self.settings.cuda:
            return
        since = min(record.created_ns for record in self.engine.records[self.rank] if record.item is waits[0])
        times = max(1, (self.now - since) // (100 * MS)) * len(waits)
        self.threads.rows.append(THREAD.pack(
            watchdog_tid(self.rank), 0, 0, self.events.get(id(waits[0]), 0x5f00), 0, 0, 0,
            self.text("cudaEventQuery"), self.tick(max(self.now - self.writer.rng.randrange(100 * MS), 1)), 0, *[0] * 8,
            times, *[0] * 8, b"pt_nccl_watchdg", 0, times + 1000))

    def add_communicator(self, comm):
        entered, left = self.creation(comm)
        gone = self.aborted <= self.now
        i, size = self.rows[(comm.group.name, comm.key)], len(comm.ranks)
        name = self.text(comm.group.desc) if self.settings.names and not comm.key else 0
        counts = self.messages[i]["send"] + self.messages[i]["recv"]
        has_messages = any(counts)  # the tracer makes the counters with the first message
        self.communicators.rows.append(COMMUNICATOR.pack(
            1, COMM_INIT, ABORTED if gone else CREATING if left is None else LIVE, 0, self.id_of(comm), 0, 0,
            0x7d0000000000 + 4096 * i,
            self.issued[i], self.finished[i], self.tick(entered), 0 if left is None else self.tick(left),
            self.tick(self.aborted) if gone else 0, len(self.counters) if has_messages else NONE64,
            size, comm.ranks.index(self.rank), self.device, 0, 0, 0, 0, name, -1 if left is None else 0, 0, -1,
            self.tids[self.creator(comm)], 0, *[0] * 6))
        if has_messages:
            self.counters += struct.pack("<%dQ" % (2 * size), *counts)

    def regions(self) -> list:
        """(kind, stride, room, bytes, head)"""
        room = 1 << self.launches.bit_length()
        marks = b"".join(self.marks.get(i, bytes(16)) for i in range(room))
        found = [(table.kind, table.stride, table.room, table.bytes(), len(table.rows)) for table in (
            self.calls, self.cuda, self.markers, self.communicators, self.threads)]
        return found + [(6, 16, 1024, self.text.index, len(self.text.ids) - 1),
                        (7, 1, 65536, self.text.heap, len(self.text.heap)),
                        (8, 1, max(len(self.counters), 8), self.counters, len(self.counters)),
                        (9, 64, 1024, self.work.bytes(), len(self.work.rows)), (10, 16, room, marks, room)]


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
        self.pause = rng.choice([2, 50, 1000]) * US if settings.newer else 1  # between two queries of a loop

    def host(self, rank: int) -> int:
        return rank // self.engine.job.per_host

    def ticks(self, rank: int, ns: int) -> int:
        return self.up[self.host(rank)] + ns

    def wall(self, rank: int, ns: int) -> int:
        jump = self.settings.jump
        by = jump[2] if jump and jump[0] == self.host(rank) and ns >= jump[1] else 0
        return self.settings.epoch_ns + self.offsets[self.host(rank)] + ns + by

    def image(self, rank: int, now: int) -> list:
        """Pieces of the ring image as (offset, bytes), the header first."""
        if self.settings.newer:
            now = min(now, self.engine.dead_ns.get(rank, now))
        image = Image(self, rank, now)
        image.fill()
        self.lost += max(0, len(image.calls.rows) - self.settings.ring)
        return self.header(rank, now, image.regions())

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
        put(0, "8sHHIIIQ32sii", b"TITANRNG", 1, 0, 0x01020304, PAGE, len(regions), offset, b"titantrace 0.1",
            settings.pids + rank, 1000)
        put(72, "QQiiii", 96000 + settings.pids + rank, 4026531836, rank, engine.job.world,
            rank % engine.job.per_host, 0)
        put(104, "64s40s128s128s", b"node-%d" % host, b"00000000-0000-0000-0000-%012d" % host, self.run.encode(),
            b"/usr/bin/python3")
        put(464, "IIQ", 1, 0, 1000000000)
        last = min(died if dead else now, engine.stopped_ns.get(rank, now))
        for at, ns in ((480, 0), (512, max(last - 300 * MS, 1))):
            put(at, "QQQQ", 2, self.ticks(rank, ns), self.ticks(rank, ns), self.wall(rank, ns))
        steps = [(ns, n) for ns, n in engine.steps[rank] if ns <= last]
        put(544, "QIi", self.ticks(rank, max(last - self.rng.randrange(S), 0)),
            2 if dead and engine.exits.get(rank) == "exit" else 1, 0)
        put(560, "qQQQ", steps[-1][1] if steps and settings.steps else -1,
            self.ticks(rank, steps[-1][0]) if steps and settings.steps else 0, 0, settings.timeout_ms * MS)
        if settings.newer:
            self.ending(put, rank, last, dead)
        if engine.crashed_ns.get(rank, last + 1) <= last:
            put(552, "Ii", 3, 6)
        put(592, "IIiIQ", settings.method if settings.timing else 0, 22705, 12080, 1, 0)
        if settings.timing and settings.budget:
            put(3240, "IIIIQ", settings.budget, ALL_AS[1], 1, 20, 5 * MS)
        page[872:872 + len(descriptors)] = descriptors
        put(1280, "II", 1, 3)
        page[3328:3328 + len(cursors)] = cursors
        return [(0, bytes(page))] + pieces

    def ending(self, put, rank: int, now: int, dead: bool):
        """Who asked the process to end, and with what it left."""
        asked = self.engine.asked_ns.get(rank)
        if asked is not None and asked <= now:
            put(2952, "Qii", self.ticks(rank, asked), 15, 3000)
        if dead and self.engine.exits.get(rank) == "exit":
            put(2968, "Qi", self.ticks(rank, now), 1 + 1)

    def write(self, directory: str, rank: int, dump_ns: int, reason: str = "timeout", asked_by: int = -1,
              number: int = 1) -> str:
        if self.settings.as_rings:
            return self.write_ring(directory, rank, dump_ns)
        died = self.engine.dead_ns.get(rank)
        dead = died is not None and died <= dump_ns
        meta = {"schema": 1, "dump": number, "reason": "collected" if dead else reason, "detail": "",
                "requested_by_rank": asked_by,
                "realtime_ns": self.wall(rank, dump_ns), "ticks": self.ticks(rank, dump_ns),
                "saved_by_rank": (rank + 1) % self.engine.job.world if dead else -1, "process_alive": not dead,
                "environment": self.settings.environment()}
        sections = [(1, 0, json.dumps(meta).encode())]
        sections += [(2, offset, data) for offset, data in self.image(rank, dump_ns)]
        if self.settings.stacks and not dead and dump_ns >= self.engine.now:
            hosts = [host for host in self.engine.hosts if host.rank == rank]
            tid_of = tids_of(self.engine, rank, self.settings.pids).get
            watchdog = watchdog_tid(rank) if self.settings.watchdog else 0
            sections.append((3, 0, stacks.image(hosts, tid_of, watchdog, self.wall(rank, dump_ns))))
        path = os.path.join(directory, self.run, "0", "rank%05d.%d.titan" % (rank, number))
        titan_file.write_dump(path, sections)
        return path

    def write_ring(self, directory: str, rank: int, now: int) -> str:
        """The ring file itself, as it lies in /dev/shm."""
        pid = self.settings.pids + rank
        path = os.path.join(directory, "titantrace-1000", "%d-%d.ring" % (pid, 96000 + pid))
        titan_file.write_ring(path, self.image(rank, now))
        return path


def tids_of(engine, rank: int, pids: int) -> Dict[str, int]:
    """Threads of a rank, the main one first."""
    found = {"main": pids + rank, "background": pids + 500 + rank}
    for host in engine.hosts:
        if host.rank == rank and host.thread not in found:
            found[host.thread] = pids + 500 * len(found) + rank
    return found


def watchdog_tid(rank: int) -> int:
    return 9000 + rank
