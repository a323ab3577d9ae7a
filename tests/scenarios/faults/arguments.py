"""Calls that differ between members: operation, size, type, group."""

from typing import Callable, List

from case import Case, Retry
from faults.table import GRIDS, SHIFTED, fault, is_call, pair_may_be_either, wide
from program import COMMUNICATION
from truth import ABSENT, MISMATCH, Cause, Truth, hang


OTHER_NAMES = {"all_reduce": "broadcast", "_all_gather_base": "all_reduce", "_reduce_scatter_base": "all_reduce",
               "broadcast": "all_reduce", "all_to_all": "all_reduce", "all_gather": "all_reduce"}


def differ(case: Case, how: str, ranks: List[int], place_of: Callable[[int], int]):
    for rank in ranks:
        ops = case.ops(rank)
        place = place_of(rank)
        op = ops[place]
        if how == "op":
            ops[place] = op.copy(name=OTHER_NAMES[op.name], inputs=op.inputs, outputs=op.inputs)
        elif how == "size":
            ops[place] = op.copy(inputs=[[dims[0] * 2] + dims[1:] for dims in op.inputs],
                                 outputs=[[dims[0] * 2] + dims[1:] for dims in op.outputs])
        else:
            ops[place] = op.copy(dtype="Half" if op.dtype != "Half" else "Float")


def wrong_arguments(case: Case, how: str, survived: bool):
    case.use("ddp", "fsdp", "hsdp", "rollout") if how != "op" else case.use("ddp", "fsdp", "hsdp", "moe", "rollout")
    rank = case.rank()
    place = case.place(rank, lambda op: is_call(op) and wide(op) and (how == "op" or op.name != "all_to_all"))
    name = case.ops(rank)[place].name
    differ(case, how, [rank], lambda _: place)
    # NCCL has no all_to_all: it is sends and receives, which the others wait for.
    case.truth = hang({how + "_mismatch"} | (ABSENT if case.own and name == "all_to_all" else set()), [rank])
    if survived:
        case.prepare.append(lambda engine: setattr(engine, "survives_mismatch", True))
        case.must_hang = False
        case.when = "finished"
        case.may_wrap = 0
        case.truth.outcome = "mismatch"


@fault
def wrong_op(case: Case):
    wrong_arguments(case, "op", False)


@fault
def wrong_size(case: Case):
    wrong_arguments(case, "size", False)


@fault
def wrong_dtype(case: Case):
    wrong_arguments(case, "dtype", False)


@fault
def wrong_size_survived(case: Case):
    wrong_arguments(case, "size", True)


@fault
def wrong_dtype_survived(case: Case):
    wrong_arguments(case, "dtype", True)


@fault
def wrong_in_a_pair(case: Case):
    case.use("megatron", "megatron_deep", "hsdp")
    rank = case.rank()
    place = case.place(rank, lambda op: is_call(op) and len(op.group.ranks) == 2)
    how = case.rng.choice(["op", "size", "dtype"])
    op = case.ops(rank)[place]
    differ(case, how, [rank], lambda _: place)
    case.truth = hang({how + "_mismatch"}, [rank], among=op.group.ranks)


def same_call(case: Case, rank: int, place: int) -> Callable[[int], int]:
    """Where other members make the call that `rank` makes at `place`."""
    group = case.ops(rank)[place].group
    nth = sum(op.group is group and op.kind in COMMUNICATION for op in case.ops(rank)[:place])

    def where(other: int) -> int:
        seen = [i for i, op in enumerate(case.ops(other)) if op.kind in COMMUNICATION and op.group is group]
        return seen[nth]
    return where


@fault
def half_against_half(case: Case):
    case.use("ddp", "fsdp", "hsdp")
    rank = case.rank()
    place = case.place(rank, lambda op: is_call(op) and len(op.group.ranks) % 2 == 0)
    group = case.ops(rank)[place].group
    half = sorted(case.rng.sample(group.ranks, len(group.ranks) // 2))
    how = case.rng.choice(["op", "size", "dtype"])
    differ(case, how, half, same_call(case, rank, place))
    rest = [r for r in group.ranks if r not in half]
    case.truth = Truth("hang", [Cause({how + "_mismatch"}, group.ranks)],
                       weaker=[Cause({how + "_mismatch"}, half), Cause({how + "_mismatch"}, rest)])


@fault
def ran_out_of_data(case: Case):
    """One rank's loop ends early; it goes on to what comes after training."""
    case.use("ddp", "fsdp", "hsdp", "moe")
    rank = case.rank()
    last = case.rng.randrange(3, case.steps - 2)
    case.job.programs[rank].ops = [op for op in case.ops(rank) if op.step < last]
    if case.rng.random() < 0.5:
        case.job.programs[rank].call(case.job.default, "all_gather", 16, "Long", site=("gather_metrics", 380))
        case.job.programs[rank].sync()
    case.truth = hang(ABSENT | MISMATCH, [rank])


@fault
def call_on_another_group(case: Case):
    case.use(*GRIDS)
    rank = case.rank()
    place = case.place(rank, is_call)
    op = case.ops(rank)[place]
    others = [g for g in case.job.groups.values() if rank in g.place and g is not op.group and len(g.ranks) > 1]
    if not others:
        raise Retry
    case.ops(rank)[place] = op.copy(group=case.rng.choice(others))
    case.truth = hang(SHIFTED, [rank], among=pair_may_be_either(case, op))
