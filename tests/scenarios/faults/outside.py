"""Ranks that wait for each other, or for a file, outside NCCL. Where they stand only stacks tell."""

import newer_jobs
from case import Case, Retry
from engine import MS, S
from faults.fine import fine
from faults.hosts import stop
from faults.table import newer
from program import Op
from truth import Cause, Truth, hang

AWAY = {"outside_nccl", "rank_not_arrived", "p2p_unmatched"}
PLACES = ("python", "data", "file lock", "file")


def asked(case: Case):
    """Nothing that titantrace watches waits: somebody asks, some seconds or minutes later."""
    case.when = "by_hand"
    at = case.engine.now + case.rng.choice([6, 15, 60, 600]) * S
    case.dumps = {rank: at + case.rng.randrange(0, 300 * MS) for rank in range(case.job.world)}


def may_be_a_pause(case: Case):
    """Checkpoints and compilers take a minute, too: it is no hang yet, but who waits, and where, has to be said."""
    case.truth.waiting_is_right = min(case.dumps.values()) - case.engine.now <= 61 * S


def job(case: Case) -> int:
    case.use("beside")
    case.settings.stacks = True
    case.settings.watchdog = True
    return case.rank()


def meeting(case: Case, rank: int) -> int:
    return case.rng.choice([i for i, op in enumerate(case.ops(rank)) if op.kind == "barrier"
                            and 2 <= op.step <= case.steps - 3])


@newer("own")
def one_not_at_the_barrier(case: Case):
    """All have done what they had to in NCCL. One stands in its code, the others wait for it in Gloo or the store."""
    rank = job(case)
    place = meeting(case, rank)
    case.ops(rank).insert(place, Op("stuck", what=case.rng.choice(PLACES), step=case.ops(rank)[place].step))
    case.truth = hang(AWAY, [rank])
    case.plan = asked
    case.looks_back.append(may_be_a_pause)


@newer("own")
def one_not_at_the_barrier_no_stacks(case: Case):
    """The same with TITANTRACE_STACKS=off: nothing on record tells it from a long pause."""
    one_not_at_the_barrier(case)
    case.settings.stacks = False
    case.truth.silent_is_right = True


@newer("own")
def alone_at_a_barrier(case: Case):
    """A branch that one rank takes holds a barrier in Gloo; the others are in NCCL, and wait for it."""
    rank = job(case)
    place = case.place(rank)
    what = case.rng.choice(newer_jobs.OUTSIDE)
    case.ops(rank).insert(place, Op("barrier", group=case.job.default, what=what, number=1000,
                                    step=case.ops(rank)[place].step, site=("save_best", 277)))
    case.truth = hang(AWAY, [rank])


@newer("own")
def one_passed_the_barrier(case: Case):
    """One rank leaves a barrier out and goes on into NCCL; the others wait in Gloo for it."""
    rank = job(case)
    del case.ops(rank)[meeting(case, rank)]
    others = [r for r in range(case.job.world) if r != rank]
    case.truth = hang(AWAY, [rank])
    # That the others have not come to the call that it waits in, and where they are, is true as well.
    case.truth.facts = [Cause(AWAY, others)]


@newer("own")
def waits_for_a_key_of_one_that_is_stuck(case: Case):
    """One rank stands in its code, a second one waits for its key in the store, the others in NCCL for both."""
    rank = job(case)
    if case.job.world < 4:
        raise Retry
    other = case.rng.choice([r for r in range(case.job.world) if r != rank])
    place = case.place(rank)
    step = case.ops(rank)[place].step
    stop(case, rank, place, case.rng.choice(PLACES))
    ops = case.ops(other)
    at = next(i for i, op in enumerate(ops) if op.step == step and op.kind in ("kernel", "call"))
    ops.insert(at, Op("barrier", group=case.job.default, what="store", number=2000, step=step, site=("get_split", 66)))
    case.truth = hang(AWAY, [rank], weaker=[Cause(AWAY, [other])])
    # Both have not come.
    case.truth.facts = [Cause(AWAY, [rank, other])]

    def both(case: Case):
        if case.engine.hosts[rank].inside not in PLACES:
            raise Retry
        comm = case.engine.comms[(case.job.default.name, "")]
        if comm.counts.get(rank, 0) > comm.counts.get(other, 0):
            # The first had called ahead: only the second one has not come.
            case.truth.facts.append(Cause(AWAY, [other]))
    case.looks_back.append(both)


@newer("own")
def all_in_a_file(case: Case):
    """The file system hangs: all ranks stand at the same line, in read(). Nobody is to blame."""
    job(case)
    step = case.rng.randrange(2, case.steps - 2)
    for rank in range(case.job.world):
        ops = case.ops(rank)
        place = next(i for i, op in enumerate(ops) if op.kind == "barrier" and op.step == step)
        ops.insert(place, Op("stuck", what="file", step=step))
    case.truth = Truth("hang", [Cause({"outside_nccl"}, range(case.job.world))], weaker=[Cause({"outside_nccl"}, [])],
                       silent_is_right=True, note="that it is no long checkpoint is not on record")
    case.plan = asked


@newer("own")
def healthy_beside_gloo(case: Case):
    fine(case, "beside", when=case.rng.choice(["middle", "finished"]))
