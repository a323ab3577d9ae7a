"""Dumps of titantrace of a job whose times are known, as formats/FORMAT.md says. Clocks of hosts differ and drift; what
the device did is seen late, or of some launches only, or not at all. The structures are those of tests/scenarios."""
import functools
import hashlib
import json
import math
import os
import random
import struct
import sys
import zlib
from typing import Dict, List, NamedTuple

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenarios"))

from recorders import titan  # noqa: E402
from recorders.titan import Table, Texts, slot, titan_file  # noqa: E402

from layout import host_name  # noqa: E402
from training import step_means  # noqa: E402
from work import Call, CudaCall, Handed, Mark  # noqa: E402

MARKER = struct.Struct("<QQQqIIIBBBBIIQ")
HEALTH = struct.Struct("<QQQqddII")
OPEN_SPAN = struct.Struct("<IIQQIIII")
KINDS = {"all_reduce": 1, "broadcast": 3, "all_gather": 4, "reduce_scatter": 5, "send": 9, "recv": 10}
FUNCTIONS = {"all_reduce": "ncclAllReduce", "broadcast": "ncclBroadcast", "all_gather": "ncclAllGather",
             "reduce_scatter": "ncclReduceScatter", "send": "ncclSend", "recv": "ncclRecv"}
MARKS = {"step": 1, "begin": 2, "end": 3}
METHODS = {"off": 0, "events": 1, "timing": 2, "writes": 3}
COMM_INIT, LIVE = 20, 2
ENTERED, ENQUEUED, PENDING, STARTED, FINISHED, RETURNED = 1, 4, 5, 6, 7, 9
BFLOAT16, FLOAT32 = 9, 7
S, MS, US = 10**9, 10**6, 10**3
PAGE, MARKS_ROOM = 4096, 4096
START_TICKS = 96000  # when processes were started
BOOT = 5000 * S  # ticks of the first host at the start of the job


class Witness(NamedTuple):
    """What a recorder was set to see."""
    device: str  # method of observing the device
    sample: int  # of so many steps one, or of so many launches
    health: bool
    names: bool  # of communicators
    offset_ns: int  # between the clocks of hosts, at most
    drift: float
    rings: bool  # as they lie in /dev/shm, instead of dumps
    full_of: int = 1  # under a budget: one step of so many has writes, all other launches events

    def describe(self) -> dict:
        return {"device": self.device, "sample": self.sample, "health": self.health, "names": self.names,
                "rings": self.rings, "offset_ms": self.offset_ns / 1e6, "drift_ppm": self.drift * 1e6}


ALL_AS = None  # what generate.py --marks says of all jobs: fields of the witness


def draw_witness(rng: random.Random, health: bool) -> Witness:
    device = rng.choice(["writes", "writes", "timing", "timing", "events", "off"])
    sample = rng.choice([1, 1, 1, 3]) if device != "off" else 1
    drawn = Witness(device, sample, health or rng.random() < 0.7, rng.random() < 0.7,
                    rng.choice([0, 2 * MS, 40 * MS, 3 * S]), rng.choice([0, 5e-6, 2e-5]), rng.random() < 0.15)
    return drawn._replace(**ALL_AS) if ALL_AS else drawn


class Recorder:
    def __init__(self, training, times: List[float], witness: Witness, cause, rng: random.Random, run: str):
        self.training, self.times, self.witness, self.cause, self.rng = training, times, witness, cause, rng
        self.layout, self.run = training.layout, run
        hosts = self.layout.hosts
        self.up = [BOOT + rng.randrange(900000) * S for _ in range(hosts)]
        self.offset = [rng.randint(-witness.offset_ns, witness.offset_ns) for _ in range(hosts)]
        self.drift = [rng.uniform(-witness.drift, witness.drift) for _ in range(hosts)]
        self.begin = 30 * S  # of the first step, on the job's clock
        # The dumps: amid the last step.
        last = [rank.step_nodes[-1] for rank in training.work.ranks]
        self.now = max(self.when(node) for node in last) + rng.uniform(0.1, 0.8) * MS * step_means(training, times)
        self.groups = [[group for axis in self.layout.axes for group in self.layout.groups[axis]
                        if rank in group.ranks] for rank in range(self.layout.world)]

    def when(self, node: int) -> float:
        """In ns of the job's clock."""
        return self.begin + self.times[node]

    # Clocks.
    def tick(self, rank: int, ns: float) -> int:
        host = rank // self.layout.per_host
        return self.up[host] + round(ns * (1 + self.drift[host]))

    def wall(self, rank: int, ns: float) -> int:
        host = rank // self.layout.per_host
        return 1793900000 * S + self.offset[host] + round(ns * (1 + self.drift[host]))

    def at(self, rank: int, node: int) -> int:
        """Ticks, 0 if that is yet to come."""
        ns = self.when(node)
        return self.tick(rank, ns) if ns <= self.now else 0

    def seen(self, rank: int, node: int) -> int:
        """Ticks when it is seen that the device has come there, 0 not yet. Timed events tell to some 0.1 ms; otherwise
        somebody looks every 2 ms, and sees all that happened since the last time at once."""
        ns = self.when(node)
        if self.witness.device == "timing":
            ns += self.rng.uniform(0, 0.1 * MS)
        else:
            ns = 2 * MS * math.ceil(ns / (2 * MS) - rank / 7 % 1) + 2 * MS * (rank / 7 % 1)
        return self.tick(rank, ns) if ns <= self.now else 0

    def write(self, directory: str):
        for rank in range(self.layout.world):
            Image(self, rank).write(directory)


class Image:
    """The ring of one rank, and its dump."""

    def __init__(self, recorder: Recorder, rank: int):
        self.recorder, self.rank, self.witness = recorder, rank, recorder.witness
        self.actor = recorder.training.work.ranks[rank]
        self.tid = 4000 + rank
        self.host, self.device = divmod(rank, recorder.layout.per_host)
        self.text = Texts()
        self.calls = Table(1, 192, 16384, True)
        self.cuda = Table(2, 64, 4096, True)
        self.markers = Table(3, 64, 8192, True)
        self.communicators = Table(4, 192, 64, False)
        self.threads = Table(5, 192, 8, False)
        self.work = Table(9, 64, 8192, True)
        self.health = Table(16, 56, 1024, True)
        self.groups = recorder.groups[rank]
        self.rows = {group: row for row, group in enumerate(self.groups)}
        self.issued = [0] * len(self.groups)
        self.finished = [0] * len(self.groups)
        self.sent = [{"send": [0] * len(group.ranks), "recv": [0] * len(group.ranks)} for group in self.groups]
        self.counters = b""
        self.marks: Dict[int, bytes] = {}
        self.last_call = ("", 0)
        self.inside = ("", 0, 0)  # of which call the host is: name, ticks, object
        self.open: List[Mark] = []  # spans
        self.open_spans = Table(13, 40, 16, False)
        self.marked_steps = recorder.training.style.marks != "none" and self.actor.trains

    def stream(self, name: str) -> int:
        return 0 if name == "compute" else 0x7F0000008000 + 64 * (hash_of(name) % 251)

    def step_of(self, step: int) -> int:
        return step if self.marked_steps else -1

    def fill(self):
        for group in self.groups:
            self.add_creation(group)
        for record in self.actor.records:
            if not self.recorder.at(self.rank, record.entered):
                break
            if isinstance(record, Call):
                self.add_call(record)
            elif isinstance(record, CudaCall):
                self.add_cuda_call(record)
            elif isinstance(record, Handed):
                self.add_work(record)
        for mark in self.actor.marks:
            if not self.recorder.at(self.rank, mark.node):
                break
            self.add_mark(mark)
        if self.witness.health:
            self.add_health()
        for group in self.groups:
            self.add_communicator(group)
        self.add_thread()

    def add_thread(self):
        name, entered, about = self.inside
        spans = self.open[:8] + [None] * (8 - len(self.open))
        self.threads.rows.append(titan.THREAD.pack(
            self.tid, self.text(name), entered, about, 0, 0, 0, self.text(self.last_call[0]), self.last_call[1],
            len(self.open), *[self.text(mark.name) if mark else 0 for mark in spans], 0,
            *[self.recorder.at(self.rank, mark.node) if mark else 0 for mark in spans], b"python3",
            len(self.work.rows), 0))
        rows = [bytes(OPEN_SPAN.size)] * self.open_spans.room
        for mark in self.open:
            rows[mark.span % len(rows)] = OPEN_SPAN.pack(
                mark.span, 1, self.recorder.at(self.rank, mark.node), 0, self.text(mark.name), int(mark.value),
                self.tid, 0)
        self.open_spans.rows = rows

    def creation(self, group) -> tuple:
        at = (2 + self.rows[group]) * S
        return self.recorder.tick(self.rank, at), self.recorder.tick(self.rank, at + 400 * MS)

    def add_creation(self, group):
        entered, left = self.creation(group)
        self.calls.rows.append(titan.COLLECTIVE.pack(
            slot(len(self.calls.rows)), 0, 0, 0, 0, 0, 0, 0, -1, entered, left, 0, 0, id_of(group),
            self.rows[group], self.tid, 0, 0, -1, group.ranks.index(self.rank), self.device, 0, COMM_INIT, 255, 255,
            0, RETURNED, 0, 0, *[0] * 9))

    def add_call(self, call: Call):
        recorder, rank, row = self.recorder, self.rank, self.rows[call.group]
        place = {member: i for i, member in enumerate(call.group.ranks)}
        message = call.kind in ("send", "recv")
        if message:
            self.sent[row][call.kind][place[call.peer]] += 1
        else:
            self.issued[row] += 1
        entered, returned = recorder.at(rank, call.entered), recorder.at(rank, call.returned)
        watched = self.witness.device != "off" and is_watched(call.launch, self.step_of(call.step), self.witness.sample)
        started = finished = launch = 0
        flags = 1 if call.batch else 0
        state = ENQUEUED if returned else ENTERED
        if watched:
            started, finished = recorder.seen(rank, call.started), recorder.seen(rank, call.finished)
            finished = max(started, finished) if started and finished else 0
            state = FINISHED if finished else STARTED if started else PENDING if returned else ENTERED
            in_full = self.witness.full_of > 1 and is_watched(call.launch, self.step_of(call.step),
                                                              self.witness.full_of)
            if self.witness.device == "writes" or self.witness.full_of > 1:
                launch = call.launch + 1
            if self.witness.device == "writes" or in_full:
                flags |= titan.MARKED_BY_WRITES
                self.marks[call.launch % MARKS_ROOM] = titan.MARKS.pack(
                    launch if recorder.at(rank, call.started) else 0,
                    launch if recorder.at(rank, call.finished) else 0)
        if finished and not message:
            self.finished[row] = self.issued[row]
        self.calls.rows.append(titan.COLLECTIVE.pack(
            slot(len(self.calls.rows)), id_of(call.group), call.sequence, call.count, 0x7E0000000000, 0x7E1000000000,
            self.stream(call.stream), call.batch, self.step_of(call.step), entered, returned,
            started, finished, 0, row, self.tid, self.text(call.span), 0, place[call.peer] if message else call.peer,
            place[rank], self.device, call.batch_index, KINDS[call.kind], FLOAT32 if call.count == 1 else BFLOAT16,
            0 if call.kind in ("all_reduce", "reduce_scatter") else 255, flags,
            state, 0, 0 if returned else -1, 0, launch, *[0] * 7))
        self.called(FUNCTIONS[call.kind], entered, returned, id_of(call.group))

    def called(self, name: str, entered: int, returned: int, about: int):
        if returned:
            self.last_call = (name, returned)
        else:
            self.inside = (name, entered, about)

    def add_cuda_call(self, call: CudaCall):
        recorder = self.recorder
        entered, returned = recorder.at(self.rank, call.entered), recorder.at(self.rank, call.returned)
        about = self.stream(call.stream) if call.stream else 0
        self.cuda.rows.append(titan.CUDA_CALL.pack(
            slot(len(self.cuda.rows)), entered, returned, about, self.step_of(call.step), self.text(call.name),
            self.tid, 0 if returned else -1, self.text(call.span), 0))
        self.called(call.name, entered, returned, about)

    def add_work(self, handed: Handed):
        kind, function = {"kernel": (1, "cudaLaunchKernel"), "copy": (2, "cudaMemcpyAsync"),
                          "record": (5, "cudaEventRecord"), "wait": (6, "cudaStreamWaitEvent")}[handed.kind]
        about = 0x9000 + handed.event if handed.event else 0x5000 + zlib.crc32(handed.name.encode())
        self.work.rows.append(titan.STREAM_WORK.pack(
            slot(len(self.work.rows)), self.recorder.at(self.rank, handed.entered), self.stream(handed.stream),
            about, handed.amount, 0, self.text(handed.name or function), self.tid, self.text(function), kind, 0, 0))

    def add_mark(self, mark):
        value = int(mark.value)
        if mark.kind == "begin":
            self.open.append(mark)
        if mark.kind == "end":
            self.open.pop()
            value = self.recorder.at(self.rank, value)
        self.markers.rows.append(MARKER.pack(
            slot(len(self.markers.rows)), self.recorder.at(self.rank, mark.node), value, mark.step,
            self.text(mark.name), 0, self.tid, MARKS[mark.kind], mark.depth, 0, 0, mark.span, 0, 0))

    def add_health(self):
        """Read each second. A reading is written when it differs from the one before it."""
        recorder, rng, gpu = self.recorder, self.recorder.rng, "gpu.%d." % self.device
        usual = {gpu + name: value for name, value in {
            "power_w": rng.randrange(600, 680), "power_limit_w": 700, "temperature_c": rng.randrange(52, 68),
            "utilization_percent": 98, "memory_used_mib": rng.randrange(48000, 50000),
            "sm_clock_mhz": rng.randrange(1725, 1785, 15), "max_sm_clock_mhz": 1980, "clock_limits": 0,
            "performance_state": 0, "ecc_uncorrected": 0, "pcie_width": 16, "max_pcie_width": 16,
            "pcie_generation": 5, "pcie_replays": 0, "nvlinks_up": 18}.items()}
        usual.update({"cpu.clock_mhz": rng.randrange(3300, 3500), "cpu.max_clock_mhz": 3700})
        if self.device == 0:
            usual.update({"host.memory_available_mib": 1500000, "host.cpu_pressure_percent": 0,
                          "host.memory_pressure_percent": 0, "host.io_pressure_percent": 0})
        changes = {name if "." in name else gpu + name: value
                   for name, value in recorder.cause.readings(self.rank).items()}
        since = recorder.cause.since
        before, entries = 25 * S, []
        for name, value in usual.items():
            other = changes.get(name, value)
            first = other if since is None else value
            entries.append((before, name, first, first, -1))
            if other != first:
                begun = recorder.begin + recorder.times[self.actor.step_nodes[since]]
                read = (int(begun) // S + 1) * S + rng.randrange(MS)
                step = max(number for number, node in enumerate(self.actor.step_nodes, recorder.training.style.first)
                           if recorder.begin + recorder.times[node] <= read)
                entries.append((min(read, int(recorder.now)), name, other, first, self.step_of(step)))
        for at, name, value, first, step in sorted(entries, key=lambda entry: entry[0]):
            ticks = recorder.tick(self.rank, at)
            self.health.rows.append(HEALTH.pack(slot(len(self.health.rows)), ticks, ticks, step, value, first,
                                                self.text(name), 0))

    def add_communicator(self, group):
        row, size = self.rows[group], len(group.ranks)
        entered, left = self.creation(group)
        self.communicators.rows.append(titan.COMMUNICATOR.pack(
            1, COMM_INIT, LIVE, 0, id_of(group), 0, 0, 0x7D0000000000 + 4096 * row, self.issued[row],
            self.finished[row], entered, left, 0, len(self.counters), size,
            group.ranks.index(self.rank), self.device, 0, 0, 0, 0,
            self.text(group.axis) if self.witness.names else 0, 0, 0, -1, self.tid, 0, *[0] * 6))
        self.counters += struct.pack("<%dQ" % (2 * size), *self.sent[row]["send"], *self.sent[row]["recv"])

    def regions(self) -> list:
        """(kind, stride, room, bytes, head); the first eleven have cursors in the header's order."""
        marks = b"".join(self.marks.get(row, bytes(16)) for row in range(MARKS_ROOM)) if self.marks else b""
        found = [(table.kind, table.stride, table.room, table.bytes(), len(table.rows)) for table in (
            self.calls, self.cuda, self.markers, self.communicators, self.threads)]
        return found + [(6, 16, 1024, self.text.index, len(self.text.ids) - 1),
                        (7, 1, 65536, self.text.heap, len(self.text.heap)),
                        (8, 1, max(len(self.counters), 8), self.counters, len(self.counters)),
                        (9, 64, self.work.room, self.work.bytes(), len(self.work.rows)),
                        (10, 16, MARKS_ROOM, marks, MARKS_ROOM)]

    def image(self) -> list:
        """Pieces as (offset, bytes), the header first."""
        self.fill()
        regions = self.regions()
        more = [(13, 40, self.open_spans.room, self.open_spans.bytes(), 0), (14, 16, 16, b"", 0), (15, 24, 16, b"", 0),
                (16, 56, self.health.room, self.health.bytes(), len(self.health.rows))]
        offset, pieces, described = PAGE, [], []
        for kind, stride, room, data, _ in regions + more:
            described.append(titan.REGION.pack(kind, stride, offset, room, 0))
            if data:
                pieces.append((offset, data))
            offset = (offset + stride * room + PAGE - 1) // PAGE * PAGE
        cursors = b"".join(struct.pack("<Q", head) + bytes(56) for _, _, _, _, head in regions)
        page = self.header(offset, len(regions))
        page[872:872 + 32 * len(regions)] = b"".join(described[:len(regions)])
        page[2984:2984 + 32 * len(more)] = b"".join(described[len(regions):])
        struct.pack_into("<Q", page, 3264, len(self.health.rows))
        page[3328:3328 + len(cursors)] = cursors
        return [(0, bytes(page))] + pieces

    def header(self, file_bytes: int, regions: int) -> bytearray:
        recorder, rank, now = self.recorder, self.rank, self.recorder.now
        page = bytearray(PAGE)

        def put(at, form, *values):
            struct.pack_into("<" + form, page, at, *values)
        put(0, "8sHHIIIQ32sii", b"TITANRNG", 1, 0, 0x01020304, PAGE, regions, file_bytes, b"titantrace 0.1", self.tid,
            1000)
        put(72, "QQiiii", START_TICKS + self.tid, 4026531836, rank, self.recorder.layout.world, self.device, 0)
        put(104, "64s40s128s128s", host_name(self.host).encode(),
            b"00000000-0000-0000-0000-%012d" % self.host, recorder.run.encode(), b"/usr/bin/python3")
        put(464, "IIQ", 1, 0, S)
        for at, ns in ((480, 0), (512, now - 200 * MS)):
            put(at, "QQQQ", 2, recorder.tick(rank, ns), recorder.tick(rank, ns), recorder.wall(rank, ns))
        steps = self.actor.step_nodes if self.marked_steps else []
        put(544, "QIiqQQQ", recorder.tick(rank, now - 300 * MS), 1, 0, self.actor.step if steps else -1,
            recorder.at(rank, steps[-1]) if steps else 0, 0, 300 * S)
        put(592, "IIiIQ", METHODS[self.witness.device], 22705, 12080, self.witness.sample, self.actor.batches)
        if self.witness.full_of > 1:
            put(3240, "IIIIQ", 3000, self.witness.full_of, 1, 20, 5 * MS)
        put(1280, "II", 1, 3)
        return page

    def meta(self) -> dict:
        recorder, now = self.recorder, self.recorder.now
        method = self.witness.device + ("/%d" % self.witness.sample if self.witness.sample > 1 else "")
        told = recorder.cause.processors(self.rank)
        ran = int(0.7 * now)
        processors = {"online": 192, "allowed": 24, "load_1min": 31.5, "load_5min": 30.2, "load_15min": 29.8,
                      "threads": 3, "run_ns": ran, "run_delay_ns": int(told.pop("delay_share", 0.0004) * ran), **told}
        return {"schema": 1, "dump": 1, "reason": "signal", "detail": "", "requested_by_rank": -1,
                "realtime_ns": recorder.wall(self.rank, now), "ticks": recorder.tick(self.rank, now),
                "saved_by_rank": -1, "process_alive": True, "processors": processors,
                "environment": {"TITANTRACE_GPU_PROGRESS": method,
                                "TITANTRACE_HEALTH_S": "1" if self.witness.health else "0"}}

    def write(self, directory: str):
        if self.witness.rings:
            name = "%d-%d.ring" % (self.tid, START_TICKS + self.tid)
            titan_file.write_ring(os.path.join(directory, "titantrace-1000", name), self.image())
        else:
            sections = [(1, 0, json.dumps(self.meta()).encode())] + [(2, *piece) for piece in self.image()]
            titan_file.write_dump(os.path.join(directory, self.recorder.run, "0", "rank%05d.0.titan" % self.rank),
                                  sections)


def write_truth(place: str, truth: dict):
    """Beside the dumps of a job."""
    with open(os.path.join(place, "truth.json"), "w") as file:
        json.dump(truth, file, indent=1)
        file.write("\n")


def is_watched(launch: int, step: int, sample: int) -> bool:
    """All launches of one step of each `sample`, and of the others one of each sample * sample; where no steps are
    marked, one launch of each `sample`. The same ones on all ranks, and no place of them more often than the others."""
    if step < 0:
        return is_one_of("launch", launch, sample)
    return is_one_of("step", step, sample) or is_one_of("launch", launch, sample * sample)


@functools.lru_cache(maxsize=None)
def is_one_of(what: str, number: int, of: int) -> bool:
    return number % of == hash_of("%s %d" % (what, number // of)) % of


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


IDS: Dict[tuple, int] = {}


def id_of(group) -> int:
    if group not in IDS:
        IDS[group] = hash_of("%s%r" % group) | 1
    return IDS[group]
