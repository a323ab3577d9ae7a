"""What hung was killed later: everybody at once, one after another, by the launcher, or one of those that waited.

What killed it is not what was wrong with it. How long all had been waiting when it came is on record.
"""

import newer_jobs
from case import Case, Retry
from engine import MS, S
from faults import arguments, counts, devices, hosts, messages
from faults.fine import fine
from faults.table import newer
from program import Op
from truth import ABSENT, SLOW, Cause, Truth, healthy

HANGS = (hosts.stuck_in_code_before_a_call, hosts.one_in_its_data_loader, counts.call_left_out, messages.send_left_out,
         arguments.wrong_size, devices.gpu_hangs_timed, counts.extra_call)


def some_hang(case: Case):
    case.rng.choice(HANGS)(case)
    if case.rng.random() < 0.25:
        newer_jobs.polling(case.job, case.rng)
    case.may_wrap = 0.15
    # Of rings alone: that it died before it came is another reading, if nothing else tells how it ended.
    case.truth.weaker += [Cause({"rank_dead"}, cause.ranks) for cause in case.truth.causes]
    case.truth.beside.append(Cause({"rank_dead"}, range(case.job.world)))
    case.truth.over = True


def end(case: Case, times: dict, how: str = "killed"):
    for rank, at in times.items():
        if rank not in case.engine.dead_ns:
            case.engine.dead_ns[rank] = at
            case.engine.exits[rank] = how


def leave_rings(case: Case):
    """Of the dead only what their rings hold: as they lie in /dev/shm, or saved by somebody."""
    case.when = "killed"
    case.settings.as_rings = case.rng.random() < 0.5
    at = max(case.engine.dead_ns.values())
    case.dumps = {rank: at + case.rng.randrange(2, 600) * S for rank in range(case.job.world)}


def at_once(case: Case, begin: int) -> dict:
    return {rank: begin + case.rng.randrange(0, 100 * MS) for rank in range(case.job.world)}


def after_a_while(case: Case) -> int:
    return case.engine.now + case.rng.choice([5, 10, 30, 100, 250]) * S


@newer("own")
def hang_then_killed_at_once(case: Case):
    """scancel's SIGKILL, or the container's end."""
    some_hang(case)

    def plan(case: Case):
        end(case, at_once(case, after_a_while(case)))
        leave_rings(case)
    case.plan = plan


@newer("own")
def hang_then_killed_one_after_another(case: Case):
    some_hang(case)

    def plan(case: Case):
        ranks = list(range(case.job.world))
        case.rng.shuffle(ranks)
        at, times = after_a_while(case), {}
        for rank in ranks:
            times[rank] = at
            at += case.rng.randrange(200, 6000) * MS
        end(case, times)
        leave_rings(case)
    case.plan = plan


@newer("own")
def hang_then_terminated(case: Case):
    """SIGTERM to all: in a job that hangs each rank dumps, and ends."""
    some_hang(case)

    def plan(case: Case):
        begin = after_a_while(case)
        case.when = "terminated"
        for rank in range(case.job.world):
            asked = begin + case.rng.randrange(0, 50 * MS)
            case.engine.asked_ns[rank] = asked
            case.dumps[rank] = asked + case.rng.randrange(5, 300) * MS
            case.reasons[rank] = {"reason": "end"}
    case.plan = plan


@newer("own")
def waiting_rank_killed(case: Case):
    """The hang is there; then the kernel's OOM killer takes one of those that wait. The others dump at their
    timeout."""
    hosts.stuck_in_code_before_a_call(case)
    guilty = next(iter(case.truth.causes[0].ranks))
    if case.job.world < 4:
        raise Retry

    def plan(case: Case):
        waiting = [host.rank for host in case.engine.hosts if host.rank != guilty and host.inside == "sync"]
        if not waiting:
            raise Retry
        victim = case.rng.choice(waiting)
        since = case.engine.now
        end(case, {victim: since + case.rng.choice([4, 20, 100, 200]) * S})
        case.truth.beside.append(Cause({"rank_dead"}, [victim]))
        at = since + 300 * S
        case.dumps = {rank: at + case.rng.randrange(0, 300 * MS) for rank in range(case.job.world)}
        if case.rng.random() < 0.3:
            del case.dumps[victim]
    case.plan = plan


@newer("own")
def dumped_then_killed(case: Case):
    """All dumped at their timeout; minutes later the job was killed, and its rings are there, too."""
    some_hang(case)

    def plan(case: Case):
        at = case.engine.now + 300 * S
        case.dumps = {rank: at + case.rng.randrange(0, 300 * MS) for rank in range(case.job.world)}
    case.plan = plan

    def rings(case: Case, directory, writer):
        end(case, at_once(case, max(case.dumps.values()) + case.rng.choice([2, 60, 900]) * S))
        if case.rng.random() < 0.5:
            case.settings.as_rings = True
        for rank in range(case.job.world):
            writer.write(directory, rank, case.engine.dead_ns[rank] + 30 * S, number=2)
    case.after.append(rings)


def killed_in_the_middle(case: Case, apart_ns: int):
    """Kills in a running job, as events of it: who is left waits for the dead, until it dies, too."""
    def setup(engine):
        at = case.rng.randrange(15, 60) * MS
        for rank in range(case.job.world):
            engine.push(at + case.rng.randrange(0, apart_ns), engine.kill, rank)
    case.prepare.append(setup)


@newer("own")
def killed_while_all_was_well(case: Case):
    """A healthy job is cancelled by SIGKILL. All died, nobody is to blame."""
    case.steps = 12
    fine(case, "ddp", "fsdp", "hsdp", "megatron", "moe", "threaded")
    killed_in_the_middle(case, case.rng.choice([1, 10, 50]) * MS)
    case.plan = leave_rings
    case.truth = healthy("all were killed at once")
    case.truth.over = True
    case.truth.cannot_tell_is_right = True
    case.truth.facts = [Cause({"rank_dead"}, range(case.job.world))]


@newer("own")
def cancelled_while_all_was_well(case: Case):
    """SIGTERM to all ranks of a healthy job: no dump is written, the rings say who asked."""
    killed_while_all_was_well(case)

    def asked(engine):
        for rank in range(case.job.world):
            engine.push(14 * MS, engine.asked_ns.__setitem__, rank, 14 * MS)
    case.prepare.append(asked)


@newer("own")
def killed_in_a_pause(case: Case):
    """One rank saves a checkpoint, the others wait for it for some seconds, as every time; then the job is killed."""
    case.use("ddp", "fsdp", "hsdp", "megatron", "moe")
    rank = case.rank()
    place = case.place(rank)
    case.ops(rank).insert(place, Op("stuck", what="file", step=case.ops(rank)[place].step))
    case.truth = Truth("slow", weaker=[Cause(ABSENT | SLOW, [rank])], silent_is_right=True,
                       note="the rank might have come; nobody waits any more")
    case.truth.facts = [Cause({"rank_not_arrived", "p2p_unmatched"}, [rank]),
                        Cause({"rank_dead"}, range(case.job.world))]
    case.truth.over = True
    case.truth.cannot_tell_is_right = True

    def plan(case: Case):
        end(case, at_once(case, case.engine.now + case.rng.randrange(200, 9000) * MS))
        leave_rings(case)
    case.plan = plan


@newer("own")
def stopped_then_killed(case: Case):
    """SIGSTOP holds one rank: it gives no sign of life from then on. Minutes later all are killed."""
    hosts.stuck_in_code_before_a_call(case)
    rank = next(iter(case.truth.causes[0].ranks))
    case.truth = Truth("hang", [Cause({"rank_stopped", "rank_not_arrived", "p2p_unmatched"}, [rank])],
                       weaker=[Cause({"rank_dead"}, [rank])], note="it was stopped, and may have died as well")
    case.truth.over = True
    case.truth.beside.append(Cause({"rank_dead"}, range(case.job.world)))

    def plan(case: Case):
        host = next(h for h in case.engine.hosts if h.rank == rank and h.thread == "main")
        case.engine.stopped_ns[rank] = host.since_ns
        end(case, at_once(case, after_a_while(case)))
        leave_rings(case)
    case.plan = plan


@newer("own")
def aborted_by_the_watchdog(case: Case):
    """PyTorch's watchdog aborts all communicators, what waits on GPUs returns as if it had ended, and 15 s later the
    process ends itself. Our timeout may have come before, or not; each event leaves a dump."""
    case.rng.choice(HANGS[:5])(case)
    case.settings.watchdog, case.settings.stacks = True, False
    case.may_wrap = 0.15
    case.truth.over = True
    ours_is_shorter = case.rng.random() < 0.5

    def plan(case: Case):
        if any(left is None for _, left in case.engine.created.values()):
            raise Retry
        since = case.engine.now
        at = since + (600 if ours_is_shorter else 120) * S
        case.when = "aborted"
        for rank in range(case.job.world):
            case.engine.aborted_ns[rank] = at + case.rng.randrange(0, 200) * MS
            case.engine.crashed_ns[rank] = case.engine.aborted_ns[rank] + 15 * S
            case.dumps[rank] = case.engine.aborted_ns[rank] + case.rng.randrange(1, 4) * MS
            case.reasons[rank] = {"reason": "abort", "number": 2}
    case.plan = plan

    def others(case: Case, directory, writer):
        for rank in range(case.job.world):
            if ours_is_shorter:
                writer.write(directory, rank, case.engine.now + 300 * S + case.rng.randrange(0, 300 * MS), number=1)
            writer.write(directory, rank, case.engine.crashed_ns[rank], reason="crash", number=3)
    case.after.append(others)


@newer("own")
def exception_then_launcher(case: Case):
    """A rank exits with status 1; torchrun asks the others to end, kills after 30 s who does not."""
    rank = hosts.ends(case, "exit")
    case.truth.over = True

    def plan(case: Case):
        died = case.engine.dead_ns.get(rank)
        if died is None:
            raise Retry
        begin = died + case.rng.randrange(100, 1100) * MS
        case.when = "terminated"
        for other in range(case.job.world):
            if other == rank:
                case.dumps[rank] = begin + 40 * S
                continue
            case.engine.asked_ns[other] = begin + case.rng.randrange(0, 20 * MS)
            case.dumps[other] = case.engine.asked_ns[other] + case.rng.randrange(5, 300) * MS
            case.reasons[other] = {"reason": "end"}
        if case.rng.random() < 0.3:
            del case.dumps[rank]  # nobody collected its ring
            case.truth.cannot_tell_is_right = True
    case.plan = plan
