"""Several communicators of the same ranks, and of the same two ranks."""

from case import Case, Retry
from faults.fine import fine
from faults.hosts import stop
from faults.orders import swap
from faults.table import SHIFTED, is_call, newer, pair_may_be_either
from truth import ABSENT, CYCLE, MISMATCH, STUCK, Cause, hang


def sibling(case: Case, op):
    """Another communicator of the same ranks that the rank has used before."""
    found = [group for group in case.job.groups.values() if group is not op.group and group.ranks == op.group.ranks]
    if not found:
        raise Retry
    return case.rng.choice(found)


@newer()
def one_stuck_with_siblings(case: Case):
    case.use("siblings")
    rank = case.rank()
    stop(case, rank, case.place(rank))
    case.truth = hang(ABSENT, [rank])


@newer()
def call_on_the_sibling(case: Case):
    """A collective on the other communicator of the same ranks."""
    case.use("siblings")
    rank = case.rank()
    place = case.place(rank, lambda op: is_call(op) and len(op.group.ranks) == 4)
    op = case.ops(rank)[place]
    case.ops(rank)[place] = op.copy(group=sibling(case, op))
    case.truth = hang(SHIFTED, [rank])


@newer()
def message_on_the_sibling(case: Case):
    """A send or receive on the pair's other communicator. Of two ranks nothing tells which of them is right, but that
    all steps before went the other way."""
    case.use("siblings")
    rank = case.rank()
    place = case.place(rank, lambda op: op.messages is not None)
    op = case.ops(rank)[place]
    case.ops(rank)[place] = op.copy(group=sibling(case, op))
    case.truth = hang(SHIFTED, [rank], among_without_history=op.group.ranks)


@newer()
def call_left_out_beside_a_sibling(case: Case):
    case.use("siblings")
    rank = case.rank()
    op = case.ops(rank).pop(case.place(rank, is_call))
    case.truth = hang(SHIFTED, [rank], among=pair_may_be_either(case, op))


@newer()
def message_left_out_beside_a_sibling(case: Case):
    case.use("siblings")
    rank = case.rank()
    op = case.ops(rank).pop(case.place(rank, lambda op: op.messages is not None))
    case.truth = hang(SHIFTED, [rank], among_without_history=op.group.ranks)


@newer()
def siblings_in_another_order(case: Case):
    """Two calls of two communicators of the same ranks, swapped on one of them."""
    case.use("siblings")
    rank = case.rank()
    ops = case.ops(rank)
    found = case.places(rank, lambda op: is_call(op) and len(op.group.ranks) == 4)
    pairs = [(i, j) for i, j in zip(found, found[1:])
             if ops[i].group is not ops[j].group and ops[i].step == ops[j].step]
    swap(case, rank, case.rng.choice(pairs))
    case.truth = hang(CYCLE | ABSENT | MISMATCH, [rank])


@newer()
def network_stuck_on_a_sibling(case: Case):
    case.use("siblings")
    rank = case.rank()
    place = case.place(rank, lambda op: op.messages is None)
    group = case.ops(rank)[place].group
    nth = sum(op.group is group and op.kind == "call" for op in case.ops(rank)[:place])
    case.prepare.append(lambda engine: setattr(engine, "frozen", (group.name, nth)))
    case.truth = hang({"stuck_in_flight"}, group.ranks, weaker=[Cause(STUCK, [r]) for r in group.ranks])
    if case.own and not case.settings.timing:
        case.truth.among = set(range(8))


@newer()
def healthy_siblings(case: Case):
    fine(case, "siblings", when=case.rng.choice(["middle", "finished"]))
