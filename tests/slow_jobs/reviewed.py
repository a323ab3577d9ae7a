"""Slow jobs as an independent reviewer made them: programs of plain instructions, one list per rank, and a stand-in for
GPUs that plays them. Written from his programs and the rules of his stand-in, not from ours: calls of one communicator
on two streams do not wait for each other, a send ends with its receive, each kernel varies by itself.

An instruction is a tuple: ("K", stream, us, kernel), ("C", communicator, operation, count, stream, us), ("S" or "R",
communicator, peer, count, stream, us), ("G",) and ("E",) around a group, ("e" or "w", stream, event): record, wait,
("H", us): the host's own work, ("Y" or "I", stream): wait for a stream, or read a value from it, ("A" or "F", us):
allocate, free, ("T", step), ("B", span) and ("X",)."""
import os
import random
from typing import Dict, List, NamedTuple, Optional, Tuple

from faults import healthy
from layout import Layout
from recorder import Recorder, Witness, write_truth
from training import Style
from work import MS, US, Call, Handed, Work

PARTS = {"gemm": "gemm_kernel", "attention": "attention_kernel", "adam": "adam_kernel", "expert": "expert_kernel"}
LARGE = 1 << 22
# What a fault does to kernels, as a factor; to the host, as milliseconds in the span of the data.
GPU_FAULTS = {"gpu_x1.05": 1.05, "gpu_x1.2": 1.2, "gpu_x2": 2.0, "host_gpus_x1.3": 1.3, "onset_x1.6": 1.6,
              "on_off_x1.6": 1.6}
HOST_PAUSES = {"loader": 100, "gc_one": 80, "gc_all": 80, "ckpt_rank0": 250, "ckpt_all": 250, "recompile_3": 700,
               "recompile_all": 700}
OF_ALL = ("gc_all", "ckpt_all", "recompile_all", "uneven_lengths")
DENSE = (*GPU_FAULTS, *HOST_PAUSES, "slow_cpu", "alloc_retry", "world_since", "uneven_lengths")
FAULTS = {"ddp": DENSE, "fsdp": DENSE,
          "tppp": ("gpu_x1.2", "gpu_x2", "slow_tp", "slow_dp", "slow_pair", "last_stage_x1.5", "loader", "alloc_retry"),
          "moe": ("gpu_x2", "host_gpus_x1.3", "onset_x1.6", "expert_x1.8"),
          "rl": ("gpu_x2", "generator_longer_x2", "loader")}
GPU, PAUSES, LINKS = ("slow_rank_gpu", "throttled_gpu"), ("slow_rank_host", "pauses"), ("slow_link", "slow_host")
# What an analyzer may call it: all pauses of hosts lie where the data is fetched.
CLASSES: Dict[str, Tuple[str, ...]] = {
    "host_gpus_x1.3": ("slow_host",), "loader": ("data_loading", *PAUSES),
    "gc_one": ("garbage_collection", "data_loading", *PAUSES),
    "gc_all": ("garbage_collection", "data_loading", "pauses"),
    "ckpt_rank0": ("checkpoint", "data_loading", *PAUSES),
    "ckpt_all": ("checkpoint", "data_loading", "pauses", "everyone"),
    "recompile_3": ("jit", "data_loading", *PAUSES), "recompile_all": ("jit", "data_loading", "pauses", "everyone"),
    "slow_cpu": ("slow_rank_host", "other_process"), "alloc_retry": ("allocator_churn",), "world_since": LINKS,
    "slow_tp": LINKS, "slow_dp": LINKS, "slow_pair": ("slow_link",), "uneven_lengths": ("uneven_sequences",),
    "last_stage_x1.5": ("last_stage", "uneven_stages", "slow_host", *GPU),
    "expert_x1.8": ("uneven_sequences", "uneven_experts", "hot_expert", *GPU),
    "generator_longer_x2": ("other_job", "uneven_sequences", "slow_host", *GPU), **{
        fault: GPU for fault in GPU_FAULTS if fault != "host_gpus_x1.3"}}


class Fault(NamedTuple):
    kind: str
    ranks: List[int]
    since: int = 0
    at: Tuple[int, ...] = ()  # steps
    factor: float = 1.0
    often: float = 1.0


NO_FAULT = Fault("none", [])


class Program:
    """What one rank does. Its noise is the same with a fault and without."""

    def __init__(self, job: "ReviewedJob", rank: int, fault: Fault):
        self.job, self.rank, self.fault = job, rank, fault
        self.noise = random.Random("%d/%d" % (job.seed, rank))
        self.chance = random.Random("fault/%d/%d" % (job.seed, rank))  # of the fault alone
        self.is_hit = rank in fault.ranks or fault.kind in OF_ALL
        self.due = self.chance.uniform(2, 9)
        self.number = -1
        self.length = 1.0
        self.list: List[tuple] = []
        for number in range(job.steps):
            self.number = number
            self.length = max(0.3, self.chance.lognormvariate(-0.06, 0.35))
            getattr(self, job.family)()

    def put(self, *instruction):
        self.list.append(instruction)

    def kernel(self, part: str, us: float, stream: int = 0):
        us *= 1 + self.noise.gauss(0, self.job.jitter)
        kind, number = self.fault.kind, self.number
        if self.is_hit:
            if kind == "slow_cpu":
                self.put("H", 1000 * self.fault.factor)
            begun = number >= self.fault.since and not (kind == "on_off_x1.6" and number // 5 % 2 == 0)
            us *= GPU_FAULTS.get(kind, 1) if begun else 1
            us *= 1.5 if kind == "last_stage_x1.5" and part != "adam" else 1
            us *= 1.8 if kind == "expert_x1.8" and part == "expert" else 1
            us *= self.length if kind == "uneven_lengths" and part != "adam" else 1
        self.put("K", stream, us, PARTS[part])

    def call(self, axis: int, operation: str, count: int, stream: int, us: float, name: str = ""):
        slow = self.is_hit and self.number >= self.fault.since and self.fault.kind in ("slow_" + name, name + "_since")
        self.put("C", axis, operation, count, stream, us * (self.fault.factor if slow else 1))

    def record(self, stream: int, event: int, waits: int):
        self.put("e", stream, event)
        self.put("w", waits, event)

    def begin_step(self, marks: bool = True):
        if marks:
            self.put("T", self.number)
        self.put("B", "data")
        self.put("H", self.noise.uniform(150, 650))
        kind = self.fault.kind
        if self.is_hit and kind in HOST_PAUSES and self.pauses(kind):
            self.put("H", 1000 * HOST_PAUSES[kind] * self.chance.uniform(0.8, 1.2))
        self.put("X",)
        if self.is_hit and kind == "alloc_retry" and self.chance.random() < self.fault.often:
            for _ in range(3):
                self.put("F", 5000)
                self.put("A", 5000)

    def pauses(self, kind: str) -> bool:
        if kind == "loader":
            return self.chance.random() < 0.2
        if kind.startswith("gc") and self.number >= self.due:
            self.due = self.number + self.chance.uniform(5, 9)
            return True
        return self.number % 10 == 9 if kind.startswith("ckpt") else self.number in self.fault.at

    def end_step(self):
        """Some wait for the loss in each step, most for what they log."""
        if self.job.waits != "every10" or self.number % 10 == 9:
            self.put("I" if self.job.waits == "item" else "Y", 0)

    def update(self):
        self.put("B", "optimizer")
        self.kernel("adam", self.job.optimizer_us)

    # Families: one step each.
    def ddp(self):
        job = self.job
        self.begin_step()
        self.put("B", "forward")
        for _ in range(job.layers):
            self.kernel("gemm", job.layer_us)
        self.put("X",)
        self.put("B", "backward")
        for i in range(job.layers):
            self.kernel("attention", 1.7 * job.layer_us)
            self.record(0, i, 1)
            self.call(0, "all_reduce", job.buckets[i], 1, job.call_us * job.buckets[i] / LARGE, "world")
        self.record(1, 20, 0)
        self.put("X",)
        self.update()
        self.end_step()
        self.put("X",)

    def fsdp(self):
        """The forward gathers each layer beside the one before it, the backward as soon as it may."""
        job = self.job
        self.begin_step()
        self.put("B", "forward")
        for i in range(job.layers + 1):
            if i < job.layers:
                self.gather(i)
            if i > 0:
                self.kernel("gemm", job.layer_us)
                self.record(0, 39 + i, 1)
            if i < job.layers:
                self.put("w", 0, i)
        self.put("X",)
        self.put("B", "backward")
        for i in range(job.layers):
            self.gather(i)
            self.put("w", 0, i)
            self.kernel("attention", 2 * job.layer_us)
            self.record(0, 40 + i, 2)
            self.call(0, "reduce_scatter", LARGE // 2, 2, job.call_us, "world")
        self.put("X",)
        self.record(2, 20, 0)
        self.update()
        self.call(0, "all_reduce", 1, 0, 60)
        self.end_step()
        self.put("X",)

    def gather(self, layer: int):
        self.call(0, "all_gather", LARGE // 2, 1, self.job.call_us, "world")
        self.put("e", 1, layer)

    def moe(self):
        job, ranks = self.job, self.job.ranks
        self.begin_step()
        tokens = random.Random("%d/tokens %d" % (job.seed, self.number)).choices(range(40000, 75000), k=ranks)
        for way, times in (("forward", 1), ("backward", 2)):
            self.put("B", way)
            for _ in range(job.layers):
                self.kernel("attention", times * job.layer_us)
                self.all_to_all([(tokens[peer], tokens[self.rank]) for peer in range(ranks)])
                self.kernel("expert", times * job.layer_us)
                self.all_to_all([(tokens[self.rank], tokens[peer]) for peer in range(ranks)])
            if way == "backward":
                self.call(0, "all_reduce", LARGE, 0, 2000)
            self.put("X",)
        self.kernel("adam", job.optimizer_us)
        self.end_step()

    def all_to_all(self, counts: List[Tuple[int, int]]):
        self.put("G",)
        for peer, (sends, receives) in enumerate(counts):
            if peer != self.rank:
                self.put("S", 0, peer, sends, 0, self.job.call_us)
                self.put("R", 0, peer, receives, 0, self.job.call_us)
        self.put("E",)

    def tppp(self):
        """1F1B, with tensor parallel calls behind each layer where there are any."""
        job, (_, dp, pp) = self.job, self.job.sizes
        stage = self.rank // (job.ranks // pp)
        warm_up = min(pp - stage - 1, job.micro_batches)
        steady = job.micro_batches - warm_up
        self.begin_step()
        self.put("B", "forward_backward")
        for _ in range(warm_up):
            self.transfer(("R", -1))
            self.pass_on(2, 1)
            self.transfer(("S", 1))
        if steady:
            self.transfer(("R", -1))
        for i in range(steady):
            self.pass_on(2, 1)
            self.transfer(("S", 1), ("R", 1))
            self.pass_on(1, 4)
            self.transfer(("S", -1), *([("R", -1)] if i + 1 < steady else []))
        for _ in range(warm_up):
            self.transfer(("R", 1))
            self.pass_on(1, 4)
            self.transfer(("S", -1))
        self.put("X",)
        self.put("B", "optimizer")
        if dp > 1:
            self.call(3, "all_reduce", LARGE, 0, 2500, "dp")
        self.kernel("adam", job.optimizer_us)
        self.call(0, "all_reduce", 1, 0, 60)
        self.end_step()
        self.put("X",)

    def pass_on(self, layers: int, times: int):
        for _ in range(layers):
            self.kernel("gemm", times * self.job.layer_us)
            if self.job.sizes[0] > 1:
                self.call(1, "all_reduce", LARGE // 4, 0, self.job.call_us / 4, "tp")

    def transfer(self, *parts: Tuple[str, int]):
        job, width = self.job, self.job.ranks // self.job.sizes[2]
        parts = tuple((way, self.rank + by * width) for way, by in parts if 0 <= self.rank + by * width < job.ranks)
        if not parts:
            return
        self.record(0, 50, 3)
        self.put("G",)
        for way, peer in parts:
            slow = self.fault.kind == "slow_pair" and {self.rank, peer} == set(self.fault.ranks)
            self.put(way, 2, peer, LARGE // 4, 3, 250 * (self.fault.factor if slow else 1))
        self.put("E",)
        self.record(3, 51, 0)

    def rl(self):
        """Half of the ranks train on what the others generate, two to an engine; new weights in each fourth step."""
        job, half = self.job, self.job.ranks // 2
        leads = self.rank % 2 == 0
        trains = self.rank < half
        self.begin_step(trains)
        if trains:
            if leads:
                self.put("R", 0, half + self.rank, 65536, 3, 100)
                self.record(3, 0, 0)
            self.call(1, "broadcast", 65536, 0, 100)
            self.put("B", "train")
            for _ in range(3):
                self.kernel("gemm", 2 * job.layer_us)
                self.call(1, "all_reduce", LARGE, 0, 1200)
            self.put("X",)
            self.kernel("adam", job.optimizer_us)
        else:
            self.put("B", "generate")
            for _ in range(16 if self.is_hit and self.fault.kind == "generator_longer_x2" else 8):
                self.kernel("attention", job.layer_us)
                self.call(2, "all_reduce", 65536, 0, 120)
            self.put("X",)
        if not trains and leads:
            self.put("S", 0, self.rank - half, 65536, 3, 100)
            self.put("Y", 3)
        else:
            self.end_step()
        if self.number % 4 == 3:
            self.call(0, "broadcast", LARGE, 0, 3000)
            self.put("Y", 0)


class Played:
    """Programs on the stand-in, as nodes of the graph. Stands for a Training where one is recorded."""

    def __init__(self, job: "ReviewedJob", layout: Layout, fault: Fault):
        self.layout, self.job = layout, job
        self.style = Style(steps=job.steps, first=0, micro_batches=1, forward_ns=0, launch_share=0, data_ns=0,
                           optimizer_ns=0, gradients="", overlap=True, bucket_ns=0,
                           sync_every=10 if job.waits == "every10" else 1, sync_messages=False,
                           marks="user" if job.marked else "none")
        self.cause = healthy(layout, self.style, job.family)  # nothing that readings of the machine would tell
        self.rng = random.Random("play/%d" % job.seed)
        self.work = Work(layout, self.rng, job.marked, job.marked)
        self.graph = self.work.graph
        for rank in range(job.ranks):
            self.play(rank, Program(job, rank, fault).list)
        self.times = self.graph.times(1)

    def play(self, rank: int, program: List[tuple]):
        at, work = self.work.ranks[rank], self.work
        at.trains = self.job.family != "rl" or rank < self.job.ranks // 2
        self.events: Dict[int, int] = {}
        self.group: Optional[List[tuple]] = None
        begun = 0
        for what, *rest in program:
            if what == "T":
                work.step(rank, rest[0])
            elif what == "B":
                if not at.trains and rest[0] == "data":  # a generator's step, that it does not mark
                    at.step = begun
                    at.step_nodes.append(at.host)
                    begun += 1
                work.begin(rank, rest[0])
            elif what == "X":
                work.end(rank, work.span_of(rank) or None)
            elif what == "H":
                work.host(rank, (rest[0] + self.rng.uniform(50, 90)) * US)
            elif what in "YI":
                self.wait(rank, what, *rest)
            elif what in "AF":
                work.cuda_call(rank, "cudaMalloc" if what == "A" else "cudaFree", own=rest[0] * US,
                               waits="no" if what == "A" else "yes")
            else:
                self.hand(rank, what, rest)
        work.cuda_call(rank, "cudaDeviceSynchronize", waits="yes")

    def wait(self, rank: int, what: str, stream: int):
        at, name = self.work.ranks[rank], stream_name(stream)
        if what == "I":
            at.records.append(Handed("copy", "cudaMemcpyAsync", 4, at.host, name))
            self.launch(rank)
            self.on_stream(rank, name, 10 * US)
        self.work.cuda_call(rank, "cudaStreamSynchronize", name, own=self.rng.uniform(20, 60) * US, waits="yes")

    def hand(self, rank: int, what: str, rest: list):
        """What goes to a stream, or into a group."""
        at = self.work.ranks[rank]
        if what in "ew":
            name = stream_name(rest[0])
            if what == "w" and rest[1] not in self.events:
                return
            at.records.append(Handed("record" if what == "e" else "wait", "", 0, at.host, name, rest[1] + 1))
            at.host = self.graph.add([at.host], US)
            if what == "e":
                self.events[rest[1]] = self.graph.add([at.host, at.streams.get(name, 0)])
            else:
                at.streams[name] = self.graph.add([at.host, at.streams.get(name, 0), self.events[rest[1]]])
        elif what == "K":
            name = stream_name(rest[0])
            at.records.append(Handed("kernel", rest[2], 64, at.host, name))
            self.launch(rank)
            self.on_stream(rank, name, rest[1] * US)
        elif what == "G":
            self.group = []
        elif what == "E":
            at.batches += 1
            group, self.group = self.group, None
            self.messages(rank, group, at.batches)
        elif what == "C":
            self.collective(rank, *rest)
        elif self.group is None:
            self.messages(rank, [(what, *rest)], 0)
        else:
            self.group.append((what, *rest))

    def launch(self, rank: int) -> int:
        at = self.work.ranks[rank]
        entered = at.host
        at.host = self.graph.add([entered], self.rng.uniform(2, 5) * US)
        return entered

    def on_stream(self, rank: int, name: str, ns: float):
        at = self.work.ranks[rank]
        at.streams[name] = self.graph.add([at.host, at.streams.get(name, 0)], ns)

    def meeting(self, key: tuple, started: int, us: float) -> int:
        """It takes as long as the one of its sides that takes longest."""
        node = self.work.meetings.setdefault(key, len(self.graph.own))
        if node == len(self.graph.own):
            self.graph.add([])
        self.graph.before[node].append(started)
        self.graph.own[node] = max(self.graph.own[node], us * US)
        return node

    def collective(self, rank: int, axis: int, operation: str, count: int, stream: int, us: float):
        at, name = self.work.ranks[rank], stream_name(stream)
        group = self.layout.group_of[rank][self.job.axes[axis]]
        number = at.counts[group] = at.counts.get(group, -1) + 1
        entered = self.launch(rank)
        started = self.graph.add([at.host, at.streams.get(name, 0)])
        at.launches += 1
        at.streams[name] = self.graph.add([self.meeting((group, number), started, us)])
        at.records.append(Call(group.axis, group, operation, number, count, 0 if operation == "broadcast" else -1, 0, 0,
                               at.launches - 1, entered, at.host, started, at.streams[name], at.step,
                               self.work.span_of(rank), name))

    def messages(self, rank: int, parts: List[tuple], batch: int):
        at, name = self.work.ranks[rank], stream_name(parts[-1][4])
        entered = self.launch(rank)
        started = self.graph.add([at.host, at.streams.get(name, 0)])
        at.launches += 1
        calls, ends = [], []
        for way, axis, peer, count, _, us in parts:
            group = self.layout.group_of[rank][self.job.axes[axis]]
            number = at.counts[group, way, peer] = at.counts.get((group, way, peer), -1) + 1
            pair = (rank, peer) if way == "S" else (peer, rank)
            ends.append(self.meeting((group, *pair, number), started, us))
            calls.append((group, "send" if way == "S" else "recv", number, count, peer))
        at.streams[name] = self.graph.add(ends)
        for i, (group, way, number, count, peer) in enumerate(calls):
            at.records.append(Call(group.axis, group, way, number, count, peer, batch, i, at.launches - 1, entered,
                                   at.host, started, at.streams[name], at.step, self.work.span_of(rank), name))

    def step_ms(self, since: int = 0) -> float:
        """A step of a rank, from its begin to the end of all: the mean over ranks and steps."""
        means = [(self.times[at.host] - self.times[at.step_nodes[since]]) / (len(at.step_nodes) - since)
                 for at in self.work.ranks]
        return sum(means) / len(means) / MS


def stream_name(stream: int) -> str:
    return "compute" if stream == 0 else "stream %d" % stream


class ReviewedJob:
    def __init__(self, seed: int, family: Optional[str] = None, fault: Optional[str] = None):
        rng = random.Random("reviewed/%d" % seed)
        self.seed = seed
        drawn = rng.choice(["ddp", "ddp", "fsdp", "fsdp", "tppp", "tppp", "moe", "rl"])
        self.family = family = family or drawn
        self.ranks = rng.choice([4, 8]) if family in ("ddp", "fsdp", "moe") else 8
        self.hosts = rng.choice([1, 2])
        self.jitter = rng.choice([0.01, 0.01, 0.02, 0.04])
        self.marked = rng.random() < 0.6 or family == "rl"
        self.waits = rng.choice(["step", "item", "every10"])
        self.steps = rng.choice([50, 60, 70])
        self.device = rng.choice(["writes", "timing"])
        self.optimizer_us, self.call_us = rng.uniform(1000, 3000), rng.uniform(800, 2000)
        self.layers = rng.choice([4, 8] if family == "ddp" else [4, 6] if family == "fsdp" else [4])
        self.layer_us = rng.uniform(3500, 6000) if family == "fsdp" else rng.uniform(
            1300, 2200) if family == "tppp" else rng.uniform(2200, 4200)
        self.sizes = rng.choice([(2, 2, 2), (2, 1, 4), (1, 2, 4), (1, 1, 8)]) if family == "tppp" else (1, 1, 1)
        self.micro_batches = rng.choice([4, 6, 8])
        self.buckets = [LARGE] * 8 if rng.random() < 0.6 else rng.choices([LARGE // 2, LARGE * 3 // 4, LARGE], k=8)
        self.axes = {"tppp": ("world", "tp", "pp", "dp"), "rl": ("world", "trainers", "engine")}.get(family, ("world",))
        self.fault = self.draw_fault(rng, fault)

    def draw_fault(self, rng: random.Random, wanted: Optional[str]) -> Fault:
        tp, dp, pp = self.sizes
        impossible = {"host_gpus_x1.3": self.hosts == 1, "slow_tp": tp == 1, "slow_dp": dp == 1}
        kinds = [kind for kind in FAULTS[self.family] if not impossible.get(kind)]
        kind = wanted or (rng.choice(kinds) if rng.random() < 0.75 else "none")
        if kind == "none":
            return NO_FAULT
        rank, width = rng.randrange(self.ranks), self.ranks // pp
        ranks = {"host_gpus_x1.3": self.of_host(rank), "ckpt_rank0": [0], "world_since": list(range(self.ranks)),
                 "last_stage_x1.5": list(range(self.ranks - width, self.ranks)),
                 "slow_tp": [rank - rank % tp, rank - rank % tp + 1],
                 "slow_dp": [other for other in range(self.ranks)
                             if other % tp == rank % tp and other // width == rank // width],
                 "slow_pair": [rank % (self.ranks - width), rank % (self.ranks - width) + width] if pp > 1 else [],
                 "generator_longer_x2": [4, 5]}.get(kind, [] if kind in OF_ALL else [rank])
        if self.family == "rl" and kind == "loader":
            ranks = [rank % 4]
        late = kind in ("onset_x1.6", "world_since")
        return Fault(kind, ranks, rng.randrange(self.steps // 3, self.steps // 2) if late else 0,
                     tuple(rng.sample(range(5, self.steps - 5), 3)),
                     20 if kind == "slow_pair" else 2.5 if kind == "slow_cpu" else rng.choice([3, 4]),
                     rng.choice([1, 1, 0.4]))

    def of_host(self, rank: int) -> List[int]:
        size = self.ranks // self.hosts
        return list(range(rank // size * size, rank // size * size + size))

    def lay_out(self) -> Layout:
        tp, dp, pp = self.sizes
        layout = Layout(*((tp, 1, dp, pp) if self.family == "tppp" else (1, 1, self.ranks, 1)),
                        per_host=self.ranks // self.hosts)
        layout.axes = ["world"]
        for axis in self.axes[1:]:
            members = {"trainers": [list(range(self.ranks // 2))], "engine": [[4, 5], [6, 7]]}.get(axis)
            layout.regroup(axis, members or [list(group.ranks) for group in layout.groups[axis]])
        return layout

    def write(self, directory: str) -> dict:
        """Dumps, and truth.json beside them."""
        place = os.path.join(directory, "reviewed-%d" % self.seed)
        os.makedirs(place, exist_ok=True)
        layout = self.lay_out()
        slow, bare = Played(self, layout, self.fault), Played(self, layout, NO_FAULT)
        witness = Witness(self.device, 1, False, random.Random(self.seed).random() < 0.5, 0, 0.0, False)
        Recorder(slow, slow.times, witness, slow.cause, random.Random("seen/%d" % self.seed),
                 "reviewed-%d" % self.seed).write(place)
        truth = self.truth(slow, bare, witness)
        write_truth(place, truth)
        return truth

    def truth(self, slow: Played, bare: Played, witness: Witness) -> dict:
        fault, step, without = self.fault, slow.step_ms(), bare.step_ms()
        of_link = fault.kind in ("world_since", "slow_tp", "slow_dp", "slow_pair")
        alone = ("last_stage", "uneven_stages") if self.sizes[2] == self.ranks and fault.kind in GPU_FAULTS else ()
        return {"family": self.family, "cause": fault.kind, "fault": fault.kind, "flavour": "",
                "classes": (*CLASSES.get(fault.kind, ()), *alone), "ranks": [] if of_link else fault.ranks,
                "among": fault.ranks, "any_of": fault.ranks if of_link else [], "hosts": [],
                "stage": self.sizes[2] - 1 if fault.kind == "last_stage_x1.5" else None,
                "since_step": fault.since or None, "step_ms": step, "step_ms_without": without,
                "share": 1 - without / step, "share_since": 1 - bare.step_ms(fault.since) / slow.step_ms(fault.since),
                "loss_fraction": 1 - without / step, "second": None, "faults": int(fault.kind != "none"),
                "job": {"name": "reviewed", "seed": self.seed, "world": self.ranks, "hosts": self.hosts,
                        "style": {"marks": "user" if self.marked else "none",
                                  "sync_every": 10 if self.waits == "every10" else 1},
                        "per_host": self.ranks // self.hosts, **witness.describe()}}
