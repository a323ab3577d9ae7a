"""One case: a job, what goes wrong in it, when its ranks dump, and how the files are damaged. Its number says it
all."""

import gc
import os
import random
from collections import Counter
from typing import Callable, Dict, List, Optional

import damage
import moments
from engine import MS, S, Engine
from program import COMMUNICATION, Job, Op
from recorders import flight_recorder, titan
from truth import ABSENT, Truth

# Cases are many small objects and hardly a cycle: to look for these took a quarter of the time.
gc.set_threshold(200_000)

OWN = "own:"  # before the name of a class: recorded by titantrace, not by PyTorch


class Retry(Exception):
    """This job has no place for the fault, or the fault did nothing: draw again."""


class Case:
    def __init__(self, label: str, number: int, attempt: int = 0):
        self.label = label
        self.own = label.startswith(OWN)
        self.name = label[len(OWN):] if self.own else label
        self.number = number
        # Seeds of texts do not depend on the process (unlike hash()).
        self.rng = random.Random("%s/%d/%d" % (label, number, attempt))
        self.settings = titan.Settings(self.rng) if self.own else flight_recorder.Settings(self.rng)
        self.job: Optional[Job] = None
        self.job_name = ""
        self.truth: Optional[Truth] = None
        self.steps = 8
        # Called with the engine before it runs, and after.
        self.prepare: List[Callable] = []
        self.dumps: Dict[int, int] = {}
        self.when = "timeout"
        self.apart_ns = 50 * MS
        self.looks_back: List[Callable] = []  # what of the truth depends on the run
        self.after: List[Callable] = []  # damage: called with the case and the directory
        self.engine: Optional[Engine] = None
        self.sound: list = []  # the operations before they were edited
        self.must_hang = True
        self.wrapped = False
        self.may_wrap = 0.3
        self.plan: Optional[Callable] = None  # sets `dumps`, where none of the usual moments is meant
        self.reasons: Dict[int, dict] = {}  # why a rank's dump was made, where it is not the usual reason
        self.is_newer = False
        self.may_be_skipped = False  # of a thread that ended one may say that it skipped what it would have called
        self.until_ns = 3600 * S

    # Choosing places for faults.
    def use(self, *jobs: str) -> Job:
        import jobs as all_jobs
        self.job_name = self.rng.choice(jobs or list(all_jobs.USUAL))
        import newer_jobs
        make = all_jobs.USUAL.get(self.job_name) or newer_jobs.NEWER[self.job_name]
        self.job = make(self.rng, self.steps)
        self.sound = [list(program.ops) for program in self.job.programs]
        return self.job

    def rank(self) -> int:
        return self.rng.randrange(self.job.world)

    def places(self, rank: int, test: Callable[[Op], bool], first_step: int = 2,
               last_step: Optional[int] = None) -> List[int]:
        last = self.steps - 3 if last_step is None else last_step
        return [i for i, op in enumerate(self.job.programs[rank].ops)
                if op.kind in COMMUNICATION and first_step <= op.step <= last and len(op.group.ranks) > 1 and test(op)]

    def place(self, rank: int, test: Callable[[Op], bool] = lambda op: True, **steps) -> int:
        found = self.places(rank, test, **steps)
        if not found:
            raise Retry
        return self.rng.choice(found)

    def ops(self, rank: int) -> List[Op]:
        return self.job.programs[rank].ops

    # Running.
    def run(self):
        self.engine = Engine(self.job, self.rng)
        if self.rng.random() < 0.15:
            self.engine.eager_bytes = 1 << 20  # NCCL's buffers hold a message that nobody has asked for yet
        for setup in self.prepare:
            setup(self.engine)
        self.engine.run(self.until_ns)
        self.when_dumped()
        if self.must_hang and not self.hangs():
            raise Retry
        for look in self.looks_back:
            look(self)

    def hangs(self) -> bool:
        return any(host.inside not in ("done", "exit") for host in self.engine.hosts) or any(
            record.item is not None and record.item.end_ns is None for rows in self.engine.records for record in rows)

    def when_dumped(self):
        engine, rng = self.engine, self.rng
        if self.plan:
            self.plan(self)
        elif self.when == "timeout" and self.own and self.is_newer and not moments.would_time_out(
                engine, self.settings):
            self.when = "by_hand"
            self.dumps = moments.by_hand(engine, rng)
        elif self.when in ("timeout", "by_hand") and self.own:
            self.dumps = moments.own_timeout(engine, self.settings.timeout_ms * MS, self.settings.timing, rng)
            if rng.random() < 0.3:
                self.dumps = {rank: at for rank, at in self.dumps.items() if rank not in engine.dead_ns}
        elif self.when == "launcher":
            self.dumps = moments.after_the_launcher(engine, rng)
        elif self.when == "timeout" and rng.random() < 0.12:
            self.when = "by_hand"
            self.dumps = moments.by_hand(engine, rng, early=True)
        elif self.when == "timeout":
            self.dumps = moments.at_timeout(engine, self.settings.timeout_ms * MS, rng)
        elif self.when == "by_hand":
            self.dumps = moments.by_hand(engine, rng)
        elif self.when == "finished":
            end = engine.now + 100 * MS
            self.dumps = {rank: end + rng.randrange(0, self.apart_ns + 1) for rank in range(self.job.world)
                          if rank not in engine.dead_ns}
        else:
            self.dumps = moments.in_the_middle(engine, rng, self.apart_ns)

    def write(self, directory: str):
        if self.rng.random() < self.may_wrap:
            most = max(len(rows) for rows in self.engine.records)
            self.settings.ring = max(8, int(most * (0.3 + 0.4 * self.rng.random())))
        self.settings.ring = getattr(self, "ring", self.settings.ring)
        if self.settings.ring < 1.3 * self.entries_per_step():
            self.truth.among |= self.truth.among_without_history
        if self.own:
            writer = titan.Writer(self.engine, self.settings, self.rng, self.number)
        else:
            writer = flight_recorder.Writer(self.engine, self.settings, self.rng)
        os.makedirs(directory, exist_ok=True)
        for rank in sorted(self.dumps):
            writer.write(directory, rank, self.dumps[rank], **self.reason(rank))
        self.wrapped = writer.lost > 0
        self.truth.rings_are_small = self.is_newer and self.wrapped
        if self.wrapped and not self.own and not writer.waits:
            self.truth.silent_is_right = True  # what waits is overwritten
        if not self.own and self.rng.random() < 0.08:
            damage.mixed_formats(self, directory, writer)
        for damages in self.after:
            damages(self, directory, writer)

    def reason(self, rank: int) -> dict:
        """Why a dump of titantrace was made, which the dump says."""
        if not self.own:
            return {}
        if rank in self.reasons:
            return self.reasons[rank]
        if self.when != "timeout":
            return {"reason": "signal"}
        first = min(self.dumps, key=self.dumps.get)
        return {"reason": "timeout"} if rank == first else {"reason": "peer", "asked_by": first}

    def entries_per_step(self) -> int:
        return max(max(Counter(record.op.step for record in rows).values(), default=0) for rows in self.engine.records)

    def describe(self) -> dict:
        return {"class": self.label, "number": self.number, "job": self.job_name or self.job.name,
                "ranks": self.job.world,
                "truth": self.truth.describe(), "wrapped": self.wrapped, "dumped": self.when,
                **self.settings.describe(),
                "hosts_inside": {str(h.rank) + ("" if h.thread == "main" else " " + h.thread): h.inside
                                 for h in self.engine.hosts}}


def scale(job: Job, factor: float):
    """The same job with steps `factor` times as long."""
    for program in job.programs + [program for _, program in job.threads]:
        for op in program.ops:
            op.seconds *= factor


def build(name: str, number: int, directory: str) -> Case:
    """Makes the files of a case. The number decides everything."""
    import faults
    for attempt in range(40):
        case = Case(name, number, attempt)
        if case.name in faults.NEWER:
            case.is_newer = True
            case.settings.newer = True
            case.settings.watchdog = case.rng.random() < 0.5
            case.settings.stacks = case.rng.random() < 0.5
            case.settings.legacy_stream = case.rng.random() < 0.4
            case.settings.blocking = case.rng.choice(3 * ["cudaStreamSynchronize"] + ["cudaDeviceSynchronize",
                                                                                      "cudaMemcpy"])
        try:
            faults.BUILDERS[case.name](case)
            case.run()
        except Retry:
            continue
        if case.is_newer:
            case.truth.nobody_skipped = bool(case.truth.causes) and not case.may_be_skipped and all(
                cause.kinds <= ABSENT for cause in case.truth.causes)
        case.write(directory)
        return case
    raise RuntimeError("no job has a place for %s, case %d" % (name, number))
