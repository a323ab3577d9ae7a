"""Records that are short, early, mixed or have wrong times. What they do not show nobody has to see; but nobody may be
sure of what is not so, and what is not known has to be said."""

import newer_jobs
from case import Case, Retry
from engine import MS, S
from faults import arguments, counts, hosts, messages, pipelines, threads
from faults.fine import fine
from faults.hosts import stop
from faults.table import newer
from program import Op
from truth import ABSENT, SLOW, Cause, Truth, hang


@newer()
def ring_of_64_under_load(case: Case):
    """While the main thread of all ranks but one waits, another thread goes on calling, and overwrites what waits."""
    case.use("ddp", "fsdp", "hsdp", "megatron", "ring")
    rank = case.rank()
    stop(case, rank, case.place(rank))
    group = case.job.group(str(len(case.job.groups)), "server", range(case.job.world), eager=True)
    calls = case.rng.choice([40, 90, 300])
    for other in range(case.job.world):
        program = newer_jobs.thread(case.job, other, "server")
        for call in range(calls):
            program.step_now = call % case.steps
            program.host(0.003)
            program.call(group, "all_reduce", 4096, "BFloat16", site=("serve", 19))
            program.sync()
    case.ring = 64
    if case.own:
        case.settings.small = True
    case.truth = hang(ABSENT, [rank])
    case.truth.cannot_tell_is_right = True
    case.truth.waiting_is_right = True


SOME = (hosts.stuck_in_code_before_a_call, hosts.exited_without_dump, counts.call_left_out, arguments.wrong_size,
        messages.send_left_out, threads.thread_stuck, pipelines.pipeline_stage_stuck)


def set_a_clock(case: Case, at_ns: int, forward: bool = True):
    by = case.rng.choice([-7200, -3600, -60, -5] + [5, 60, 3600, 7200] * forward) * S
    of = case.rng.randrange((case.job.world + case.job.per_host - 1) // case.job.per_host)
    case.settings.jump = (of, at_ns, by)
    # PyTorch's files have no other clock: those of one host seem to be written at another time than the others'.
    case.truth.possible_is_right = not case.own and case.job.world > case.job.per_host
    # Set back, they seem to be older than what they hold: how long anything waits there, nobody can tell.
    case.truth.cannot_tell_is_right = case.truth.possible_is_right or (not case.own and by < 0)


@newer()
def clock_set_during_the_hang(case: Case):
    """NTP or somebody sets the clock of the day of one host."""
    case.rng.choice(SOME)(case)
    case.job.per_host = case.rng.choice([2, 8])

    def look(case: Case):
        set_a_clock(case, case.engine.now + 5 * S)
        # PyTorch's files have no other clock: a call may seem to be made after the file was written.
        case.truth.waiting_is_right = not case.own and case.settings.jump[2] < 0
    case.looks_back.append(look)


@newer()
def clock_set_before_the_hang(case: Case):
    case.rng.choice(SOME)(case)
    case.job.per_host = case.rng.choice([2, 8])

    def look(case: Case):
        set_a_clock(case, int(case.engine.now * case.rng.random()))
    case.looks_back.append(look)


@newer()
def healthy_clock_set(case: Case):
    fine(case)
    case.job.per_host = case.rng.choice([2, 8])

    def look(case: Case):
        # In PyTorch's files a clock that was set forward is the same as a wait.
        set_a_clock(case, int(case.engine.now * case.rng.random()), forward=case.own)
    case.looks_back.append(look)


def soon(case: Case, least_ms: int, most_ms: int):
    case.plan = lambda c: c.dumps.update(_soon(c, c.engine.now + c.rng.randrange(least_ms, most_ms + 1) * MS))


def _soon(case: Case, at: int) -> dict:
    case.when = "by_hand"
    return {rank: at + case.rng.randrange(0, 8 * MS) for rank in range(case.job.world)
            if rank not in case.engine.dead_ns or case.own}


EARLY = (hosts.stuck_in_code_before_a_call, hosts.one_in_its_data_loader, counts.call_left_out, messages.send_left_out,
         arguments.wrong_size, pipelines.pipeline_stage_stuck)


@newer()
def fifty_ms_into_a_hang(case: Case):
    """Nobody can know yet that it is one."""
    case.rng.choice(EARLY)(case)
    soon(case, 45, 60)
    case.may_wrap = 0
    case.truth.waiting_is_right = True
    case.truth.silent_is_right = True


@newer()
def half_a_second_into_a_hang(case: Case):
    """Steps take some 20 ms, all have been waiting for 30 of them: who waits has to be said."""
    case.rng.choice(EARLY)(case)
    soon(case, 350, 900)
    case.may_wrap = 0
    case.truth.waiting_is_right = True


@newer()
def healthy_in_a_pause(case: Case):
    """A rank takes some hundred milliseconds for once, and comes."""
    case.use("ddp", "fsdp", "hsdp", "megatron", "moe", "gpipe", "siblings")
    rank = case.rank()
    place = case.place(rank)
    pause = case.rng.randrange(100, 1000)
    case.ops(rank).insert(place, Op("host", seconds=pause / 1000, what="python", step=case.ops(rank)[place].step))
    case.must_hang = False
    case.truth = Truth("slow", weaker=[Cause(ABSENT | SLOW, [rank])], silent_is_right=True, note="it comes")

    def plan(case: Case):
        rows = case.engine.records[rank]
        gap = max(range(1, len(rows)), key=lambda i: rows[i].created_ns - rows[i - 1].created_ns)
        at = rows[gap - 1].created_ns + int(pause * MS * (0.3 + 0.5 * case.rng.random()))
        case.when = "by_hand"
        case.dumps = {r: at + case.rng.randrange(0, 8 * MS) for r in range(case.job.world)}
    case.plan = plan


def two_jobs(case: Case, same_run: bool):
    """A second job beside this one, with a hang of its own or none, that dumps at the same time."""
    case.use("ddp", "fsdp", "hsdp", "moe")
    rank = case.rank()
    stop(case, rank, case.place(rank))
    other = Case(case.label, case.number, 1000 + case.rng.randrange(1000))
    other.is_newer = True
    other.use("ddp", "fsdp", "hsdp", "moe")
    second = other.rank()
    stop(other, second, other.place(second))
    other.truth = hang(ABSENT, [second])
    case.truth = hang(ABSENT, [rank])
    case.truth.facts = [Cause(ABSENT, [second])]
    case.truth.cannot_tell_is_right = same_run
    case.may_wrap = other.may_wrap = 0
    case.when = other.when = "by_hand"
    if case.own:
        for name in ("newer", "stacks", "watchdog"):
            setattr(other.settings, name, getattr(case.settings, name))
        other.settings.pids, other.settings.salt = 14000, "second job"
    else:
        other.settings.format = case.settings.format
    other.run()
    if not other.dumps or len(other.dumps) < other.job.world:
        raise Retry
    return other


def beside_it(case: Case, other: Case, same_run: bool):
    from recorders import flight_recorder, titan

    def damage(case: Case, directory, writer):
        # Its dumps begin within a second of those of the first.
        apart = case.rng.randrange(-800, 800) * MS
        other.settings.epoch_ns = case.settings.epoch_ns + min(case.dumps.values()) - min(other.dumps.values()) + apart
        if case.own:
            second = titan.Writer(other.engine, other.settings, other.rng, case.number + (0 if same_run else 1))
        else:
            second = flight_recorder.Writer(other.engine, other.settings, other.rng)
        for rank in sorted(other.dumps):
            more = {"number": 2, "reason": "signal"} if case.own else {}
            second.write(directory, rank, other.dumps[rank], **more)
    case.after.append(damage)


@newer("own")
def two_jobs_in_one_directory(case: Case):
    """Two runs, each with a directory of its own below the same one: either may be looked at."""
    beside_it(case, two_jobs(case, False), False)


@newer("own")
def two_jobs_of_one_name(case: Case):
    """The same, and both have the same TITANTRACE_RUN_ID: one directory, two processes for each rank."""
    beside_it(case, two_jobs(case, True), True)


@newer("pytorch")
def two_jobs_in_one_directory_files(case: Case):
    """PyTorch's files of two jobs have the same names: the later one is left for each rank, and where the other job
    was larger, its ranks are left beside them."""
    other = two_jobs(case, True)
    beside_it(case, other, True)
    if other.job.world < case.job.world and next(iter(case.truth.causes[0].ranks)) < other.job.world:
        # The culprit's file is gone, its job's other files are not. What they show is all but one away.
        case.truth.facts.append(Cause(ABSENT, range(other.job.world)))
        case.truth.silent_is_right = True
