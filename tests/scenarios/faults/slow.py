"""Slow, not hung."""

from typing import Dict

from case import Case
from engine import MS, S
from faults.table import fault
from program import Op
from truth import ABSENT, SLOW, SLOW_RANK, Cause, Truth


def straggles(case: Case, name: str):
    case.steps = 30
    case.use("ddp", "fsdp", "hsdp")
    case.must_hang = False
    case.when = "finished"
    case.settings.timing = True
    case.settings.method = 2
    rank = case.rank()
    case.prepare.append(lambda engine: getattr(engine, name).__setitem__(rank, 5.0 if name == "host_factor" else 1.6))
    case.may_wrap = 0
    case.truth = Truth("slow", [Cause(SLOW_RANK, [rank])])


@fault
def straggler_host(case: Case):
    straggles(case, "host_factor")


@fault
def straggler_timed(case: Case):
    straggles(case, "gpu_factor")


@fault
def slow_but_not_hung(case: Case):
    """A rank saves a checkpoint for 30 s while the others wait, and somebody asks for dumps."""
    case.use()
    rank = case.rank()
    place = case.place(rank)
    case.ops(rank).insert(place, Op("host", seconds=30.0, what="python"))
    case.must_hang = False
    case.truth = Truth("slow", weaker=[Cause(ABSENT | SLOW, [rank])], silent_is_right=True,
                       note="it is in its code for 30 s, and comes")
    case.when = "finished"
    case.prepare.append(lambda engine: None)
    case.when_dumped = lambda: case.dumps.update(_while_waiting(case, rank))


def _while_waiting(case: Case, rank: int) -> Dict[int, int]:
    rows = case.engine.records[rank]
    gap = max(range(1, len(rows)), key=lambda i: rows[i].created_ns - rows[i - 1].created_ns)
    start = rows[gap - 1].created_ns
    moment = start + case.rng.randrange(5, 25) * S
    return {r: moment + case.rng.randrange(0, 400 * MS) for r in range(case.job.world)}
