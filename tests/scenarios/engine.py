"""A discrete-event simulator of hosts, GPU streams and communicators.

Each rank's host runs its list of operations; what it gives to the GPU becomes items of streams, which run in order and
wait for what they depend on. A collective ends when the streams of all members have come to it; a message when both
sides have. Whatever is left when nothing moves any more hangs: for that no rule is needed.

Facts modelled, and where they are from:
- a call waits for the compute stream and runs on its communicator's own stream, async_op=False makes the compute stream
  wait for it, not the host (ProcessGroupNCCL.cpp: syncStream, WorkNCCL::synchronizeStream);
- the first call on a group makes its communicator: the host blocks until all members have come, and no entry exists yet
  (initNCCLComm is called before initWork); a message outside a batch uses a communicator of the two ranks
  (getKeySendRecv);
- the n-th collective of a communicator meets the n-th of the others, whatever it is (NCCL has no tags); messages of a
  pair match in order (NCCL user guide: point-to-point communication).
"""

import heapq
from collections import deque
from typing import Dict, List, Optional

from program import BYTES, Job, Op

US = 1000
MS = 1000 * US
S = 1000 * MS


class Item:
    """Something a stream does: a kernel, a call, or a wait."""

    __slots__ = ("rank", "need", "after", "duration", "call", "ready_ns", "end_ns", "open")

    def __init__(self, rank: int):
        self.rank = rank
        self.need = 0
        self.after: list = []
        self.duration = 0
        self.call: Optional["Call"] = None
        self.ready_ns: Optional[int] = None  # the stream came to it
        self.end_ns: Optional[int] = None
        self.open = 0  # messages that have not met yet


class Call:
    """What a member does in a communicator: compared with what the others do."""

    __slots__ = ("comm", "op", "number", "signature")

    def __init__(self, comm, op, number, signature):
        self.comm = comm
        self.op = op
        self.number = number
        self.signature = signature


class Record:
    """A row of a recorder: one logical operation that a rank issued."""

    __slots__ = ("rank", "thread", "group", "comm", "kind", "op", "dtype", "created_ns", "name", "inputs", "outputs",
                 "is_p2p", "item", "peer", "collective_seq", "p2p_seq", "op_id")

    def __init__(self, host, comm, op, created_ns, name, inputs, outputs, is_p2p, item, peer, counters):
        self.rank, self.thread = host.rank, host.thread
        self.group, self.comm, self.kind, self.op, self.dtype = op.group, comm, op.kind, op, op.dtype
        self.created_ns = created_ns
        self.name, self.inputs, self.outputs, self.is_p2p = name, inputs, outputs, is_p2p
        self.item = item  # None: a member of an NCCL group, which nobody watches
        self.peer = peer
        self.collective_seq, self.p2p_seq, self.op_id = counters.collective, counters.p2p, counters.op


class Communicator:
    def __init__(self, group, key: str, ranks: List[int], ready: bool):
        self.group = group
        self.key = key
        self.ranks = ranks
        self.ready = self.born_ready = ready
        self.entering: Dict[int, "Host"] = {}
        self.counts: Dict[int, int] = {}
        self.meetings: Dict[int, list] = {}
        self.letters: Dict[tuple, deque] = {}  # (sender, receiver) -> what came first and waits


class Host:
    """One thread of one rank."""

    def __init__(self, rank: int, ops: List[Op], thread: str):
        self.rank = rank
        self.ops = ops
        self.thread = thread
        self.at = 0
        self.compute: Optional[Item] = None
        self.tags: Dict[int, Item] = {}
        self.inside = ""  # what it is blocked in
        self.inside_of = None  # communicator, group or item of that
        self.since_ns = 0
        self.visits: List[list] = []  # [what it was blocked in, of what, from, until]
        self.polls: List[list] = []  # [what it asks about, the item, from, until]
        self.step = 0
        self.done = False


class Counters:
    __slots__ = ("collective", "p2p", "op")

    def __init__(self):
        self.collective = self.p2p = self.op = 0


class Engine:
    def __init__(self, job: Job, rng):
        self.job = job
        self.rng = rng
        self.now = 0
        self.heap: list = []
        self.pushed = 0
        self.streams: Dict[tuple, Item] = {}
        self.comms: Dict[tuple, Communicator] = {}
        self.counters: Dict[tuple, Counters] = {}
        self.records: List[List[Record]] = [[] for _ in range(job.world)]
        self.barriers: Dict[tuple, list] = {}
        self.steps: List[List[tuple]] = [[] for _ in range(job.world)]
        self.dead_ns: Dict[int, int] = {}
        self.exits: Dict[int, str] = {}
        self.aborted_ns: Dict[int, int] = {}  # when PyTorch's watchdog aborted its communicators
        self.crashed_ns: Dict[int, int] = {}  # when PyTorch ended it by SIGABRT
        self.stopped_ns: Dict[int, int] = {}  # from when on it did not run any more
        self.asked_ns: Dict[int, int] = {}  # when it was asked to end (SIGTERM)
        self.hosts = [Host(p.rank, p.ops, "main") for p in job.programs]
        self.hosts += [Host(rank, p.ops, p.thread) for rank, p in job.threads]
        # Set by faults.
        self.host_factor: Dict[int, float] = {}
        self.gpu_factor: Dict[int, float] = {}
        self.survives_mismatch = False
        self.frozen = None  # (group name, from its n-th collective): the network is stuck
        self.frozen_member: Optional[int] = None  # only this member does not finish
        self.cut = None  # (rank, rank, from this step on): no message gets through between the two
        self.eager_bytes = 0
        self.jitter = 0.05
        self.work: List[List[tuple]] = [[] for _ in range(job.world)]  # (time, what, stream, other stream or item)
        self.created: Dict[
            tuple, List[int]] = {}  # (rank, group, key) -> [entered, left] of the communicator's creation
        self.creators: Dict[tuple, str] = {}  # (rank, group, key) -> the thread that creates the communicator
        self.handed: Dict[tuple, int] = {}  # (rank, name) -> how often a thread has said so to the others of its rank
        self.awaited: Dict[tuple, list] = {}  # (rank, name) -> [(number, host)] that wait for that
        self.creation_frozen: Optional[str] = None  # name of a group whose communicator is never made
        for host in self.hosts:
            self.push(self.rng.randrange(0, 5 * MS), self.run_host, host)

    # Time.
    def push(self, at: int, what, *args):
        self.pushed += 1
        heapq.heappush(self.heap, (at, self.pushed, what, args))

    def run(self, until_ns: int):
        heap = self.heap
        while heap and heap[0][0] <= until_ns:
            self.now, _, what, args = heapq.heappop(heap)
            what(*args)

    # Items of streams.
    def item(self, rank: int, *befores) -> Item:
        item = Item(rank)
        for before in befores:
            if before is not None and before.end_ns is None:
                item.need += 1
                before.after.append(item)
        return item

    def launch(self, item: Item):
        if item.need == 0:
            self.come_to(item)

    def come_to(self, item: Item):
        if item.rank in self.dead_ns:
            return
        item.ready_ns = self.now
        call = item.call
        if call is None:
            if item.duration is None:
                return  # never ends
            if item.duration == 0:
                self.finish(item)
            else:
                self.push(self.now + item.duration, self.finish, item)
        elif call.op.messages is not None:
            self.exchange(item)
        else:
            self.meet(item)

    def finish(self, item: Item):
        if item.rank in self.dead_ns or item.end_ns is not None:
            return
        work = [item]
        while work:
            done = work.pop()
            done.end_ns = self.now
            for after in done.after:
                if isinstance(after, Host):
                    self.push(self.now + 20 * US, self.run_host, after)
                    continue
                after.need -= 1
                if after.need:
                    continue
                if after.call is None and after.duration == 0 and after.rank not in self.dead_ns:
                    after.ready_ns = self.now
                    work.append(after)
                else:
                    self.come_to(after)
            done.after = ()

    def meet(self, item: Item):
        call = item.call
        comm = call.comm
        here = comm.meetings.setdefault(call.number, [])
        here.append(item)
        if len(here) < len(comm.ranks):
            return
        del comm.meetings[call.number]
        if self.frozen and comm.group.name == self.frozen[0] and call.number >= self.frozen[1]:
            if self.frozen_member is None:
                return
            here = [other for other in here if other.rank != self.frozen_member]
        elif len({other.call.signature for other in here}) > 1 and not self.survives_mismatch:
            return
        bytes_moved = call.signature[1] * BYTES.get(call.op.dtype, 4)
        end = self.now + self.spread(25 * US + bytes_moved * len(comm.ranks) // 40)
        for other in here:
            self.push(end + self.rng.randrange(0, 3 * US), self.finish, other)

    def exchange(self, item: Item):
        call = item.call
        me = item.rank
        item.open = len(call.op.messages)
        for direction, other, elements in call.op.messages:
            if self.cut and {me, other} == set(self.cut[:2]) and call.op.step >= self.cut[2]:
                continue
            key = (me, other) if direction == "send" else (other, me)
            waiting = call.comm.letters.setdefault(key, deque())
            if direction == "send" and elements * BYTES[call.op.dtype] <= self.eager_bytes:
                self.push(self.now + 10 * US, self.delivered, item)
                if not self.taken(waiting, direction, elements):
                    waiting.append((direction, None, elements))
                continue
            if waiting and waiting[0][0] != direction:
                _, twin, size = waiting.popleft()
                if size != elements and not self.survives_mismatch:
                    continue  # neither side of the message ends
                end = self.now + self.spread(15 * US + elements * BYTES[call.op.dtype] // 20)
                self.push(end, self.delivered, item)
                if twin is not None:
                    self.push(end, self.delivered, twin)
            else:
                waiting.append((direction, item, elements))

    def taken(self, waiting, direction, elements) -> bool:
        """An eager send gives its message to a receive that waits for it."""
        if not waiting or waiting[0][0] == direction:
            return False
        _, twin, size = waiting.popleft()
        if size == elements:
            self.push(self.now + 20 * US, self.delivered, twin)
        return True

    def delivered(self, item: Item):
        item.open -= 1
        if item.open == 0:
            self.finish(item)

    def spread(self, ns: int) -> int:
        return int(ns * (1 + self.jitter * self.rng.random()))

    # Hosts.
    def block(self, host: Host, inside: str, of=None):
        host.inside, host.inside_of, host.since_ns = inside, of, self.now
        if inside == "sync":
            host.visits.append([inside, of, self.now, None])

    def run_host(self, host: Host):
        if host.rank in self.dead_ns:
            return
        if host.inside == "sync":
            host.visits[-1][3] = self.now
        elif host.inside == "poll":
            host.polls[-1][3] = self.now
        host.inside = ""
        host.inside_of = None
        ops = host.ops
        while host.at < len(ops):
            op = ops[host.at]
            kind = op.kind
            if kind == "host":
                host.at += 1
                factor = self.host_factor.get(host.rank, 1.0) if host.thread == "main" else 1.0
                self.block(host, op.what)
                self.push(self.now + self.spread(int(op.seconds * S * factor)), self.run_host, host)
                return
            if kind in ("kernel", "gpu_hang"):
                host.at += 1
                stream = op.stream
                item = self.item(host.rank, host.compute, self.streams.get((host.rank, stream)) if stream else None)
                factor = self.gpu_factor.get(host.rank, 1.0)
                item.duration = self.spread(int(op.seconds * S * factor)) if kind == "kernel" else None
                self.work[host.rank].append((self.now, kind, stream or host.thread, None))
                if stream:
                    self.streams[(host.rank, stream)] = item
                else:
                    host.compute = item
                self.launch(item)
                continue
            if kind in ("call", "batch", "p2p", "coalesced"):
                comm = self.communicator(host.rank, op)
                if not comm.ready:
                    self.enter(comm, host)
                    return
                host.at += 1
                self.issue(host, comm, op)
                self.block(host, "python")
                self.push(self.now + self.rng.randrange(15 * US, 40 * US), self.run_host, host)
                return
            host.at += 1
            if kind == "wait":
                awaited = host.tags.get(op.tag)
                if awaited is not None:
                    self.work[host.rank].append((self.now, "wait", host.thread, awaited))
                    host.compute = self.item(host.rank, host.compute, awaited)
                    self.launch(host.compute)
            elif kind == "sync":
                if host.compute is not None and host.compute.end_ns is None:
                    self.block(host, "sync", host.compute)
                    host.compute.after.append(host)
                    return
            elif kind == "poll":
                if self.poll(host, op):
                    return
            elif kind == "signal":
                self.signal(host, op.what)
            elif kind == "await":
                if self.handed.get((host.rank, op.what), 0) < op.number:
                    self.block(host, "thread", op.what)
                    self.awaited.setdefault((host.rank, op.what), []).append((op.number, host))
                    return
            elif kind == "step":
                host.step = op.number
                self.steps[host.rank].append((self.now, op.number))
            elif kind == "barrier":
                if self.meet_in_store(op, host):
                    return
            elif kind == "stuck":
                self.block(host, op.what or "python")
                return
            elif kind == "exit":
                self.block(host, "exit")
                self.dead_ns[host.rank] = self.now
                self.exits[host.rank] = op.what or "exit"
                return
        host.done = True
        self.block(host, "done")

    def poll(self, host: Host, op: Op) -> bool:
        """The host asks again and again whether the compute stream, or the call with `tag`, has come to its end."""
        item = host.tags.get(op.tag) if op.what == "work" else host.compute
        if op.what == "event" and item is not None:
            self.work[host.rank].append((self.now, "record", host.thread, item))
        if item is None or item.end_ns is not None:
            return False
        self.block(host, "poll", item)
        host.polls.append([op.what, item, self.now, None])
        item.after.append(host)
        return True

    def signal(self, host: Host, name: str):
        key = (host.rank, name)
        self.handed[key] = self.handed.get(key, 0) + 1
        waiting = self.awaited.pop(key, [])
        for number, other in waiting:
            if number <= self.handed[key]:
                self.push(self.now + 50 * US, self.run_host, other)
            else:
                self.awaited.setdefault(key, []).append((number, other))

    def kill(self, rank: int, how: str = "killed"):
        if rank not in self.dead_ns:
            self.dead_ns[rank] = self.now
            self.exits[rank] = how

    def communicator(self, rank: int, op: Op) -> Communicator:
        group = op.group
        if op.kind == "p2p":
            pair = sorted((rank, op.messages[0][1]))
            key, ranks = "%d:%d" % tuple(pair), pair
        else:
            key, ranks = "", group.ranks
        comm = self.comms.get((group.name, key))
        if comm is None:
            comm = Communicator(group, key, ranks, group.eager or len(ranks) == 1)
            self.comms[(group.name, key)] = comm
        return comm

    def enter(self, comm: Communicator, host: Host):
        self.block(host, "ncclCommInitRank", comm)
        comm.entering[host.rank] = host
        self.created[(host.rank, comm.group.name, comm.key)] = [self.now, None]
        self.creators[(host.rank, comm.group.name, comm.key)] = host.thread
        if len(comm.entering) == len(comm.ranks) and self.creation_frozen != comm.group.name:
            comm.ready = True
            for other in comm.entering.values():
                left = self.now + self.rng.randrange(20 * MS, 30 * MS)
                self.created[(other.rank, comm.group.name, comm.key)][1] = left
                self.push(left, self.run_host, other)

    def meet_in_store(self, op: Op, host: Host) -> bool:
        key = (op.group.name, op.number)
        self.block(host, op.what or "store", op.group)
        here = self.barriers.setdefault(key, [])
        here.append(host)
        if len(here) == len(op.group.ranks):
            for other in self.barriers.pop(key):
                self.push(self.now + 2 * MS, self.run_host, other)
        return True

    def issue(self, host: Host, comm: Communicator, op: Op):
        """What ProcessGroupNCCL does: counters, entries, and the kernel on the communicator's stream."""
        rank = host.rank
        counters = self.counters.setdefault((rank, op.group.name), Counters())
        stream = (rank, comm.group.name, comm.key)
        item = self.item(rank, host.compute, self.streams.get(stream))
        number = comm.counts.get(rank, 0)
        if op.messages is None:
            comm.counts[rank] = number + 1
        item.call = Call(comm, op, number, signature(op))
        self.streams[stream] = item
        self.work[rank].append((self.now, "call", host.thread, item))
        rows = self.records[rank]

        def add(name, inputs, outputs, is_p2p, of, peer=None):
            rows.append(Record(host, comm, op, self.now, name, inputs, outputs, is_p2p, of, peer, counters))

        if op.kind == "call":
            counters.collective += 1
            counters.op += 1
            add(op.name, op.inputs, op.outputs, False, item)
        elif op.kind == "coalesced":
            counters.collective += 1
            for name, inputs, outputs in op.parts:
                counters.op += 1
                add(name, inputs, outputs, False, None)
            add(op.name, [], [], False, item)
        else:
            counters.p2p += 1
            batch = op.kind == "batch"
            place = op.group.place
            for direction, other, elements in op.messages:
                counters.op += 1
                arrow = "->" if direction == "send" else "<-"
                add("%s %d%s%d" % (direction, place[rank], arrow, place[other]), [[elements]], [[elements]], True,
                    None if batch else item, other)
            if batch:
                add("coalesced", [], [], True, item)
        if op.tag is not None:
            host.tags[op.tag] = item
        self.launch(item)
        if op.wait:
            self.work[rank].append((self.now + 10 * US, "wait", host.thread, item))
            host.compute = self.item(rank, host.compute, item)
            self.launch(host.compute)


def numel(sizes) -> int:
    total = 0
    for dims in sizes:
        product = 1
        for dim in dims:
            product *= dim
        total += product
    return total


def signature(op: Op):
    """What NCCL's kernels of all members must agree on. Sizes of all_to_all may differ."""
    if op.kind == "coalesced":
        return (op.name, sum(numel(outputs) for _, _, outputs in op.parts), len(op.parts))
    if op.messages is not None:
        return ("p2p", 0)
    elements = numel(op.inputs)
    return (op.name, 0 if op.name == "all_to_all" else elements, op.dtype)
