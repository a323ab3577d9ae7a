"""Two faults on two ranks of one job: whichever a rank came to may be found first."""

from typing import Callable, Dict, Tuple

from case import Case, Retry
from faults.arguments import differ
from faults.hosts import stop
from faults.messages import sends
from faults.table import SHIFTED, fault, is_call, wide
from program import Op
from truth import ABSENT, CYCLE, Cause, Truth


def _stuck(case: Case, rank: int) -> Tuple[Cause, Op]:
    place = case.place(rank)
    stop(case, rank, place)
    return Cause(ABSENT, [rank]), case.ops(rank)[place]


def _exits(case: Case, rank: int) -> Tuple[Cause, Op]:
    place = case.place(rank)
    case.ops(rank).insert(place, Op("exit", step=case.ops(rank)[place].step))
    return Cause(ABSENT, [rank]), case.ops(rank)[place]


def _wrong(case: Case, rank: int) -> Tuple[Cause, Op]:
    place = case.place(rank, lambda op: is_call(op) and wide(op) and op.name != "all_to_all")
    how = case.rng.choice(["op", "size", "dtype"])
    differ(case, how, [rank], lambda _: place)
    return Cause({how + "_mismatch"}, [rank]), case.ops(rank)[place]


def _left_out(case: Case, rank: int) -> Tuple[Cause, Op]:
    place = case.place(rank, lambda op: is_call(op) and wide(op))
    del case.ops(rank)[place]
    return Cause(SHIFTED, [rank]), case.ops(rank)[place]


def _gpu_hangs(case: Case, rank: int) -> Tuple[Cause, Op]:
    place = case.place(rank, is_call)
    case.settings.timing = True
    case.ops(rank).insert(place, Op("gpu_hang", step=case.ops(rank)[place].step))
    return Cause({"gpu_queue_blocked"}, [rank]), case.ops(rank)[place]


def _send_left_out(case: Case, rank: int) -> Tuple[Cause, Op]:
    place = case.place(rank, sends("send"))
    op = case.ops(rank)[place]
    rest = [message for message in op.messages if message[0] != "send"]
    if not rest:
        raise Retry
    case.ops(rank)[place] = op.copy(messages=rest)
    return Cause(ABSENT | CYCLE, [rank]), case.ops(rank)[place]


PARTS: Dict[str, Callable] = {"stuck": _stuck, "exits": _exits, "wrong": _wrong, "left_out": _left_out,
                              "gpu_hangs": _gpu_hangs, "send_left_out": _send_left_out}


@fault
def pair_of_faults(case: Case):
    case.use()
    if case.job.world < 3:
        raise Retry
    names = case.rng.sample(sorted(PARTS), 2)
    ranks = case.rng.sample(range(case.job.world), 2)
    made = [PARTS[name](case, rank) for name, rank in zip(names, ranks)]
    case.truth = Truth("hang", [cause for cause, _ in made], weaker=[Cause(SHIFTED, ranks)], note=" and ".join(names))

    def reached(case: Case):
        """A rank that was held before it came to its fault is innocent."""
        came = []
        for (cause, op), rank in zip(made, ranks):
            host = case.engine.hosts[rank]
            at = next((i for i, other in enumerate(host.ops) if other is op), None)
            if at is not None and at < host.at:
                came.append(cause)
        if not came:
            raise Retry
        case.truth.causes = came
        case.truth.one_is_enough = True
        if len(came) == 1:
            case.truth.weaker = []
    case.looks_back.append(reached)
