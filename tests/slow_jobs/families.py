"""Programs as real frameworks write them (frameworks.md has the sources): streams, order of calls, waits."""
import random
from typing import Dict, List, Sequence, Tuple, Type

from layout import Layout
from training import NAMES, Style, Training
from work import MS, US

Buckets = Dict[int, Tuple[float, int]]  # duration and elements, by the layer whose gradients are the last ones


class Family(Training):
    """A step of layers, forward and backward, on each rank alone: what a family adds is how ranks meet."""
    name = ""
    layouts: Sequence[tuple] = ((1, 1, 4, 1), (1, 1, 8, 1), (1, 1, 16, 1))
    gradients: Sequence[str] = ("all_reduce",)
    micro_batches: Sequence[int] = (1, 1, 2, 4)
    syncs: Sequence[int] = (1, 10)  # steps between two waits of the host
    norm_waits = False  # the host reads the norm of the gradients in each step

    def __init__(self, layout: Layout, style: Style, cause, rng: random.Random):
        self.layer_ns = style.forward_ns / style.layers
        shape = random.Random("buckets/%r" % style.bucket_ns)
        self.cuts: Buckets = {}
        for layer in range(style.layers):
            # Of unequal ones the first, of the last layer, is small so that it starts early.
            size = 1.0 if style.even_buckets else 0.2 if layer == style.layers - 1 else shape.uniform(0.5, 1.8)
            self.cuts[layer] = (style.bucket_ns * size, int((1 << 24) * size))
        super().__init__(layout, style, cause, rng)

    @classmethod
    def lay_out(cls, rng: random.Random, small: bool) -> Layout:
        return Layout(*rng.choice(cls.layouts[:1] if small else cls.layouts))

    def layer(self, rank: int, micro: int, backward: bool, number: int):
        style = self.style
        passes = [("forward", 1.0)]
        if backward:
            passes = ([("recompute", 1.0)] if style.recompute else []) + [("backward", 2.0)]
        for way, factor in passes:
            for what, share in (("attention", 0.4), ("mlp", 0.6)):
                device = self.layer_ns * factor * share
                self.host(rank, "launch", device * style.launch_share)
                self.cause.between(self, rank, "launch")
                self.kernel(rank, "sm90_%s_%s" % (what, way), device, micro, "%s%d" % (way, number))
                if way != "recompute" or what == "attention":
                    self.collective(rank, "tp", "all_reduce", 1 << 22, device * 0.08)

    def reduce(self, rank: int, layer: int, axis: str = "dp"):
        ns, count = self.cuts[layer]
        self.collective(rank, axis, self.style.gradients, count, ns, waits=False)

    def forward(self, rank: int, micro: int):
        for number in range(self.style.layers):
            self.layer(rank, micro, False, number)

    def backward(self, rank: int, micro: int, last: bool):
        for number in reversed(range(self.style.layers)):
            self.layer(rank, micro, True, number)
            if last:
                self.reduce(rank, number)

    def passes(self, rank: int):
        style, work = self.style, self.work
        for micro in range(style.micro_batches):
            work.begin(rank, style.name("forward"))
            self.forward(rank, micro)
            work.end(rank, style.name("forward"))
            work.begin(rank, style.name("backward"))
            self.backward(rank, micro, micro == style.micro_batches - 1)
            work.end(rank, style.name("backward"))

    def start(self, rank: int, step: int):
        style, work = self.style, self.work
        work.step(rank, style.first + step)
        work.begin(rank, style.name("step"))
        self.cause.between(self, rank, "begin")
        work.begin(rank, style.name("data"))
        self.host(rank, "data", style.data_ns)
        work.end(rank, style.name("data"))
        work.copy(rank, 1 << 20, 60 * US)

    def update(self, rank: int):
        """The reduced gradients, and their use."""
        self.work.wait(rank, "dp")
        self.step_optimizer(rank)

    def step_optimizer(self, rank: int):
        self.host(rank, "optimizer", self.style.optimizer_ns)
        self.kernel(rank, "multi_tensor_apply_adam", self.style.forward_ns / 10, 0, "optimizer")

    def read(self, rank: int):
        """.item() of something that the device computes."""
        self.work.copy(rank, 4, 5 * US)
        self.work.cuda_call(rank, "cudaStreamSynchronize", "compute", own=10 * US, waits="yes")

    def finish(self, rank: int, step: int):
        style, work = self.style, self.work
        if step % style.sync_every == style.sync_every - 1:
            self.read(rank)
        self.host(rank, "end", 0.2 * MS)
        self.cause.between(self, rank, "end")
        work.end(rank, style.name("step"))

    def play_step(self, rank: int, step: int):
        style, work = self.style, self.work
        self.start(rank, step)
        work.begin(rank, style.name("passes"))
        self.passes(rank)
        work.end(rank, style.name("passes"))
        work.begin(rank, style.name("optimizer"))
        self.update(rank)
        work.end(rank, style.name("optimizer"))
        self.finish(rank, step)


class Ddp(Family):
    """Buckets start from inside the last backward, in order, and the optimizer waits for them."""
    name = "ddp"
    layouts = ((1, 1, 4, 1), (1, 1, 8, 1), (1, 1, 16, 1), (1, 1, 32, 1))


class Fsdp2(Family):
    """The gathering of a layer runs beside the computing of the one before it, and so does the reducing."""
    name = "fsdp2"
    gradients = ("reduce_scatter",)
    layouts = ((1, 1, 4, 1), (1, 1, 8, 1), (1, 1, 16, 1), (2, 1, 8, 1))

    def gather(self, rank: int, after: int):
        ns, count = self.cuts[0]
        self.collective(rank, "dp", "all_gather", count, ns, stream="gathers", behind_compute=False, waits=False,
                        after=[after], shown="gathers" if self.style.inline else "")

    def copy_out(self, rank: int) -> int:
        self.work.wait(rank, "gathers")
        self.kernel(rank, "split_with_sizes_copy", self.layer_ns * 0.02, 0, "copy")
        return self.work.event(rank)

    def forward(self, rank, micro):
        done = self.work.event(rank)  # the root waits for the optimizer
        for number in range(self.style.layers):
            self.gather(rank, done)
            done = self.copy_out(rank)
            self.layer(rank, micro, False, number)

    def backward(self, rank, micro, last):
        self.gather(rank, self.work.event(rank))
        for number in reversed(range(self.style.layers)):
            done = self.copy_out(rank)
            if number:
                self.gather(rank, done)
            self.layer(rank, micro, True, number)
            if last:
                # At most one reduction is under way.
                self.work.wait(rank, "reduces")
                self.kernel(rank, "chunk_cat", self.layer_ns * 0.02, micro, "copy")
                ns, count = self.cuts[0]
                self.collective(rank, "dp", "reduce_scatter", count, ns, stream="reduces", waits=False,
                                shown="reduces" if self.style.inline else "")

    def update(self, rank):
        self.work.wait(rank, "reduces")
        self.collective(rank, "dp", "all_reduce", 1, 60 * US)  # the norm, which stays on the device
        self.step_optimizer(rank)


class Megatron(Family):
    """1F1B; each transfer is waited for at once. The host reads the norm of the gradients in each step."""
    name = "megatron_1f1b"
    layouts = ((1, 1, 1, 4), (1, 1, 2, 4), (2, 1, 2, 2), (2, 1, 2, 4), (1, 1, 4, 2), (4, 1, 2, 2), (1, 1, 1, 8),
               (2, 1, 4, 4))
    gradients = ("all_reduce", "reduce_scatter")
    syncs = (1,)
    norm_waits = True

    def one_pass(self, rank, micro, backward):
        if backward:
            self.backward(rank, micro, micro == self.style.micro_batches - 1)
        else:
            self.forward(rank, micro)

    def backward(self, rank, micro, last):
        for number in reversed(range(self.style.layers)):
            self.layer(rank, micro, True, number)
            if last and self.style.overlap:
                self.reduce(rank, number)

    def passes(self, rank):
        if self.style.gradients == "reduce_scatter" and self.style.overlap:
            self.work.wait(rank, "dp")  # the parameters that the last step's end began to gather
        Training.passes(self, rank)

    def update(self, rank):
        style = self.style
        if not style.overlap:
            for _ in range(style.chunks):
                for number in reversed(range(style.layers)):
                    self.reduce(rank, number)
        self.work.wait(rank, "dp")
        self.collective(rank, "world", "all_reduce", 1, 60 * US)
        self.read(rank)
        self.step_optimizer(rank)
        if style.gradients == "reduce_scatter":
            for number in range(style.layers):
                ns, count = self.cuts[number]
                self.collective(rank, "dp", "all_gather", count, ns, waits=not style.overlap)

    def finish(self, rank, step):
        if self.layout.stage(rank) == self.layout.pp - 1 and step % 10 == 9:
            self.read(rank)  # the loss
        self.host(rank, "end", 0.2 * MS)
        self.cause.between(self, rank, "end")
        self.work.end(rank, self.style.name("step"))


class Interleaved(Megatron):
    """Several chunks of the model on each rank, in a ring; one group for all that a rank sends and receives."""
    name = "megatron_interleaved"
    layouts = ((1, 1, 1, 4), (1, 1, 2, 4), (2, 1, 1, 4), (2, 1, 2, 4))  # two stages would mix up their messages

    def table(self) -> List[Tuple[int, int]]:
        """(micro-batch, chunk) of the n-th forward."""
        pp, style = self.layout.pp, self.style
        return [(micro, chunk) for first in range(0, style.micro_batches, pp) for chunk in range(style.chunks)
                for micro in range(first, min(first + pp, style.micro_batches))]

    def chunk(self, at: int, backward: bool) -> int:
        found = self.table()[at % (self.style.micro_batches * self.style.chunks)][1]
        return self.style.chunks - 1 - found if backward else found

    def receives(self, rank: int, at: int, backward: bool) -> bool:
        """Whether there is something to receive for the next forward, or backward, behind the at-th."""
        pp = self.layout.pp
        if self.layout.stage(rank) != (pp - 1 if backward else 0):
            return True
        # The first of the ring gets what the last one, which is pp - 1 behind it, passes on, if to a next chunk.
        return at >= pp - 1 and self.chunk(at - pp + 1, backward) != (0 if backward else self.style.chunks - 1)

    def transfer(self, rank: int, forward: int, backward: int, receive: Tuple[bool, bool]):
        """Of the forward and the backward of these numbers, -1: none of it."""
        stage, pp = self.layout.stage(rank), self.layout.pp
        ring = self.layout.group_of[rank]["pp"].ranks
        behind, ahead = ring[stage - 1], ring[(stage + 1) % pp]
        which = []
        if backward >= 0 and not (stage == 0 and self.chunk(backward, True) == 0):
            which.append(("send", behind))
        if receive[0]:
            which.append(("recv", behind))
        if forward >= 0 and not (stage == pp - 1 and self.chunk(forward, False) == self.style.chunks - 1):
            which.append(("send", ahead))
        if receive[1]:
            which.append(("recv", ahead))
        own = 0.03 * self.style.forward_ns
        self.work.messages(rank, which, 4 << 20, own, lambda pair: self.cause.transfer(pair, "pp", own))

    def passes(self, rank):
        style, work, stage, pp = self.style, self.work, self.layout.stage(rank), self.layout.pp
        if style.gradients == "reduce_scatter" and style.overlap:
            work.wait(rank, "dp")
        table, total = self.table(), style.micro_batches * style.chunks
        warmup = min((pp - stage - 1) * 2 + (style.chunks - 1) * pp, total)
        steady = total - warmup
        self.transfer(rank, -1, -1, (stage > 0, False))
        for at in range(warmup):
            self.one_pass(rank, table[at][0], False)
            before = self.receives(rank, at, False) and at + 1 < total
            self.transfer(rank, at, -1, (before, at == warmup - 1 and steady > 0 and stage != pp - 1))
        for at in range(steady):
            self.one_pass(rank, table[warmup + at][0], False)
            self.one_pass(rank, table[at][0], True)
            before = self.receives(rank, warmup + at, False) and at + 1 < steady
            self.transfer(rank, warmup + at, at, (before, self.receives(rank, at, True) and at + 1 < total))
        if not steady and stage != pp - 1:
            self.transfer(rank, -1, -1, (False, True))
        for at in range(steady, total):
            self.one_pass(rank, table[at][0], True)
            self.transfer(rank, -1, at, (False, self.receives(rank, at, True) and at + 1 < total))


class Moe(Family):
    """Dispatch and combine are an all_to_all each. Where the capacity is not fixed, the host reads the counts."""
    name = "moe"
    layouts = ((1, 1, 4, 1), (1, 1, 8, 1), (1, 1, 16, 1))
    micro_batches = (1, 2)

    @classmethod
    def lay_out(cls, rng, small):
        layout = super().lay_out(rng, small)
        size = rng.choice([size for size in (4, 8) if size <= layout.world])
        layout.regroup("ep", [list(range(first, first + size)) for first in range(0, layout.world, size)])
        layout.regroup("edp", [list(range(place, layout.world, size)) for place in range(size)])
        return layout

    def exchange(self, rank: int, ns: float, combine: bool):
        members = self.layout.group_of[rank]["ep"].ranks
        mine, theirs = self.cause.tokens(rank), [self.cause.tokens(member) for member in members]
        counts = [(int((1 << 18) * mine), int((1 << 18) * other)) if combine else
                  (int((1 << 18) * other), int((1 << 18) * mine)) for other in theirs]
        self.collective(rank, "ep", "send", 0, ns, counts=counts)

    def layer(self, rank, micro, backward, number):
        style, way = self.style, "backward" if backward else "forward"
        device = self.layer_ns * (2 if backward else 1)
        self.host(rank, "launch", device * style.launch_share)
        self.cause.between(self, rank, "launch")
        pieces = [("sm90_attention_" + way, 0.4, way), ("grouped_gemm_" + way, 0.6, "expert")]
        for name, share, part in reversed(pieces) if backward else pieces:
            if part != "expert":
                self.kernel(rank, name, device * share, micro, part + str(number))
                continue
            if not backward and style.sync_messages:
                self.collective(rank, "ep", "all_gather", 64, 40 * US)
                self.read(rank)
            self.exchange(rank, self.layer_ns * 0.15, False)
            self.kernel(rank, name, device * share, micro, part)
            self.exchange(rank, self.layer_ns * 0.15, True)

    def reduce(self, rank, layer, axis="dp"):
        super().reduce(rank, layer)
        self.collective(rank, "edp", self.style.gradients, 1 << 22, self.cuts[layer][0] * 0.4, waits=False)

    def update(self, rank):
        self.work.wait(rank, "edp")
        super().update(rank)


class Rl(Family):
    """Some ranks train on what the others generate. Either they take turns, or generation runs one step ahead."""
    name = "rl"
    layouts = ((1, 1, 8, 1), (1, 1, 16, 1))
    micro_batches = (1, 2)
    syncs = (1,)
    DECODES = 8

    @classmethod
    def lay_out(cls, rng, small):
        layout = super().lay_out(rng, small)
        trainers = rng.choice([layout.world // 2, layout.world // 4])
        size = rng.choice([1, 2])
        layout.regroup("dp", [list(range(trainers))])
        layout.regroup("engine", [list(range(first, first + size))
                                  for first in range(trainers, layout.world, size)])
        layout.regroup("rollout", [list(range(layout.world))])
        return layout

    @property
    def trainers(self) -> int:
        return len(self.layout.groups["dp"][0].ranks)

    def generate(self, rank: int):
        """The host samples each token, or a few, from what the device computed."""
        style = self.style
        for _ in range(self.DECODES):
            self.cause.between(self, rank, "launch")
            self.kernel(rank, "sm90_decode", style.forward_ns * (1.2 + style.overlap) / self.DECODES, 0, "generate")
            self.collective(rank, "engine", "all_reduce", 1 << 16, 0.1 * MS)
            self.read(rank)
            self.host(rank, "sample", 0.3 * MS)

    def hand_over(self, rank: int):
        """Rollouts to trainers, each of which gets those of one generator."""
        trainers, generators = self.trainers, self.layout.world - self.trainers
        if rank < trainers:
            which = [("recv", trainers + rank % generators)]
        else:
            which = [("send", other) for other in range(trainers) if other % generators == rank - trainers]
        own = 0.5 * MS
        self.work.messages(rank, which, 1 << 20, own, lambda pair: self.cause.transfer(pair, "rollout", own),
                           axis="rollout")

    def weights(self, rank: int):
        for _ in range(self.style.layers):
            self.collective(rank, "rollout", "broadcast", 1 << 24, self.style.forward_ns * 0.02, root=0)

    def play_step(self, rank, step):
        ahead, work = self.style.overlap, self.work
        if rank >= self.trainers:
            work.ranks[rank].trains = False
            work.step(rank, -1)
            self.cause.between(self, rank, "begin")
            if ahead and step:
                self.weights(rank)
            self.generate(rank)
            self.hand_over(rank)
            if not ahead:
                self.weights(rank)
            self.cause.between(self, rank, "end")
            return
        self.start(rank, step)
        self.hand_over(rank)
        self.read(rank)
        if ahead and step + 1 < self.style.steps:
            self.weights(rank)
        self.passes(rank)
        self.update(rank)
        if not ahead:
            self.weights(rank)
        self.finish(rank, step)


FAMILIES: Dict[str, Type[Family]] = {family.name: family for family in (
    Ddp, Fsdp2, Megatron, Interleaved, Moe, Rl)}


def draw(family: Type[Family], layout: Layout, rng: random.Random) -> Style:
    pipeline = issubclass(family, Megatron)
    layers = rng.choice([2, 3] if pipeline else [4, 6])
    chunks = 2 if family is Interleaved else 1
    micro = rng.choice([layout.pp, 2 * layout.pp]) if pipeline else rng.choice(family.micro_batches)
    forward = rng.uniform(6, 20) * MS * (1 if pipeline else 2)
    return Style(
        # The last marker of a step is right behind a wait for the device.
        steps=21 if layout.world > 16 else rng.choice([21, 31, 41]), first=rng.choice([0, 1, 1, 3000]),
        micro_batches=micro, forward_ns=forward, launch_share=rng.uniform(0.15, 0.5), data_ns=rng.uniform(0.3, 2) * MS,
        optimizer_ns=rng.uniform(0.5, 3) * MS, gradients=rng.choice(family.gradients), overlap=rng.random() < 0.6,
        bucket_ns=forward / layers * rng.uniform(0.2, 0.9), sync_every=rng.choice(family.syncs),
        sync_messages=family is not Rl and rng.random() < 0.4, marks=rng.choice(list(NAMES)), layers=layers,
        chunks=chunks, noise=rng.uniform(0.01, 0.04), jitter=rng.choice([0, 0.01, 0.03]),
        even_buckets=rng.random() < 0.5, recompute=family is not Moe and rng.random() < 0.4,
        inline=rng.random() < 0.5)
