"""GPUs and networks that do not finish what all have called."""

from case import Case
from faults.table import fault, is_call
from program import Op
from truth import STUCK, Cause, hang


def gpu_hangs(case: Case, timing: bool):
    case.use("ddp", "fsdp", "hsdp", "moe")
    case.settings.timing = timing
    rank = case.rank()
    place = case.place(rank, is_call)
    group = case.ops(rank)[place].group
    case.ops(rank).insert(place, Op("gpu_hang"))
    return rank, group


@fault
def gpu_hangs_timed(case: Case):
    rank, group = gpu_hangs(case, True)
    case.truth = hang({"gpu_queue_blocked"}, [rank])
    if not case.own and case.settings.retires_pending:
        # What the watchdog has given up is not asked again at the dump.
        case.truth.weaker.append(Cause(STUCK, group.ranks))


@fault
def gpu_hangs_untimed(case: Case):
    """Nothing is recorded of starts: one GPU that does not come looks like a network that does not carry."""
    rank, group = gpu_hangs(case, False)
    case.truth = hang(STUCK, [rank], among=case.job.default.ranks,
                      note="among the members of the group, none can be told from the others")


def frozen(case: Case, member=None):
    case.use("ddp", "fsdp", "hsdp", "moe", "coalesced")
    rank = case.rank()
    place = case.place(rank, lambda op: op.messages is None)
    group = case.ops(rank)[place].group
    nth = sum(op.group is group and op.kind in ("call", "coalesced") for op in case.ops(rank)[:place])
    who = case.rng.choice(group.ranks) if member else None
    case.prepare.append(lambda engine: setattr(engine, "frozen", (group.name, nth)))
    case.prepare.append(lambda engine: setattr(engine, "frozen_member", who))
    return group, who


def unseen(case: Case):
    """Nothing of titantrace tells of a GPU that nobody watches but hosts that wait for it: any call since may be the
    one."""
    if case.own and not case.settings.timing:
        case.truth.among = set(case.job.default.ranks)
        case.truth.note = "hosts wait for their GPUs; in which call, and who does not finish it, is not recorded"


@fault
def network_stuck(case: Case):
    group, _ = frozen(case)
    case.truth = hang({"stuck_in_flight"}, group.ranks)
    unseen(case)
    case.truth.any_member = case.own  # an all_to_all is messages there: one of them may stand for all


@fault
def stuck_on_one_member(case: Case):
    group, who = frozen(case, True)
    case.truth = hang(STUCK, [who])
    unseen(case)


@fault
def message_stuck(case: Case):
    """A send and its receive have both been called, and nothing moves between the two."""
    case.use("megatron", "megatron_deep", "interleaved")
    rank = case.rank()
    place = case.place(rank, lambda op: op.messages is not None)
    other = case.ops(rank)[place].messages[0][1]
    step = case.ops(rank)[place].step
    case.prepare.append(lambda engine: setattr(engine, "cut", (rank, other, step)))
    case.truth = hang({"stuck_in_flight"}, [rank, other], weaker=[Cause(STUCK, [rank]), Cause(STUCK, [other])])
    unseen(case)
