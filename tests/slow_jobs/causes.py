"""What makes a job slow: each cause adds to the work of a job, and says what is true of it."""
import random
from typing import Dict, List, Optional, Sequence

from layout import PER_HOST, Layout
from training import Style, Training
from work import MS

POWER_LIMIT, HARDWARE_SLOWDOWN, THERMAL, POWER_BRAKE = 0x4, 0x8, 0x40, 0x80  # NVML's bits
DEVICE_CAUSES = {"slow_rank_gpu", "throttled_gpu", "other_process", "slow_link", "last_stage", "uneven_stages",
                 "uneven_sequences", "slow_host", "everyone"}


class Cause:
    """What adds nothing: a healthy job."""
    name = "none"
    can_start_late = False
    loss = (0.08, 0.36)  # of a step, in the steps that have it
    also: Sequence[str] = ()  # classes that the records cannot tell from it
    flavours: Sequence[str] = ("",)

    def __init__(self, rng: random.Random, layout: Layout, style: Style, flavour: str):
        self.rng, self.layout, self.style, self.flavour = rng, layout, style, flavour
        self.step = 0
        self.since: Optional[int] = None
        self.ranks: List[int] = []
        self.hosts: List[int] = []
        self.stage: Optional[int] = None
        self.draw()

    @classmethod
    def fits(cls, layout: Layout, flavour: str) -> bool:
        return True

    def draw(self):
        pass

    def start_late(self):
        self.since = self.rng.randrange(self.style.steps // 3, self.style.steps // 2)

    @property
    def active(self) -> bool:
        return self.since is None or self.step >= self.since

    def noise(self, spread: float) -> float:
        return self.rng.lognormvariate(0, spread)

    # What it adds, in ns; a scale is found later.
    def host(self, rank: int, where: str, ns: float) -> float:
        return 0.0

    def kernel(self, rank: int, micro: int, part: str, ns: float) -> float:
        return 0.0

    def transfer(self, ranks: Sequence[int], axis: str, ns: float) -> float:
        return 0.0

    def shape(self, rank: int) -> float:
        """A factor on kernels that is no part of the cause."""
        return 1.0

    def tokens(self, rank: int) -> float:
        """How much of the others' work its experts get."""
        return 1.0

    def between(self, training: Training, rank: int, where: str):
        pass

    # What else the records hold of it.
    def readings(self, rank: int) -> Dict[str, float]:
        """What readings of the rank's health are with it."""
        return {}

    def processors(self, rank: int) -> dict:
        return {}

    def also_of(self, marks: str) -> List[str]:
        return list(self.also)


class OnRanks(Cause):
    can_start_late = True

    def draw(self):
        self.ranks = [self.rng.randrange(self.layout.world)]


class SlowRankHost(OnRanks):
    name = "slow_rank_host"
    flavours = ("launch", "end")

    def host(self, rank, where, ns):
        if rank not in self.ranks or where != self.flavour or not self.active:
            return 0.0
        return (ns if where == "launch" else 10 * MS) * self.noise(0.1)


class SlowRankGpu(OnRanks):
    name = "slow_rank_gpu"

    def kernel(self, rank, micro, part, ns):
        return 0.3 * ns if rank in self.ranks and self.active else 0.0


class ThrottledGpu(SlowRankGpu):
    name = "throttled_gpu"

    def draw(self):
        super().draw()
        self.limit = self.rng.choice([THERMAL, POWER_BRAKE, HARDWARE_SLOWDOWN])

    def readings(self, rank):
        if rank not in self.ranks:
            return {}
        hot = {"temperature_c": 92} if self.limit == THERMAL else {}
        return {"sm_clock_mhz": 1100, "clock_limits": self.limit, "power_w": 380, **hot}


class OtherProcess(OnRanks):
    """On one GPU, of which it takes turns; or on the processors of one host."""
    name = "other_process"
    flavours = ("gpu", "host")

    @classmethod
    def fits(cls, layout, flavour):
        return flavour == "gpu" or layout.hosts > 1

    def draw(self):
        super().draw()
        if self.flavour == "host":
            self.hosts = [self.rng.randrange(self.layout.hosts)]
            self.ranks = self.layout.host_ranks(self.hosts[0])

    def kernel(self, rank, micro, part, ns):
        taken = self.flavour == "gpu" and rank in self.ranks and self.active and self.rng.random() < 0.6
        return ns * self.rng.uniform(0.3, 1) if taken else 0.0

    def host(self, rank, where, ns):
        taken = self.flavour == "host" and rank in self.ranks and self.active and self.rng.random() < 0.5
        return ns * self.rng.uniform(0.3, 3) if taken else 0.0

    def readings(self, rank):
        if rank not in self.ranks:
            return {}
        if self.flavour == "gpu":
            return {"memory_used_mib": 71000}
        return {"host.cpu_pressure_percent": 74}

    def processors(self, rank):
        if self.flavour == "host" and rank in self.ranks:
            return {"load_1min": 310.5, "load_5min": 190.2, "load_15min": 88.0, "delay_share": 0.35}
        return {}

    def also_of(self, marks):
        return ["slow_rank_gpu"] if self.flavour == "gpu" else ["slow_host"]


class SlowHost(Cause):
    name = "slow_host"
    can_start_late = True
    flavours = ("processors", "gpus")

    @classmethod
    def fits(cls, layout, flavour):
        return layout.hosts > 1

    def draw(self):
        self.hosts = [self.rng.randrange(self.layout.hosts)]
        self.ranks = self.layout.host_ranks(self.hosts[0])
        self.tells_clock = self.rng.random() < 0.5

    def host(self, rank, where, ns):
        return ns if self.flavour == "processors" and rank in self.ranks and self.active else 0.0

    def kernel(self, rank, micro, part, ns):
        return 0.3 * ns if self.flavour == "gpus" and rank in self.ranks and self.active else 0.0

    def readings(self, rank):
        if self.flavour == "processors" and self.tells_clock and rank in self.ranks:
            return {"cpu.clock_mhz": 1200}
        return {}

    def also_of(self, marks):
        stages = {self.layout.stage(rank) for rank in self.ranks}
        if len(stages) == 1 and self.ranks == self.layout.stage_ranks(min(stages)):
            return ["last_stage" if self.layout.pp - 1 in stages else "uneven_stages"]
        return []


class SlowLink(Cause):
    """Between two hosts: what goes over it takes longer; the norm of the gradients, a few bytes, does not."""
    name = "slow_link"
    can_start_late = True

    @classmethod
    def fits(cls, layout, flavour):
        return layout.hosts > 1

    def draw(self):
        layout = self.layout
        over = [(axis, group.hosts) for axis in ("tp", "cp", "dp") for group in layout.groups[axis]]
        over += [("pp", {rank // PER_HOST, layout.neighbour(rank, 1) // PER_HOST}) for rank in range(layout.world)
                 if layout.neighbour(rank, 1) >= 0]
        over = [(axis, hosts) for axis, hosts in over if len(hosts) > 1]
        self.hosts = sorted(self.rng.sample(sorted(self.rng.choice(over)[1]), 2))
        slow = [(axis, hosts) for axis, hosts in over if set(self.hosts) <= hosts]
        # A ring over four hosts is as slow whichever of its links is.
        self.among = set.intersection(*[hosts for _, hosts in slow])
        others = {axis for axis, hosts in over if not set(self.hosts) <= hosts}
        if not others & {axis for axis, _ in slow}:
            self.start_late()  # nothing else of the kind goes between hosts: only time before it tells that it is slow

    def transfer(self, ranks, axis, ns):
        crosses = set(self.hosts) <= {rank // PER_HOST for rank in ranks}
        return 3 * ns * self.noise(0.1) if crosses and axis != "world" and self.active else 0.0


class LastStage(Cause):
    """It has the head of the model, and the loss."""
    name = "last_stage"

    @classmethod
    def fits(cls, layout, flavour):
        return layout.pp > 1

    def draw(self):
        self.stage = self.layout.pp - 1
        self.ranks = self.layout.stage_ranks(self.stage)

    def kernel(self, rank, micro, part, ns):
        return 0.4 * ns if rank in self.ranks and part in ("forward1", "backward0") else 0.0

    def also_of(self, marks):
        hosts = {rank // PER_HOST for rank in self.ranks}
        return ["slow_host"] if len(hosts) == 1 and self.layout.host_ranks(min(hosts)) == self.ranks else []


class UnevenStages(LastStage):
    """One stage, not the last, has more layers than the others."""
    name = "uneven_stages"

    def draw(self):
        self.stage = self.rng.randrange(1, self.layout.pp - 1) if self.layout.pp > 2 else 0
        self.ranks = self.layout.stage_ranks(self.stage)

    def kernel(self, rank, micro, part, ns):
        return 0.3 * ns if rank in self.ranks and part != "optimizer" else 0.0


class UnevenSequences(Cause):
    """Each micro-batch of each replica has its own length, which its forward and its backward share, on all stages."""
    name = "uneven_sequences"

    @classmethod
    def fits(cls, layout, flavour):
        return layout.dp > 1

    def draw(self):
        self.lengths: Dict[tuple, float] = {}

    def kernel(self, rank, micro, part, ns):
        if part == "optimizer":
            return 0.0
        key = (self.step, self.layout.place(rank)[2], micro)
        if key not in self.lengths:
            self.lengths[key] = self.rng.lognormvariate(-0.06, 0.35) - 1
        return ns * self.lengths[key]


class GarbageCollection(Cause):
    """Each rank's collector runs when it has made so many objects: at other steps than those of others."""
    name = "garbage_collection"
    flavours = ("marked", "unmarked")

    def draw(self):
        self.next_at = [self.rng.uniform(0, 9) for _ in range(self.layout.world)]
        self.waits = [0] * self.layout.world  # launches of this step until it comes

    def between(self, training, rank, where):
        if where == "begin":
            self.waits[rank] = self.rng.randrange(1, 4) if self.step >= self.next_at[rank] else 0
        elif where == "launch" and self.waits[rank]:
            self.waits[rank] -= 1
            if not self.waits[rank]:
                self.next_at[rank] = self.step + 10 * self.noise(0.3)
                name = self.style.name("gc") if self.flavour == "marked" else None
                training.work.begin(rank, name)
                training.work.host(rank, 0, 150 * MS * self.noise(0.3))
                training.work.end(rank, name)


class AllocatorChurn(Cause):
    """The cache is fragmented: blocks go back to the driver, each once the device is idle, and are asked for anew."""
    name = "allocator_churn"
    flavours = ("one", "all")

    def draw(self):
        if self.flavour == "one":
            self.ranks = [self.rng.randrange(self.layout.world)]
        self.at = [self.rng.randrange(1, 3) for _ in range(self.layout.world)]
        self.seen = [0] * self.layout.world

    def between(self, training, rank, where):
        if where == "begin":
            self.seen[rank] = 0
        elif where == "launch" and (not self.ranks or rank in self.ranks):
            self.seen[rank] += 1
            if self.seen[rank] == self.at[rank] and self.rng.random() < 0.7:
                for _ in range(self.rng.randrange(2, 5)):
                    training.work.cuda_call(rank, "cudaFree", extra=MS * self.noise(0.4), waits="cause")
                for _ in range(self.rng.randrange(3, 8)):
                    training.work.cuda_call(rank, "cudaMalloc", extra=2 * MS * self.noise(0.4))


class Jit(Cause):
    """Kernels are compiled in the first steps, and again when a batch has a new shape; then they have new names."""
    name = "jit"
    flavours = ("everywhere", "replica")

    @classmethod
    def fits(cls, layout, flavour):
        return flavour == "everywhere" or layout.dp > 1

    def draw(self):
        shapes = self.rng.sample(range(5, self.style.steps - 1), self.rng.randrange(2, 5))
        self.compiles = {0: 8.0, 1: 3.0, **{step: 2.0 for step in shapes}}
        replica = self.rng.randrange(self.layout.dp)
        self.replica = {step: replica if self.flavour == "replica" else None for step in shapes}
        self.done = [-1] * self.layout.world

    def between(self, training, rank, where):
        of = self.replica.get(self.step)
        if (where != "launch" or self.step not in self.compiles or self.done[rank] == self.step
                or (of is not None and self.layout.place(rank)[2] != of)):
            return
        self.done[rank] = self.step
        name = self.style.name("compile")
        training.work.begin(rank, name)
        training.work.host(rank, 0, 100 * MS * self.compiles[self.step] * self.noise(0.05))
        for _ in range(3):
            training.work.cuda_call(rank, "cuModuleLoadData", extra=2 * MS * self.noise(0.2))
        training.work.end(rank, name)
        training.work.ranks[rank].kernels_suffix = "_%d" % self.step


class DataLoading(Cause):
    name = "data_loading"
    flavours = ("rank", "host", "all")

    @classmethod
    def fits(cls, layout, flavour):
        return flavour != "host" or layout.hosts > 1

    def draw(self):
        if self.flavour == "rank":
            self.ranks = [self.rng.randrange(self.layout.world)]
        elif self.flavour == "host":
            self.hosts = [self.rng.randrange(self.layout.hosts)]
            self.ranks = self.layout.host_ranks(self.hosts[0])

    def host(self, rank, where, ns):
        if where != "data" or (self.ranks and rank not in self.ranks):
            return 0.0
        return 20 * MS * self.noise(0.5)

    def also_of(self, marks):
        return [] if marks in ("torchtitan", "user") else [
            {"rank": "slow_rank_host", "host": "slow_host", "all": "everyone"}[self.flavour]]


class Checkpoint(Cause):
    """Every N steps all ranks copy their weights to the host and write them."""
    name = "checkpoint"

    def draw(self):
        self.every = self.rng.choice([5, 8, 10, 12])

    def between(self, training, rank, where):
        if where != "end" or self.step % self.every != self.every - 1:
            return
        work, name = training.work, self.style.name("checkpoint")
        work.begin(rank, name)
        for _ in range(3):
            work.copy(rank, 1 << 30, 0, 10 * MS)
        work.cuda_call(rank, "cudaStreamSynchronize", "compute", waits="cause")
        work.host(rank, 0, 300 * MS * self.noise(0.1))
        work.end(rank, name)


class Everyone(Cause):
    """All at once, from some step on: all clocks go down, or a file system that all share gets slow."""
    name = "everyone"
    flavours = ("clocks", "files")

    def draw(self):
        self.start_late()

    def kernel(self, rank, micro, part, ns):
        return 0.3 * ns if self.flavour == "clocks" and self.active else 0.0

    def host(self, rank, where, ns):
        return 20 * MS * self.noise(0.1) if self.flavour == "files" and where == "end" and self.active else 0.0

    def readings(self, rank):
        return {"sm_clock_mhz": 1200, "power_w": 430} if self.flavour == "clocks" else {}


class Even(Cause):
    name = "even"


class Harmless(Cause):
    """Looks uneven, and costs nothing: without it the job is as fast."""
    name = "harmless"
    loss = (0.0, 0.003)
    flavours = ("short_stage", "hidden_host", "slow_gpu_with_slack", "one_hiccup", "few_collections", "power_limit")
    slack = ("short_stage", "slow_gpu_with_slack")

    @classmethod
    def fits(cls, layout, flavour):
        # Of two stages either is long where the other is short.
        return layout.pp > 2 or flavour not in cls.slack

    def draw(self):
        of = self.layout.stage_ranks(0) if self.flavour in self.slack else range(self.layout.world)
        self.ranks = [self.rng.choice(of)]
        self.when = self.rng.randrange(self.style.steps // 4, self.style.steps - 5)

    def shape(self, rank):
        return 0.88 if self.flavour in self.slack and self.layout.stage(rank) == 0 else 1.0

    def kernel(self, rank, micro, part, ns):
        return 0.1 * ns if self.flavour == "slow_gpu_with_slack" and rank in self.ranks else 0.0

    def host(self, rank, where, ns):
        if self.flavour == "few_collections":
            return 10 * MS if where == "end" and self.rng.random() < 0.003 else 0.0
        if rank not in self.ranks:
            return 0.0
        if self.flavour == "one_hiccup":
            return 30 * MS if self.step == self.when and where == "end" else 0.0
        return 0.6 * ns if self.flavour == "hidden_host" and where == "launch" else 0.0

    def readings(self, rank):
        """At its power limit a GPU is well."""
        if self.flavour != "power_limit":
            return {}
        return {"clock_limits": POWER_LIMIT, "power_w": 699, "sm_clock_mhz": 1755 if rank % 3 else 1650}


ALL = {cause.name: cause for cause in (
    SlowRankHost, SlowRankGpu, ThrottledGpu, OtherProcess, SlowHost, SlowLink, LastStage, UnevenStages,
    UnevenSequences, GarbageCollection, AllocatorChurn, Jit, DataLoading, Checkpoint, Everyone, Even, Harmless)}
HEALTHY = ("even", "harmless")
TRANSIENT = ("slow_rank_host", "slow_rank_gpu", "throttled_gpu", "other_process", "slow_host", "slow_link")
NAMES = list(ALL) + ["transient"]
