"""Hosts that ask the GPU in a loop (cudaStreamQuery, cudaEventQuery) and are never inside a call that blocks."""

import newer_jobs
from case import Case, Retry
from faults import arguments, counts, devices, fine, messages, threads
from faults.hosts import stop
from faults.table import newer
from program import Op
from truth import ABSENT, hang


def asks(case: Case):
    newer_jobs.polling(case.job, case.rng)


@newer("own")
def polling_one_stuck(case: Case):
    case.use(*(list(newer_jobs.NEWER)[2:4] + ["ddp", "fsdp", "hsdp", "moe", "megatron", "megatron_deep", "ring"]))
    rank = case.rank()
    stop(case, rank, case.place(rank))
    asks(case)
    case.truth = hang(ABSENT, [rank])


@newer("own")
def polling_one_killed(case: Case):
    case.use()
    rank = case.rank()
    place = case.place(rank)
    case.ops(rank).insert(place, Op("exit", what=case.rng.choice(["exit", "killed"]), step=case.ops(rank)[place].step))
    asks(case)
    case.truth = hang(ABSENT, [rank])


@newer("own")
def polling_call_left_out(case: Case):
    counts.call_left_out(case)
    asks(case)


@newer("own")
def polling_message_left_out(case: Case):
    case.rng.choice([messages.send_left_out, messages.receive_left_out])(case)
    asks(case)


@newer("own")
def polling_wrong_arguments(case: Case):
    case.rng.choice([arguments.wrong_size, arguments.wrong_op, arguments.wrong_dtype])(case)
    asks(case)


@newer("own")
def polling_stuck_in_flight(case: Case):
    case.rng.choice([devices.network_stuck, devices.message_stuck])(case)
    asks(case)


@newer("own")
def polling_gpu_hangs(case: Case):
    devices.gpu_hangs_timed(case)
    asks(case)


@newer("own")
def polling_threads(case: Case):
    """Threads and loops together."""
    case.rng.choice([threads.thread_stuck, threads.thread_leaves_a_call_out, threads.thread_leaves_a_transfer_out,
                     threads.main_stuck_beside_threads])(case)
    asks(case)


@newer("own")
def polling_by_some(case: Case):
    """Some ranks ask in loops, the others wait in CUDA."""
    case.use()
    rank = case.rank()
    stop(case, rank, case.place(rank))
    waiting = [list(program.ops) for program in case.job.programs]
    asks(case)
    some = [i for i in range(case.job.world) if case.rng.random() < 0.5]
    if not 0 < len(some) < case.job.world:
        raise Retry
    for i in some:
        case.job.programs[i].ops = waiting[i]
    case.truth = hang(ABSENT, [rank])


@newer("own")
def healthy_polling(case: Case):
    fine.fine(case, *(list(newer_jobs.NEWER)[:4] + ["ddp", "fsdp", "megatron", "moe"]))
    asks(case)
