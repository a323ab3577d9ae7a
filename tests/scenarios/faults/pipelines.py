"""Pipelines that have sends and receives alone, over one communicator, over one for each pair or for each direction."""

import jobs
import newer_jobs
from case import Case, Retry, scale
from engine import MS
from faults.fine import fine
from faults.hosts import stop
from faults.messages import sends
from faults.table import SHIFTED, newer
from program import Op
from truth import ABSENT, CYCLE, SLOW_RANK, STUCK, Cause, Truth, hang


def pipeline(case: Case, least: int = 2) -> int:
    case.job = newer_jobs.gpipe(case.rng, case.steps, case.rng.choice([n for n in (2, 3, 4, 6) if n >= least]))
    case.job_name = "gpipe"
    case.sound = [list(program.ops) for program in case.job.programs]
    return case.rank()


@newer()
def pipeline_stage_stuck(case: Case):
    rank = pipeline(case)
    stop(case, rank, case.place(rank))
    case.truth = hang(ABSENT, [rank])


@newer()
def pipeline_stage_gone(case: Case):
    rank = pipeline(case)
    place = case.place(rank)
    case.ops(rank).insert(place, Op("exit", what=case.rng.choice(["exit", "killed"]), step=case.ops(rank)[place].step))
    case.truth = hang(ABSENT, [rank])


def left_out(case: Case, direction: str):
    rank = pipeline(case)
    place = case.place(rank, sends(direction))
    op = case.ops(rank).pop(place)
    # Without a step or a count of what there should be, one more there is the same record as one fewer here.
    case.truth = hang(SHIFTED, [rank], among=[rank, op.messages[0][1]])


@newer()
def pipeline_send_left_out(case: Case):
    left_out(case, "send")


@newer()
def pipeline_receive_left_out(case: Case):
    left_out(case, "recv")


@newer()
def pipeline_micro_batch_left_out(case: Case):
    """A stage in the middle passes one micro-batch fewer: its neighbours on both sides wait."""
    rank = pipeline(case, least=3)
    if rank in (0, case.job.world - 1):
        raise Retry
    ops = case.ops(rank)
    step = case.rng.randrange(2, case.steps - 2)
    forward = [i for i in case.places(rank, lambda op: op.step == step) if ops[i].site[1] == 133
               and ops[i].site[0].endswith("_forward")]
    at = 2 * case.rng.randrange(len(forward) // 2)
    for i in (forward[at + 1], forward[at]):
        del ops[i]
    case.truth = hang(SHIFTED, [rank])


@newer()
def pipeline_other_size(case: Case):
    rank = pipeline(case)
    place = case.place(rank, sends("send"))
    op = case.ops(rank)[place]
    (direction, other, elements), = op.messages
    case.ops(rank)[place] = op.copy(messages=[(direction, other, elements // 2)])
    case.truth = hang({"size_mismatch", "p2p_unmatched"}, [rank],
                      weaker=[Cause({"size_mismatch", "p2p_unmatched"}, [rank, other])])


@newer()
def pipeline_wrong_direction(case: Case):
    """Where it should send on, it sends back: to a stage that does not ask for that."""
    rank = pipeline(case, least=3)
    if rank in (0, case.job.world - 1):
        raise Retry
    place = case.place(rank, sends("send"))
    op = case.ops(rank)[place]
    (direction, other, elements), = op.messages
    wrong = 2 * rank - other
    # On the communicator that it uses for that other stage.
    twin = next(o for o in case.ops(rank) if o.messages and o.messages[0][:2] == ("send", wrong))
    case.ops(rank)[place] = op.copy(messages=[(direction, wrong, elements)], group=twin.group)
    case.truth = hang(ABSENT | CYCLE, [rank])


@newer()
def pipeline_message_stuck(case: Case):
    rank = pipeline(case)
    place = case.place(rank)
    other = case.ops(rank)[place].messages[0][1]
    step = case.ops(rank)[place].step
    case.prepare.append(lambda engine: setattr(engine, "cut", (rank, other, step)))
    case.truth = hang({"stuck_in_flight"}, [rank, other], weaker=[Cause(STUCK, [rank]), Cause(STUCK, [other])])
    if case.own and not case.settings.timing:
        case.truth.among = set(range(case.job.world))


@newer()
def pipeline_gpu_hangs(case: Case):
    rank = pipeline(case)
    case.settings.timing = True
    place = case.place(rank)
    other = case.ops(rank)[place].messages[0][1]
    case.ops(rank).insert(place, Op("gpu_hang"))
    case.truth = hang({"gpu_queue_blocked"}, [rank])
    if not case.own:
        # Members of a batch have no times of their own; the batch has. What is retired is not asked again.
        case.truth.weaker.append(Cause(STUCK, [rank, other]))


@newer()
def slow_stage(case: Case):
    """One stage takes three times as long in every step. Sends alone: others wait, which a reader may see or not."""
    case.steps = 24
    rank = pipeline(case, least=3)
    for op in case.ops(rank):
        if op.kind == "kernel":
            op.seconds *= 3
    case.settings.timing = True
    case.settings.method = 2
    case.must_hang = False
    case.when = "finished"
    case.may_wrap = 0
    case.truth = Truth("slow", [Cause(SLOW_RANK, [rank])], silent_is_right=True,
                       note="who waits for whom in a pipeline is the schedule's business, too")


@newer()
def healthy_pipeline(case: Case):
    pipeline(case)
    case.must_hang = False
    case.when = case.rng.choice(["middle", "finished"])
    case.apart_ns = case.rng.choice([5 * MS, 50 * MS])
    scale(case.job, case.rng.choice([1, 1, 30, 1000]))
    from truth import healthy
    case.truth = healthy()
