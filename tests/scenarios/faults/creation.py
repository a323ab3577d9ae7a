"""Communicators that are not made: members that do not come, come late, or come in another order."""

import jobs
from case import Case
from engine import MS, S
from faults.hosts import stop
from faults.table import newer
from program import COMMUNICATION, Op, Program
from truth import ABSENT, CYCLE, Cause, Truth, hang


def created_now(engine) -> int:
    """When the first of those that are inside a creation entered it."""
    return min(entered for entered, left in engine.created.values() if left is None)


def asked_after(least_s: float, most_s: float):
    """Somebody asks for dumps so long after the first rank has entered."""
    def plan(case: Case):
        case.when = "by_hand"
        at = created_now(case.engine) + int((least_s + (most_s - least_s) * case.rng.random()) * S)
        case.dumps = {rank: at + case.rng.randrange(0, 100 * MS) for rank in range(case.job.world)}
    return plan


def late_group(case: Case):
    """A group that is used for the first time in the middle of the job. Says its members and one of them."""
    world = case.rng.choice([4, 8])
    ranks = list(range(world)) if case.rng.random() < 0.5 else sorted(case.rng.sample(range(world), world // 2))
    case.job = jobs.lazy_group(case.rng, world, case.steps, ranks=ranks)
    case.job.default.eager = case.rng.random() < 0.5
    return case.job.groups["1"], case.rng.choice(ranks)


def before_it(case: Case, rank: int, group) -> int:
    return next(i for i, op in enumerate(case.ops(rank)) if op.kind in COMMUNICATION and op.group is group)


def not_entered(case: Case):
    group, rank = late_group(case)
    stop(case, rank, before_it(case, rank, group))
    case.truth = hang(ABSENT, [rank], weaker=[Cause(ABSENT, group.ranks)])


@newer("own")
def creation_not_entered(case: Case):
    not_entered(case)
    case.plan = asked_after(20, 280)


@newer("own")
def creation_not_entered_until_the_timeout(case: Case):
    not_entered(case)


@newer("own")
def creation_not_entered_yet(case: Case):
    """Asked some seconds after the others have entered: creations may take that long."""
    not_entered(case)
    case.plan = asked_after(1.2, 8)
    case.truth.waiting_is_right = True


@newer("own")
def creation_entered_late(case: Case):
    """As before, but the last member comes: it was loading something."""
    group, rank = late_group(case)
    case.ops(rank).insert(before_it(case, rank, group), Op("host", seconds=case.rng.randrange(4, 25), what="file"))
    case.must_hang = False
    case.truth = Truth("slow", weaker=[Cause(ABSENT, [rank]), Cause(ABSENT, group.ranks)], silent_is_right=True,
                       note="it comes")

    def plan(case: Case):
        entered = {of: times for (of, name, _), times in case.engine.created.items() if name == group.name}
        first, last = min(e for e, _ in entered.values()), max(e for e, _ in entered.values())
        at = first + int((last - first) * (0.3 + 0.5 * case.rng.random()))
        case.when = "by_hand"
        case.dumps = {of: at + case.rng.randrange(0, 100 * MS) for of in range(case.job.world)}
    case.plan = plan


def not_made(case: Case):
    """All members are there, and it does not get made: the network of the bootstrap."""
    group, _ = late_group(case)
    case.prepare.append(lambda engine: setattr(engine, "creation_frozen", group.name))
    case.truth = Truth("hang", [Cause({"comm_init_stuck"}, [])])
    case.truth.facts = [Cause({"comm_init_stuck"}, group.ranks)]
    return group


@newer("own")
def creation_not_made(case: Case):
    not_made(case)
    case.plan = asked_after(30, 280)


@newer("own")
def creation_not_made_yet(case: Case):
    not_made(case)
    case.plan = asked_after(1.2, 8)
    case.truth.waiting_is_right = True


@newer("own")
def creations_in_another_order(case: Case):
    """Two groups are used for the first time, and one rank uses the second one first."""
    world = case.rng.choice([3, 4, 8])
    case.job = jobs.ddp(case.rng, world, case.steps)
    groups = [case.job.group(name, desc, range(world)) for name, desc in (("1", "eval"), ("2", "ema"))]
    guilty = case.rank()
    for rank in range(world):
        ops = case.ops(rank)
        place = next(i for i, op in enumerate(ops) if op.kind == "step" and op.number == 3)
        late = Program(rank)
        late.step_now, late.tags = 3, 10000
        for group in reversed(groups) if rank == guilty else groups:
            late.call(group, "all_gather", 1024, site=("evaluate", 270))
        late.sync()
        ops[place + 1:place + 1] = late.ops
    case.truth = hang(CYCLE | ABSENT, [guilty], weaker=[Cause(CYCLE | {"comm_init_stuck"}, range(world)),
                                                        Cause({"comm_init_stuck"}, [])])


@newer("own")
def first_creation_not_entered(case: Case):
    """The job's first communicator: one rank still reads its data and has called nothing at all."""
    case.use("ddp", "fsdp", "coalesced")
    for group in case.job.groups.values():
        group.eager = False
    rank = case.rank()
    stop(case, rank, 1, "file")
    if case.rng.random() < 0.5:
        case.plan = asked_after(20, 280)
    case.truth = hang(ABSENT, [rank])


@newer("own")
def gone_before_the_creation(case: Case):
    group, rank = late_group(case)
    place = before_it(case, rank, group)
    case.ops(rank).insert(place, Op("exit", what=case.rng.choice(["exit", "killed"]), step=case.ops(rank)[place].step))
    case.truth = hang(ABSENT, [rank])
