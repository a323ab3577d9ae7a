"""Several host threads of a rank, each with a communicator of its own; the main one marks the steps."""

from typing import List

import newer_jobs
from case import Case, Retry
from faults.fine import fine
from faults.hosts import stop
from faults.table import SHIFTED, newer
from program import COMMUNICATION, Op, Program
from truth import ABSENT, CYCLE, Cause, hang


def threads_of(case: Case, rank: int) -> List[Program]:
    return [program for of, program in case.job.threads if of == rank]


def thread_place(case: Case, program: Program, last_step: int = -1) -> int:
    """Of a call in one of the steps in the middle."""
    last = case.steps - 3 if last_step < 0 else last_step
    places = [i for i, op in enumerate(program.ops) if op.kind in COMMUNICATION and 2 <= op.step <= last]
    if not places:
        raise Retry
    return case.rng.choice(places)


def of_a_thread(case: Case, *names: str):
    """A job with threads; one rank, one of its threads and a place in it."""
    case.use(*(names or ("threaded",)))
    rank = case.rank()
    program = case.rng.choice(threads_of(case, rank))
    return rank, program, thread_place(case, program)


@newer()
def thread_stuck(case: Case):
    """A thread beside the main one does not come to its call. The main thread waits for it, or goes on."""
    rank, program, place = of_a_thread(case, "threaded", "transfers")
    program.ops.insert(place, Op("stuck", what="python", step=program.ops[place].step))
    case.truth = hang(ABSENT, [rank])


@newer()
def thread_ended(case: Case):
    """An exception ends a thread, and nobody notices; the process lives."""
    rank, program, place = of_a_thread(case, "threaded", "transfers")
    del program.ops[place:]
    case.may_be_skipped = True
    case.truth = hang(ABSENT, [rank])


@newer()
def thread_leaves_a_call_out(case: Case):
    rank, program, place = of_a_thread(case)
    del program.ops[place]
    case.truth = hang(SHIFTED, [rank])


@newer()
def thread_makes_an_extra_call(case: Case):
    rank, program, place = of_a_thread(case)
    program.ops.insert(place, program.ops[place].copy(tag=None))
    case.truth = hang(SHIFTED, [rank])
    if not case.own:
        # Where all calls are alike it shows at the end only, and files of PyTorch do not say that the others ended.
        case.truth.weaker.append(Cause(ABSENT, [r for r in range(case.job.world) if r != rank]))


@newer()
def thread_leaves_a_transfer_out(case: Case):
    """A send or a receive fewer, between two threads of two ranks that do nothing else."""
    rank, program, place = of_a_thread(case, "transfers")
    op = program.ops.pop(place)
    case.truth = hang(SHIFTED, [rank], among=op.group.ranks)


@newer()
def main_stuck_beside_threads(case: Case):
    case.use("threaded", "transfers")
    rank = case.rank()
    stop(case, rank, case.place(rank))
    case.truth = hang(ABSENT, [rank])


@newer()
def exited_beside_threads(case: Case):
    case.use("threaded")
    rank, program = case.rank(), None
    program = case.rng.choice(threads_of(case, rank))
    place = thread_place(case, program)
    program.ops.insert(place, Op("exit", what=case.rng.choice(["exit", "killed"]), step=program.ops[place].step))
    case.truth = hang(ABSENT, [rank])


@newer()
def lock_taken_in_another_order(case: Case):
    """Before a step all wait for their saver thread; one rank makes the step's first call before it lets its saver
    begin: saver and main thread wait for each other over the other ranks."""
    case.job = newer_jobs.threaded(case.rng, case.steps, ["background"])
    step = case.rng.choice([at for at in range(2, case.steps - 2) if at % 2 == 0])
    guilty = case.rank()
    for rank in range(case.job.world):
        ops = case.ops(rank)
        program = threads_of(case, rank)[0]
        for i in reversed([i for i, op in enumerate(program.ops) if op.name == "all_reduce_barrier"]):
            program.ops.insert(i + 2, Op("signal", what="saved", step=program.ops[i].step))
        at = next(i for i, op in enumerate(ops) if op.kind == "signal" and op.step == step)
        ops.insert(at + 1, Op("await", what="saved", number=step // 2 + 1, step=step))
        if rank != guilty:
            continue
        pair = [ops.pop(at), ops.pop(at)]
        call = next(i for i, op in enumerate(ops) if op.kind == "call" and op.step == step)
        ops[call] = ops[call].copy(wait=True)
        ops[call + 1:call + 1] = [Op("sync", step=step)] + pair
    case.truth = hang(CYCLE | ABSENT, [guilty], weaker=[Cause(CYCLE, range(case.job.world))])


@newer()
def two_threads_one_communicator(case: Case):
    """Forbidden, and done: on one rank the other thread was faster for once."""
    case.use("shared")
    rank = case.rank()
    ops = case.ops(rank)
    step = case.rng.randrange(2, case.steps - 2)
    call = next(i for i, op in enumerate(ops) if op.kind == "call" and op.step == step)
    ops[call:call + 2] = [ops[call + 1], Op("host", seconds=0.0015, what="python", step=step), ops[call]]
    case.truth = hang(SHIFTED, [rank])


@newer()
def healthy_two_threads_one_communicator(case: Case):
    fine(case, "shared")


@newer()
def healthy_threads(case: Case):
    fine(case, "threaded", "transfers", when=case.rng.choice(["middle", "finished"]))
