"""A call more or less than the others make."""

import jobs
from case import Case, Retry
from faults.table import SHIFTED, fault, is_call, pair_may_be_either
from truth import MISMATCH, STUCK, hang


@fault
def call_left_out(case: Case):
    case.use("ddp", "fsdp", "hsdp", "moe", "megatron", "rollout")
    rank = case.rank()
    place = case.place(rank, is_call)
    op = case.ops(rank).pop(place)
    case.truth = hang(SHIFTED, [rank], among=pair_may_be_either(case, op))


@fault
def call_left_out_two_groups(case: Case):
    """A branch that only one rank does not take holds a call on each of two groups."""
    case.use("hsdp", "megatron", "moe")
    rank = case.rank()
    ops = case.ops(rank)
    pairs = [(i, j) for i, j in zip(case.places(rank, is_call), case.places(rank, is_call)[1:])
             if ops[i].group is not ops[j].group and ops[i].step == ops[j].step]
    if not pairs:
        raise Retry
    first, second = case.rng.choice(pairs)
    among = set(pair_may_be_either(case, ops[first])) | set(pair_may_be_either(case, ops[second]))
    del ops[second], ops[first]
    case.truth = hang(SHIFTED, [rank], among=among)


@fault
def stage_leaves_a_call_out(case: Case):
    case.job = jobs.megatron(case.rng, case.rng.choice([1, 2]), 4, case.rng.choice([1, 2]), steps=case.steps)
    case.job_name = "megatron_deep"
    ranks_of_stage = case.job.world // 4
    stage = case.rng.randrange(4)
    ranks = list(range(stage * ranks_of_stage, (stage + 1) * ranks_of_stage))
    step = case.rng.randrange(1, (case.steps - 2) // 2) * 2 + 1
    for rank in ranks:
        ops = case.ops(rank)
        place = next(i for i, op in enumerate(ops) if op.step == step and op.site == ("training_log", 203))
        del ops[place]
    case.truth = hang(SHIFTED, ranks)


@fault
def extra_call(case: Case):
    case.use("ddp", "fsdp", "hsdp", "moe", "megatron")
    rank = case.rank()
    place = case.place(rank, is_call)
    op = case.ops(rank)[place]
    case.ops(rank).insert(place, op.copy(tag=None))
    case.truth = hang(SHIFTED | STUCK, [rank], among=pair_may_be_either(case, op))


@fault
def coalesced_part_left_out(case: Case):
    case.use("coalesced")
    rank = case.rank()
    place = case.place(rank, lambda op: op.kind == "coalesced")
    op = case.ops(rank)[place]
    case.ops(rank)[place] = op.copy(parts=op.parts[:-1] if case.rng.random() < 0.5 else op.parts[1:])
    case.truth = hang(MISMATCH, [rank])
