"""What ranks do, as nodes of the graph, and what a recorder would write down of it, as references to nodes.

A host goes through its program and hands work to streams; a stream does one thing after the other; a collective ends
when the last member's stream has come to it and the bytes are over; a host that asks for a value waits for its stream.
"""
import math
import random
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from graph import Graph
from layout import Group, Layout

US, MS = 1e3, 1e6
LAUNCH, CALL = 6 * US, 18 * US  # what a kernel's launch and an NCCL call take of the host


class Call(NamedTuple):
    axis: str
    group: Group
    kind: str
    sequence: int
    count: int
    peer: int  # rank, of sends and receives
    batch: int  # number of the NCCL group, 0 none
    batch_index: int
    launch: int  # number of the launch, from 0
    entered: int  # nodes, as the following three
    returned: int
    started: int
    finished: int
    step: int
    span: str
    stream: str


class CudaCall(NamedTuple):
    name: str
    entered: int
    returned: int
    stream: str  # or none
    step: int
    span: str


class Handed(NamedTuple):
    """To a stream."""
    kind: str  # kernel, copy, record or wait
    name: str
    amount: int
    entered: int
    stream: str
    event: int = 0  # of records and waits


class Mark(NamedTuple):
    kind: str  # step, begin, end, or attribute
    name: str
    node: int
    value: float  # step: its number; begin: its parent's id; end: node of its begin; attribute: the number
    span: int
    depth: int
    step: int


class Rank:
    def __init__(self):
        self.host = 0  # node that the host has come to
        self.trains = True  # generators of rollouts mark no steps
        self.streams: Dict[str, int] = {}
        self.records: List[object] = []
        self.marks: List[Mark] = []
        self.spans: List[Tuple[str, int, int]] = []  # open: name, id, node of the begin
        self.next_span = 1
        self.step = -1
        self.step_nodes: List[int] = []
        self.batches = self.launches = self.events = 0
        self.event_at: Dict[int, int] = {}  # by node that a stream had come to
        self.event_behind: Dict[str, int] = {}  # by stream: behind its newest call
        self.counts: Dict[tuple, int] = {}  # calls by communicator, messages by peer and direction; nodes of "done"
        self.kernels: List[int] = []  # nodes
        self.kernels_suffix = ""


class Work:
    """Puts operations of ranks into the graph."""

    def __init__(self, layout: Layout, rng: random.Random, marks_steps: bool, marks_spans: bool):
        self.layout, self.rng = layout, rng
        self.marks_steps, self.marks_spans = marks_steps, marks_spans
        self.graph = Graph()
        self.ranks = [Rank() for _ in range(layout.world)]
        self.meetings: Dict[tuple, int] = {}
        for rank in self.ranks:
            rank.host = self.graph.add([0], rng.uniform(0, 2 * MS))  # they do not start as one

    def noise(self, spread: float) -> float:
        return math.exp(self.rng.gauss(0, spread))

    def span_of(self, rank: int) -> str:
        spans = self.ranks[rank].spans
        return spans[-1][0] if spans else ""

    # The host.
    def host(self, rank: int, own: float, extra: float = 0.0):
        at = self.ranks[rank]
        at.host = self.graph.add([at.host], own, extra)

    def cuda_call(self, rank: int, name: str, stream: str = "", own: float = 0.0, extra: float = 0.0,
                  waits: str = "no"):
        """`waits` for what the device does: no, yes, or cause: the call, and so its wait, comes with the cause."""
        at = self.ranks[rank]
        entered = at.host
        before = [entered]
        if waits != "no":
            tails = [tail for name_of, tail in at.streams.items() if name_of == stream or not stream]
            before += tails if waits == "yes" else [self.graph.gate(tail) for tail in tails]
        at.host = self.graph.add(before, own, extra)
        at.records.append(CudaCall(name, entered, at.host, stream, at.step, self.span_of(rank)))

    # The device.
    def kernel(self, rank: int, name: str, own: float, extra: float = 0.0, stream: str = "compute"):
        at = self.ranks[rank]
        at.records.append(Handed("kernel", name + at.kernels_suffix, 132, at.host, stream))
        at.host = self.graph.add([at.host], LAUNCH)
        at.streams[stream] = self.graph.add([at.host, at.streams.get(stream, 0)], own, extra)
        at.kernels.append(at.streams[stream])

    def copy(self, rank: int, amount: int, own: float, extra: float = 0.0):
        at = self.ranks[rank]
        at.records.append(Handed("copy", "cudaMemcpyAsync", amount, at.host, "compute"))
        at.host = self.graph.add([at.host], LAUNCH)
        at.streams["compute"] = self.graph.add([at.host, at.streams.get("compute", 0)], own, extra)

    def _hand(self, rank: int, kind: str, stream: str, event: int):
        at = self.ranks[rank]
        at.records.append(Handed(kind, "", 0, at.host, stream, event))

    def _record_event(self, rank: int, stream: str) -> int:
        self.ranks[rank].events += 1
        self._hand(rank, "record", stream, self.ranks[rank].events)
        return self.ranks[rank].events

    def wait(self, rank: int, stream: str):
        """The compute stream waits for another one, and nobody else does."""
        at = self.ranks[rank]
        if stream in at.event_behind:
            self._hand(rank, "wait", "compute", at.event_behind[stream])
        if stream in at.streams:
            at.streams["compute"] = self.graph.add([at.streams.get("compute", 0), at.streams[stream]])

    def event(self, rank: int, stream: str = "compute") -> int:
        """The node that a stream has come to, for others to wait for."""
        node = self.ranks[rank].streams.get(stream, 0)
        if stream == "compute":
            self.ranks[rank].event_at[node] = self._record_event(rank, stream)
        return node

    def _launch(self, rank: int, stream: str, behind_compute: bool, after: Sequence[int] = (),
                shown: str = "") -> Tuple[int, int, int]:
        """Nodes at which the host enters, and leaves, and at which the stream has come to it."""
        at = self.ranks[rank]
        if behind_compute:
            self._hand(rank, "wait", shown or stream, self._record_event(rank, "compute"))
        for node in after:
            if node in at.event_at:
                self._hand(rank, "wait", shown or stream, at.event_at[node])
        entered = at.host
        at.host = self.graph.add([entered], CALL * self.noise(0.2))
        before = [at.host, at.streams.get(stream, 0)] + ([at.streams.get("compute", 0)] if behind_compute else [])
        before += after
        at.launches += 1
        return entered, at.host, self.graph.add(before)

    def collective(self, rank: int, axis: str, kind: str, count: int, own: float, extra: float, stream: str = "",
                   behind_compute: bool = True, waits: bool = True, after: Sequence[int] = (), shown: str = "",
                   root: int = -1, counts: Optional[Sequence[Tuple[int, int]]] = None):
        """`after`: events that its stream waits for; `shown`: the stream that the call names. With `counts` it is a
        group of a send and a receive for each member, so many elements each; `root` is a member's place."""
        at = self.ranks[rank]
        group = self.layout.group_of[rank].get(axis)
        if group is None:
            return
        stream = stream or axis
        number = at.counts.get((axis,), 0)
        at.counts[(axis,)] = number + 1
        # NCCL runs one operation of a communicator at a time, whatever the streams.
        after = [*after, at.counts.get(("done", axis), 0)]
        entered, returned, started = self._launch(rank, stream, behind_compute, after, shown or axis)
        key = (group, number)
        if key not in self.meetings:
            self.meetings[key] = self.graph.add([], own, extra)
        self.graph.before[self.meetings[key]].append(started)
        finished = self.graph.add([self.meetings[key]], self.rng.uniform(0, 5 * US))
        at.streams[stream] = at.counts[("done", axis)] = finished
        calls = [(kind, number, count, root, 0)]
        if counts is not None:
            at.batches += 1
            calls = []
            for member, sizes in zip(group.ranks, counts):
                for way, size in zip(("send", "recv"), sizes):
                    passed = at.counts.get((axis, way, member), 0)
                    at.counts[(axis, way, member)] = passed + 1
                    calls.append((way, passed, size, member, at.batches))
        for i, (name, sequence, size, peer, batch) in enumerate(calls):
            at.records.append(Call(axis, group, name, sequence, size, peer, batch, i, at.launches - 1, entered,
                                   returned, started, finished, at.step, self.span_of(rank), shown or axis))
        at.event_behind[stream] = self._record_event(rank, shown or axis)
        if waits:
            self.wait(rank, stream)

    def messages(self, rank: int, which: Sequence[Tuple[str, int]], count: int, own: float, extra_of,
                 axis: str = "pp"):
        """Sends and receives of one NCCL group, for which the compute stream waits."""
        at = self.ranks[rank]
        which = [(way, other) for way, other in which if other >= 0]
        if not which:
            return
        entered, returned, started = self._launch(rank, axis, True)
        at.batches += len(which) > 1
        ends = []
        for i, (way, other) in enumerate(which):
            number = at.counts.get((axis, way, other), 0)
            at.counts[(axis, way, other)] = number + 1
            pair = (rank, other) if way == "send" else (other, rank)
            key = (axis, *pair, number)
            if key not in self.meetings:
                self.meetings[key] = self.graph.add([], own * self.noise(0.05), extra_of(pair))
            self.graph.before[self.meetings[key]].append(started)
            ends.append(self.meetings[key])
            at.records.append(Call(axis, self.layout.group_of[rank][axis], way, number, count, other,
                                   at.batches if len(which) > 1 else 0, i, at.launches - 1, entered, returned,
                                   started, -1, at.step, self.span_of(rank), axis))
        finished = self.graph.add(ends, self.rng.uniform(0, 5 * US))
        for i in range(len(which)):
            at.records[-1 - i] = at.records[-1 - i]._replace(finished=finished)
        at.streams[axis] = finished
        at.event_behind[axis] = self._record_event(rank, axis)
        self.wait(rank, axis)

    # Markers.
    def step(self, rank: int, number: int):
        at = self.ranks[rank]
        at.step = number
        at.step_nodes.append(at.host)
        if self.marks_steps and at.trains:
            at.marks.append(Mark("step", "", at.host, number, 0, 0, number))

    def begin(self, rank: int, name: Optional[str]):
        if not self.marks_spans or name is None:
            return
        at = self.ranks[rank]
        parent = at.spans[-1][1] if at.spans else 0
        at.marks.append(Mark("begin", name, at.host, parent, at.next_span, len(at.spans), at.step))
        at.spans.append((name, at.next_span, at.host))
        at.next_span += 1

    def end(self, rank: int, name: Optional[str]):
        if not self.marks_spans or name is None:
            return
        at = self.ranks[rank]
        opened, number, begun = at.spans.pop()
        assert opened == name, (opened, name)
        at.marks.append(Mark("end", name, at.host, begun, number, len(at.spans), at.step))
