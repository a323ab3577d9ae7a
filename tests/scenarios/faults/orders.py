"""Calls of several groups in orders that wait for each other."""

from typing import List

from case import Case, Retry
from faults.table import fault, is_call
from truth import ABSENT, CYCLE, MISMATCH, Cause, Truth, hang


def neighbours(case: Case, rank: int, first_step: int = 2) -> List[tuple]:
    """Pairs of calls on two groups, one right after the other in the program."""
    ops = case.ops(rank)
    found = case.places(rank, is_call, first_step=first_step)
    return [(i, j) for i, j in zip(found, found[1:])
            if ops[i].group is not ops[j].group and ops[i].step == ops[j].step
            and not any(op.kind == "sync" for op in ops[i:j])]


def swap(case: Case, rank: int, pair, waits: bool = True):
    ops = case.ops(rank)
    i, j = pair
    first, second = ops[i], ops[j]
    ops[i], ops[j] = second.copy(wait=waits or second.wait), first.copy(wait=waits or first.wait)


@fault
def two_groups_in_other_order(case: Case):
    case.use("hsdp", "megatron", "moe", "megatron_deep")
    rank = case.rank()
    pairs = neighbours(case, rank)
    if not pairs:
        raise Retry
    swap(case, rank, case.rng.choice(pairs))
    case.truth = hang(CYCLE | ABSENT | MISMATCH, [rank])


@fault
def two_groups_in_other_order_each_step(case: Case):
    """Always in the other order, which went well as long as both kernels fit onto the GPU."""
    case.use("hsdp", "megatron", "moe")
    rank = case.rank()
    at = case.rng.randrange(3, case.steps - 2)
    pairs = neighbours(case, rank, first_step=0)
    if not pairs:
        raise Retry
    for group in case.job.groups.values():
        group.eager = True  # lazily made, they would wait for each other in the first step
    first, second = case.rng.choice(pairs)
    site = (case.ops(rank)[first].site, case.ops(rank)[second].site)
    for i, j in pairs:
        ops = case.ops(rank)
        if (ops[i].site, ops[j].site) == site:
            waits = ops[i].step == at
            swap(case, rank, (i, j), waits)
            if not waits:
                ops[i].wait = ops[j].wait = False
    case.truth = hang(CYCLE | ABSENT | MISMATCH, [rank])


@fault
def order_by_halves(case: Case):
    case.use("hsdp", "moe")
    group_pairs = neighbours(case, 0)
    if not group_pairs:
        raise Retry
    pair = case.rng.choice(group_pairs)
    half = [rank for rank in range(case.job.world) if rank % 2]
    for rank in half:
        if pair not in neighbours(case, rank):
            raise Retry
        swap(case, rank, pair)
    case.truth = Truth("hang", [Cause(CYCLE | ABSENT | MISMATCH, range(case.job.world))], among=range(case.job.world),
                       note="nothing tells which half is right")
    case.truth.causes[0].ranks = set()
