"""Steps of training: what each rank does, in the order of its program. A cause is asked at each piece of work what it
adds, and may put in work of its own."""
import random
from typing import Dict, List, NamedTuple, Optional

from layout import Layout
from work import MS, US, Work

# Names of spans by who marks them; none: not marked.
NAMES: Dict[str, Dict[str, str]] = {
    "none": {},
    "steps": {},
    "torchtitan": {"data": "fetching_batch", "passes": "forward_backward", "optimizer": "optim",
                   "checkpoint": "checkpoint_save", "gc": "gc_collect"},
    "user": {"step": "step", "data": "data", "forward": "forward", "backward": "backward", "optimizer": "optimizer",
             "checkpoint": "save_checkpoint", "gc": "gc", "compile": "compile model"},
}


class Style(NamedTuple):
    """How a program trains, and what it tells of itself."""
    steps: int
    first: int  # number of the first one
    micro_batches: int
    forward_ns: float  # of one micro-batch on one stage
    launch_share: float  # host work of a pass, over what it takes on the device
    data_ns: float
    optimizer_ns: float
    gradients: str  # all_reduce, reduce_scatter (and all_gather behind the optimizer), or fsdp
    overlap: bool  # gradients are reduced beside the backward
    bucket_ns: float
    sync_every: int  # steps between two .item() of the loss
    sync_messages: bool  # the host waits for each batch of sends and receives, as Megatron's batch_p2p_sync does
    marks: str
    # What only the programs of families.py differ in.
    layers: int = 2  # of a stage, or of a chunk of it
    chunks: int = 1  # of the model, on a stage
    noise: float = 0.015  # of kernels
    jitter: float = 0.0  # how often the system interrupts a piece of the host's work
    even_buckets: bool = True
    recompute: bool = False
    inline: bool = False  # what compute waits for anyhow is called on its stream, as of PyTorch 2.8

    def name(self, what: str) -> Optional[str]:
        return NAMES[self.marks].get(what)


def draw_style(rng: random.Random, layout: Layout, marks: str) -> Style:
    micro = rng.choice([layout.pp, layout.pp + 2, 2 * layout.pp]) if layout.pp > 1 else rng.choice([1, 2, 3])
    forward = rng.uniform(8, 25) * MS * (1 if layout.pp > 1 else 2)
    # The last marker of a step is one behind a wait for the device, whatever sync_every is.
    steps = 61 if layout.world <= 16 else 51 if layout.world <= 32 else 36
    gradients = rng.choice(["all_reduce", "reduce_scatter"] + (["fsdp"] if layout.pp == 1 else []))
    return Style(steps=steps, first=rng.choice([0, 0, 1, 5000]), micro_batches=micro, forward_ns=forward,
                 launch_share=rng.uniform(0.15, 0.45), data_ns=rng.uniform(0.5, 3) * MS,
                 optimizer_ns=rng.uniform(1, 4) * MS, gradients=gradients, overlap=rng.random() < 0.6,
                 bucket_ns=forward * rng.uniform(0.1, 0.5), sync_every=rng.choice([1, 1, 1, 5]),
                 sync_messages=layout.pp > 1 and rng.random() < 0.4, marks=marks)


class Training:
    def __init__(self, layout: Layout, style: Style, cause, rng: random.Random):
        self.layout, self.style, self.cause, self.rng = layout, style, cause, rng
        self.work = Work(layout, rng, style.marks != "none", style.marks not in ("none", "steps"))
        self.graph = self.work.graph
        self.speed = [rng.gauss(1, 0.004) for _ in range(layout.world)]
        for step in range(style.steps):
            cause.step = step
            for rank in range(layout.world):
                self.play_step(rank, step)

    # Pieces of work.
    def host(self, rank: int, where: str, ns: float):
        ns *= self.work.noise(0.15)
        if self.style.jitter and self.rng.random() < self.style.jitter:
            ns += self.rng.expovariate(1 / (0.5 * MS))
        self.work.host(rank, ns, self.cause.host(rank, where, ns))

    def kernel(self, rank: int, name: str, ns: float, micro: int, part: str):
        ns *= self.speed[rank] * self.work.noise(self.style.noise) * self.cause.shape(rank)
        self.work.kernel(rank, name, ns, self.cause.kernel(rank, micro, part, ns))

    def collective(self, rank: int, axis: str, kind: str, count: int, ns: float, **how):
        group = self.layout.group_of[rank].get(axis)
        if group is not None:
            ns *= self.work.noise(0.05)
            if self.style.inline and how.get("waits", True):
                how.setdefault("shown", "compute")
            self.work.collective(rank, axis, kind, count, ns, self.cause.transfer(group.ranks, axis, ns), **how)

    def messages(self, rank: int, *which):
        """("send" or "recv", 1 to the next stage or -1 to the one before)"""
        style, named = self.style, [(way, self.layout.neighbour(rank, by)) for way, by in which]
        own = 0.03 * style.forward_ns
        before = self.work.ranks[rank].launches
        self.work.messages(rank, named, 4 << 20, own, lambda pair: self.cause.transfer(pair, "pp", own))
        if style.sync_messages and self.work.ranks[rank].launches != before:
            self.work.cuda_call(rank, "cudaDeviceSynchronize", waits="yes", own=15 * US)

    def one_pass(self, rank: int, micro: int, backward: bool):
        """Two halves, as a model has layers; a tensor parallel group adds up between them."""
        style, work = self.style, self.work
        name = style.name("backward" if backward else "forward")
        device = style.forward_ns * (2 if backward else 1) / 2
        last = backward and micro == style.micro_batches - 1
        work.begin(rank, name)
        for half in (0, 1):
            part = ("backward" if backward else "forward") + str(half)
            if style.gradients == "fsdp":
                self.collective(rank, "dp", "all_gather", 1 << 22, style.bucket_ns / 2, stream="gathers",
                                behind_compute=False)
            self.host(rank, "launch", device * style.launch_share)
            self.cause.between(self, rank, "launch")
            self.kernel(rank, "sm90_xmma_gemm_bf16_%s" % part, device, micro, part)
            if half == 0:
                self.collective(rank, "tp", "all_reduce", 1 << 22, device * 0.06)
                if not backward:
                    self.collective(rank, "cp", "all_gather", 1 << 20, device * 0.05)
            if style.gradients == "fsdp" and backward:
                self.collective(rank, "dp", "reduce_scatter", 1 << 22, style.bucket_ns / 2, waits=False)
            elif last and (style.overlap or half == 1):
                for _ in range(1 if style.overlap else 2):
                    self.collective(rank, "dp", style.gradients, 1 << 24, style.bucket_ns, waits=False)
        work.end(rank, name)

    def passes(self, rank: int):
        """1F1B: a stage runs ahead by as many forwards as there are stages behind it."""
        style, stage = self.style, self.layout.stage(rank)
        ahead = min(self.layout.pp - stage - 1, style.micro_batches)
        steady = style.micro_batches - ahead
        for micro in range(ahead):
            self.messages(rank, ("recv", -1))
            self.one_pass(rank, micro, False)
            self.messages(rank, ("send", 1))
        if steady:
            self.messages(rank, ("recv", -1))
        for micro in range(steady):
            self.one_pass(rank, ahead + micro, False)
            self.messages(rank, ("send", 1), ("recv", 1))
            self.one_pass(rank, micro, True)
            self.messages(rank, *([("send", -1)] + ([("recv", -1)] if micro + 1 < steady else [])))
        for micro in range(steady, style.micro_batches):
            self.messages(rank, ("recv", 1))
            self.one_pass(rank, micro, True)
            self.messages(rank, ("send", -1))

    def play_step(self, rank: int, step: int):
        style, work = self.style, self.work
        work.step(rank, style.first + step)
        work.begin(rank, style.name("step"))
        self.cause.between(self, rank, "begin")
        work.begin(rank, style.name("data"))
        self.host(rank, "data", style.data_ns)
        work.end(rank, style.name("data"))
        work.copy(rank, 1 << 20, 60 * US)
        work.begin(rank, style.name("passes"))
        self.passes(rank)
        work.end(rank, style.name("passes"))
        work.begin(rank, style.name("optimizer"))
        work.wait(rank, "dp")
        # The norm of the gradients.
        self.collective(rank, "world", "all_reduce", 1, 80 * US)
        self.host(rank, "optimizer", style.optimizer_ns)
        self.kernel(rank, "multi_tensor_apply_adam", style.forward_ns / 6, 0, "optimizer")
        if style.gradients == "reduce_scatter":
            self.collective(rank, "dp", "all_gather", 1 << 24, style.bucket_ns)
        work.end(rank, style.name("optimizer"))
        if step % style.sync_every == style.sync_every - 1:
            # loss.item()
            work.copy(rank, 4, 5 * US)
            work.cuda_call(rank, "cudaStreamSynchronize", "compute", own=10 * US, waits="yes")
        self.host(rank, "end", 0.3 * MS)
        self.cause.between(self, rank, "end")
        work.end(rank, style.name("step"))


def step_means(training: Training, times: List[float], since: int = 0) -> float:
    """The mean time of a step in ms, over the ranks' steps from `since` on, from one marker of a step to the next."""
    total, trainers = 0.0, [rank for rank in training.work.ranks if rank.trains]
    for rank in trainers:
        nodes = rank.step_nodes
        total += (times[nodes[-1]] - times[nodes[since]]) / (len(nodes) - 1 - since)
    return total / len(trainers) / 1e6
