"""What makes the programs of families.py slow, as strong as in the field: nothing is scaled to a wanted cost. Each
fault has random numbers of its own, so that a job can be played anew without it."""
import random
from typing import Callable, List, Optional, Sequence, Type

from causes import Cause
from layout import PER_HOST, Layout
from training import Style, Training
from work import MS

GPU, CPU, LINK, PAUSES = "slow_rank_gpu", "slow_rank_host", "slow_link", "pauses"


class Fault(Cause):
    """`classes`: what an analyzer may call it, `vague`: also that, where no span tells what the host does."""
    name = "none"
    classes: Sequence[str] = ()
    vague: Sequence[str] = ()
    one_rank = True
    seed = ""  # of its random numbers
    suits: Callable[[Layout, str, str], bool] = staticmethod(lambda layout, flavour, family: True)

    def __init__(self, rng: random.Random, layout: Layout, style: Style, flavour: str, family: str):
        self.family = family
        self.among: List[int] = []  # who may be named beside `ranks`
        self.any_of: List[int] = []  # where it has none: one of these at least, or all of `among`
        self.muted = False
        super().__init__(rng, layout, style, flavour)
        self.among = self.among or self.ranks

    def draw(self):
        if self.one_rank:
            self.ranks = [self.rng.randrange(self.layout.world)]
        self.set_out()

    def set_out(self):
        pass

    def start_late(self):
        """Right behind a step at whose end the host waits: from there on steps are those of the device, too."""
        every = self.style.sync_every
        self.since = self.rng.randrange(self.style.steps // 3, self.style.steps // 2) // every * every

    def hits(self, rank: int) -> bool:
        return not self.muted and rank in self.ranks and self.active

    def also_of(self, marks):
        return [*self.classes, *(self.vague if marks in ("none", "steps") else ())]


class SlowGpu(Fault):
    name = "slow_gpu"
    classes = (GPU, "throttled_gpu")
    flavours = ("x1.05", "x1.2", "x1.2", "x2", "since", "on_off")

    def set_out(self):
        self.factor = {"x1.05": 0.05, "x2": 1.0}.get(self.flavour, 0.2)
        if self.flavour == "since":
            self.start_late()

    def kernel(self, rank, micro, part, ns):
        off = self.flavour == "on_off" and self.step % 8 >= 4
        return self.factor * ns if self.hits(rank) and not off else 0.0

    def also_of(self, marks):
        alone = self.layout.pp > 1 and len(self.layout.stage_ranks(0)) == 1
        return [*self.classes, *(["last_stage", "uneven_stages"] if alone else [])]


class SlowHostGpus(Fault):
    name = "slow_host"
    classes = ("slow_host",)
    one_rank = False
    suits = staticmethod(lambda layout, flavour, family: layout.hosts > 1)

    def set_out(self):
        self.hosts = [self.rng.randrange(self.layout.hosts)]
        self.ranks = self.layout.host_ranks(self.hosts[0])

    def kernel(self, rank, micro, part, ns):
        return 0.2 * ns if self.hits(rank) else 0.0

    def also_of(self, marks):
        whole = {self.layout.stage(rank) for rank in self.ranks}
        alone = self.layout.pp > 1 and self.ranks == self.layout.stage_ranks(min(whole))
        return [*self.classes, *(["last_stage", "uneven_stages"] if alone else [])]


class Loader(Fault):
    """One rank's loader stalls now and then."""
    name = "loader"
    classes = ("data_loading",)
    vague = (CPU, PAUSES)
    suits = staticmethod(lambda layout, flavour, family: family != "rl")

    def host(self, rank, where, ns):
        stalls = self.rng.random() < 0.25
        return 150 * MS * self.noise(0.5) if where in ("data", "sample") and self.hits(rank) and stalls else 0.0


class Collections(Fault):
    """Python's collector stops a rank for some hundred milliseconds, each rank at its own time."""
    name = "gc"
    classes = ("garbage_collection",)
    flavours = ("one", "all")

    def set_out(self):
        self.ranks = self.ranks if self.flavour == "one" else []
        self.due = [self.rng.uniform(2, 9) for _ in range(self.layout.world)]

    def between(self, training, rank, where):
        if where == "launch" and self.step >= self.due[rank] and (not self.ranks or rank in self.ranks):
            if self.rng.random() < 0.8:
                return  # it may come at any launch
            self.due[rank] = self.step + self.rng.uniform(5, 9)
            took = 180 * MS * self.noise(0.3)
            if not self.muted:
                training.work.begin(rank, self.style.name("gc"))
                training.work.host(rank, 0, took)
                training.work.end(rank, self.style.name("gc"))

    def also_of(self, marks):
        told = self.flavour == "all" or marks not in ("none", "steps")
        return ["garbage_collection", *([] if told else [CPU, PAUSES])]


class SlowCpu(Fault):
    name = "slow_cpu"
    classes = (CPU, "other_process")
    flavours = ("x2", "x4")

    def host(self, rank, where, ns):
        return ns * (int(self.flavour[1:]) - 1) if self.hits(rank) else 0.0


class Checkpoint(Fault):
    """The host copies its weights and writes them; the others meet it at their next collective."""
    name = "checkpoint"
    classes = ("checkpoint",)
    flavours = ("rank0", "all")
    suits = staticmethod(lambda layout, flavour, family: family != "rl" or flavour == "rank0")

    def set_out(self):
        self.ranks = [0] if self.flavour == "rank0" else []
        self.every = self.rng.choice([5, 8, 10])

    def between(self, training, rank, where):
        if where != "end" or self.step % self.every != self.every - 1 or (self.ranks and rank not in self.ranks):
            return
        took = 400 * MS * self.noise(0.1)
        if not self.muted:
            work, name = training.work, self.style.name("checkpoint")
            work.begin(rank, name)
            for _ in range(3):
                work.copy(rank, 1 << 30, 0, 8 * MS)
            work.cuda_call(rank, "cudaStreamSynchronize", "compute", waits="cause")
            work.host(rank, 0, took)
            work.end(rank, name)

    def also_of(self, marks):
        vague = marks in ("none", "steps")
        return ["checkpoint", *([] if not vague else [CPU, PAUSES] if self.ranks else ["everyone", PAUSES])]


class Recompile(Fault):
    """Three shapes that were not met before, at no period: the host compiles, loads, and goes on."""
    name = "recompile"
    classes = ("jit",)
    flavours = ("one", "all")

    def set_out(self):
        self.ranks = self.ranks if self.flavour == "one" else []
        self.at = sorted(self.rng.sample(range(3, self.style.steps - 2), 3))
        self.done = [-1] * self.layout.world

    def between(self, training, rank, where):
        if (where != "launch" or self.step not in self.at or self.done[rank] == self.step
                or (self.ranks and rank not in self.ranks)):
            return
        self.done[rank] = self.step
        took = 700 * MS * self.noise(0.1)
        if not self.muted:
            training.work.begin(rank, self.style.name("compile"))
            training.work.host(rank, 0, took)
            for _ in range(3):
                training.work.cuda_call(rank, "cuModuleLoadData", extra=2 * MS)
            training.work.end(rank, self.style.name("compile"))
            training.work.ranks[rank].kernels_suffix = "_%d" % self.step


class MallocStorm(Fault):
    """The cache of the allocator is fragmented: cudaFree waits for the device, cudaMalloc takes long."""
    name = "malloc_storm"
    classes = ("allocator_churn",)
    flavours = ("one", "all")

    def set_out(self):
        self.ranks = self.ranks if self.flavour == "one" else []
        self.seen = {}

    def between(self, training, rank, where):
        key = (rank, self.step)
        self.seen[key] = self.seen.get(key, 0) + (where == "launch")
        if where != "launch" or self.seen[key] != 3 or (self.ranks and rank not in self.ranks):
            return
        took = [1.5 * MS * self.noise(0.4) for _ in range(8)]
        for i, ns in enumerate([] if self.muted else took):
            free = i < 3
            training.work.cuda_call(rank, "cudaFree" if free else "cudaMalloc", extra=ns,
                                    waits="cause" if free else "no")


class SlowCommunicator(Fault):
    """One communicator of its kind, among others; or the only one, from some step on."""
    name = "slow_communicator"
    classes = (LINK, "slow_host")
    flavours = ("tp", "dp")
    one_rank = False
    suits = staticmethod(lambda layout, flavour, family: bool(layout.groups[flavour]))

    def set_out(self):
        groups = self.layout.groups[self.flavour]
        self.group = self.rng.choice(groups)
        self.among = list(self.group.ranks)
        if len(groups) == 1:
            self.start_late()

    def transfer(self, ranks, axis, ns):
        hit = axis == self.flavour and set(ranks) == set(self.group.ranks) and not self.muted and self.active
        return 3 * ns if hit else 0.0


class SlowPair(Fault):
    """What two neighbours of a pipeline send each other is slow, both ways."""
    name = "slow_pair"
    classes = (LINK,)
    one_rank = False
    suits = staticmethod(lambda layout, flavour, family: layout.pp > 2)

    def set_out(self):
        first = self.rng.choice([rank for rank in range(self.layout.world) if self.layout.neighbour(rank, 1) >= 0])
        self.among = self.any_of = [first, self.layout.neighbour(first, 1)]

    def transfer(self, ranks, axis, ns):
        return 8 * ns if axis == "pp" and set(ranks) == set(self.among) and not self.muted else 0.0


class SlowNic(Fault):
    """All that one rank exchanges with the other experts' ranks takes longer, and so the whole all_to_all."""
    name = "slow_nic"
    classes = (LINK, GPU, "slow_host")
    suits = staticmethod(lambda layout, flavour, family: family == "moe")

    def set_out(self):
        group = self.layout.group_of[self.ranks[0]]["ep"]
        self.among = list(group.ranks)
        self.nic, self.any_of, self.ranks = self.ranks[0], self.ranks, []  # which of them, hardly a record can tell
        if len(self.layout.groups["ep"]) == 1:
            self.start_late()

    def transfer(self, ranks, axis, ns):
        return 1.5 * ns if axis == "ep" and self.nic in ranks and not self.muted and self.active else 0.0


class LastStage(Fault):
    name = "last_stage"
    classes = ("last_stage",)
    one_rank = False
    suits = staticmethod(lambda layout, flavour, family: layout.pp > 1)

    def set_out(self):
        self.stage = self.layout.pp - 1
        self.ranks = self.layout.stage_ranks(self.stage)

    def kernel(self, rank, micro, part, ns):
        return 0.5 * ns if self.hits(rank) and part != "optimizer" else 0.0

    def also_of(self, marks):
        hosts = {rank // PER_HOST for rank in self.ranks}
        whole = len(hosts) == 1 and self.layout.host_ranks(min(hosts)) == self.ranks
        return ["last_stage", *([GPU] if len(self.ranks) == 1 else []), *(["slow_host"] if whole else [])]


class HotExpert(Fault):
    """The router likes one rank's experts: they get, and compute, more."""
    name = "hot_expert"
    classes = (GPU, "uneven_sequences", "uneven_experts", "hot_expert")
    suits = staticmethod(lambda layout, flavour, family: family == "moe")

    def kernel(self, rank, micro, part, ns):
        return 0.8 * ns if part == "expert" and self.hits(rank) else 0.0

    def tokens(self, rank):
        return 1.8 if self.hits(rank) else 1.0


class LongGeneration(Fault):
    """Answers get longer: all, from some step on, or those of one engine, always."""
    name = "long_generation"
    classes = (GPU, CPU, "slow_host", "everyone", "uneven_sequences", "uneven_stages", "last_stage", "other_job")
    flavours = ("all", "one")
    one_rank = False
    suits = staticmethod(lambda layout, flavour, family: family == "rl")

    def set_out(self):
        trainers = len(self.layout.groups["dp"][0].ranks)
        ranks = list(range(trainers, self.layout.world))
        if self.flavour == "one":
            group = self.layout.group_of[self.rng.choice(ranks)].get("engine")
            ranks = list(group.ranks) if group else [self.rng.choice(ranks)]
        else:
            self.start_late()
        self.longer = self.among = self.any_of = ranks

    def kernel(self, rank, micro, part, ns):
        return 0.8 * ns if part == "generate" and rank in self.longer and self.active and not self.muted else 0.0


class UnevenLengths(Fault):
    """Each micro-batch of each replica has its own length; in the mean they are as long as without it."""
    name = "uneven_lengths"
    classes = ("uneven_sequences",)
    one_rank = False
    suits = staticmethod(lambda layout, flavour, family: layout.dp > 1 and family not in ("moe", "rl"))

    def set_out(self):
        self.lengths = {}

    def kernel(self, rank, micro, part, ns):
        if part in ("optimizer", "copy"):
            return 0.0
        key = (self.step, self.layout.place(rank)[2], micro)
        if key not in self.lengths:
            self.lengths[key] = self.rng.lognormvariate(-0.06, 0.35) - 1
        return 0.0 if self.muted else ns * self.lengths[key]


class Both(Fault):
    """Two faults at once."""
    name = "two"
    one_rank = False

    def join(self, first: Fault, second: Fault) -> "Both":
        self.parts = [first, second]
        return self

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "step":
            for part in self.__dict__.get("parts", ()):
                part.step = value

    def host(self, rank, where, ns):
        return sum(part.host(rank, where, ns) for part in self.parts)

    def kernel(self, rank, micro, part, ns):
        return sum(one.kernel(rank, micro, part, ns) for one in self.parts)

    def transfer(self, ranks, axis, ns):
        return sum(part.transfer(ranks, axis, ns) for part in self.parts)

    def tokens(self, rank):
        return max(part.tokens(rank) for part in self.parts)

    def between(self, training: Training, rank, where):
        for part in self.parts:
            part.between(training, rank, where)


FAULTS: Sequence[Type[Fault]] = (
    SlowGpu, SlowGpu, SlowHostGpus, Loader, Collections, SlowCpu, Checkpoint, Recompile, MallocStorm, SlowCommunicator,
    SlowPair, SlowNic, LastStage, HotExpert, LongGeneration, UnevenLengths)


def draw(seed: str, layout: Layout, style: Style, family: str, kind: Optional[str] = None) -> Fault:
    """A fault that the seed, the program and nothing else decide."""
    rng = random.Random("fault/" + seed)
    fitting = [(fault, flavour) for fault in FAULTS for flavour in fault.flavours
               if fault.suits(layout, flavour, family) and kind in (None, fault.name)]
    if not fitting:
        raise ValueError("%s: no %s in %s" % (seed, kind, layout.describe()))
    # Those of one family alone would be rare.
    name = rng.choice(sorted({fault.name for fault, _ in fitting}) + ["slow_gpu"] * (kind is None))
    fault, flavour = rng.choice([one for one in fitting if one[0].name == name])
    found = fault(random.Random("drawn/" + seed), layout, style, flavour, family)
    found.seed = "drawn/" + seed
    return found


def healthy(layout: Layout, style: Style, family: str) -> Fault:
    class Healthy(Fault):
        one_rank = False
    return Healthy(random.Random(0), layout, style, "", family)
