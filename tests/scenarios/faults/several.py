"""Several things at once: two causes, a cause and lost or damaged files, large jobs."""

import damage
import jobs
from case import Case, Retry
from faults.hosts import ends, stop, stuck_in_code_before_a_call
from faults.table import WIDE, fault, is_call
from program import Op
from truth import ABSENT, STUCK, Cause, Truth, hang


@fault
def two_causes(case: Case):
    """Two ranks stand still, each in a group that the other is not in."""
    case.use("hsdp", "megatron", "moe", "rollout")
    first = case.rank()
    place = case.place(first, lambda op: op.group is not case.job.default)
    group = case.ops(first)[place].group
    step = case.ops(first)[place].step
    others = [r for r in range(case.job.world) if r not in group.place]
    if not others:
        raise Retry
    second = case.rng.choice(others)
    other = case.places(second, lambda op: first not in op.group.place and op.step == step)
    if not other:
        raise Retry
    stop(case, first, place)
    stop(case, second, case.rng.choice(other))
    case.truth = Truth("hang", [Cause(ABSENT, [first]), Cause(ABSENT, [second])])

    def both_came(case: Case):
        hosts = [case.engine.hosts[rank] for rank in (first, second)]
        if any(host.ops[host.at - 1].kind != "stuck" for host in hosts):
            raise Retry
        last = [case.engine.records[rank][-1].item for rank in (first, second)]
        # What a host does that makes no CUDA call on record, only its calls tell, as in PyTorch's files.
        if not (case.own and case.settings.cuda) and any(item is None or item.end_ns is None for item in last):
            # Its newest call waits for the other rank: its host may wait in there, for all that is recorded.
            case.truth.one_is_enough = True
    case.looks_back.append(both_came)


@fault
def culprit_and_a_lost_file(case: Case):
    case.use(*WIDE)
    rank = case.rank()
    stop(case, rank, case.place(rank))
    lost = case.rng.choice([r for r in range(case.job.world) if r != rank])
    case.after.append(damage.lose([lost]))
    case.truth = hang(ABSENT, [rank])


@fault
def half_of_the_files_culprit_elsewhere(case: Case):
    case.use(*WIDE)
    rank = case.rank()
    place = case.place(rank)
    stop(case, rank, place)
    others = [r for r in range(case.job.world) if r != rank]
    lost = [rank] + case.rng.sample(others, max(1, case.job.world // 2 - 1))
    case.after.append(damage.lose(lost))
    case.truth = hang(ABSENT, [rank], among=lost, note="which of those without a file it is cannot be told")
    case.truth.cannot_tell_is_right = 2 * len(lost) > case.job.world


@fault
def stale_file_of_the_culprit(case: Case):
    rank = ends(case)
    case.after.append(damage.stale(rank))


@fault
def hidden_by_an_early_file(case: Case):
    """All have issued the call; one raised right then, dumped and left; its GPU never ran it."""
    case.use(*WIDE)
    rank = case.rank()
    place = case.place(rank, is_call)
    group = case.ops(rank)[place].group
    case.ops(rank)[place:place + 1] = [Op("gpu_hang"), case.ops(rank)[place], Op("host", seconds=0.3, what="python"),
                                       Op("exit")]
    case.after.append(lambda c, directory, writer: writer.write(directory, rank, c.engine.dead_ns[rank]))
    case.truth = hang(ABSENT | STUCK, [rank], weaker=[Cause(STUCK, group.ranks)], among=group.ranks)


@fault
def entries_out_of_order(case: Case):
    stuck_in_code_before_a_call(case)
    case.settings.format = "json"
    case.settings.shuffled = True


@fault
def truncated_file(case: Case):
    case.use(*WIDE)
    rank = case.rank()
    stop(case, rank, case.place(rank))
    innocent = case.rng.choice([r for r in range(case.job.world) if r != rank])
    case.after.append(damage.truncate(innocent))
    case.truth = hang(ABSENT, [rank])


@fault
def json_beside_pickle(case: Case):
    stuck_in_code_before_a_call(case)
    case.after.append(damage.mixed_formats)


@fault
def one_rank_job(case: Case):
    """Its GPU hangs in a kernel ahead of a collective of one rank. Without timing nothing says that it did not
    start."""
    case.job = jobs.one_rank(case.rng, case.steps)
    ops = case.ops(0)
    place = case.rng.choice([i for i, op in enumerate(ops) if op.kind == "call" and 2 <= op.step <= case.steps - 3])
    ops.insert(place, Op("gpu_hang"))
    case.truth = hang({"gpu_queue_blocked"}, [0], weaker=[Cause(STUCK, [0])])


@fault
def three_ranks(case: Case):
    case.job = jobs.ddp(case.rng, 3, case.steps)
    rank = case.rank()
    stop(case, rank, case.place(rank))
    case.truth = hang(ABSENT, [rank])


@fault
def one_of_128_3d(case: Case):
    case.steps = 6
    case.job = jobs.megatron(case.rng, 4, 4, 8, steps=6, micro_batches=4)
    rank = case.rank()
    stop(case, rank, case.place(rank, first_step=1, last_step=3))
    case.truth = hang(ABSENT, [rank])


@fault
def one_of_512(case: Case):
    case.steps = 5
    case.job = jobs.ddp(case.rng, 512, 5, buckets=3)
    rank = case.rank()
    stop(case, rank, case.place(rank, first_step=1, last_step=3))
    case.truth = hang(ABSENT, [rank])
