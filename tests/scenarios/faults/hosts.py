"""Hosts that do not come: stuck, dead, or in the creation of a communicator."""

import jobs
from case import Case, Retry
from faults.table import WIDE, fault
from program import COMMUNICATION, Op
from truth import ABSENT, Cause, Truth, hang


def stop(case: Case, rank: int, place: int, what: str = "python"):
    case.ops(rank).insert(place, Op("stuck", what=what, step=case.ops(rank)[place].step))


@fault
def stuck_in_code_before_a_call(case: Case):
    case.use()
    rank = case.rank()
    stop(case, rank, case.place(rank))
    case.truth = hang(ABSENT, [rank])


@fault
def one_in_its_data_loader(case: Case):
    case.use()
    rank = case.rank()
    loads = [i for i, op in enumerate(case.ops(rank)) if op.kind == "host" and op.what == "data"
             and 2 <= op.step < case.steps - 2]
    if not loads:
        raise Retry
    stop(case, rank, case.rng.choice(loads), "data")
    case.truth = hang(ABSENT, [rank])


def ends(case: Case, how: str = "exit") -> int:
    case.use()
    rank = case.rank()
    place = case.place(rank)
    case.ops(rank).insert(place, Op("exit", what=how, step=case.ops(rank)[place].step))
    case.truth = hang(ABSENT, [rank])
    return rank


@fault
def exited_without_dump(case: Case):
    ends(case)


@fault
def killed_without_dump(case: Case):
    """SIGKILL, as the kernel's OOM killer sends it."""
    ends(case, "killed")


@fault
def launcher_ended_all(case: Case):
    """Only rings are left: of the first to die, and of the others, which the launcher ended a second later."""
    ends(case, case.rng.choice(["killed", "exit"]))
    case.when = "launcher"
    case.settings.as_rings = case.rng.random() < 0.5  # nobody has collected them yet


@fault
def exited_with_its_own_dump(case: Case):
    """An exception: its handler dumps (torch.distributed's _dump_nccl_trace), the others dump at their timeout."""
    rank = ends(case)
    case.after.append(lambda c, directory, writer: writer.write(directory, rank, c.engine.dead_ns[rank]))


@fault
def killed_after_issuing(case: Case):
    """Gone with calls that it had issued and its GPU never came to."""
    case.use(*WIDE)
    rank = case.rank()
    place = case.place(rank)
    case.ops(rank)[place:place] = [Op("gpu_hang")]
    case.ops(rank).insert(place + 2, Op("exit"))
    case.truth = hang(ABSENT, [rank])


@fault
def first_collective(case: Case):
    case.use("ddp", "fsdp", "coalesced", "hsdp")
    for group in case.job.groups.values():
        group.eager = True
    rank = case.rank()
    stop(case, rank, case.place(rank, first_step=0, last_step=0))
    case.truth = hang(ABSENT, [rank])


@fault
def no_entries_at_the_first_call(case: Case):
    """All but one are in ncclCommInitRank; nothing is recorded yet of anything."""
    case.use("ddp", "fsdp", "coalesced")
    rank = case.rank()
    stop(case, rank, 1)
    case.when = "by_hand"
    if case.own:
        case.truth = hang(ABSENT, [rank])
    else:
        case.truth = hang(ABSENT, [rank], silent_is_right=True, among=range(case.job.world),
                          note="the files are empty: nothing can be told")


@fault
def hang_in_a_lazy_group(case: Case):
    world = case.rng.choice([4, 8])
    case.job = jobs.lazy_group(case.rng, world, case.steps, ranks=sorted(case.rng.sample(range(world), world - 1)))
    group = case.job.groups["1"]
    rank = case.rng.choice(group.ranks)
    for member in group.ranks:
        ops = case.ops(member)
        place = next(i for i, op in enumerate(ops) if op.kind in COMMUNICATION and op.group is group)
        ops.insert(place + 1, ops[place].copy(name="all_reduce", inputs=[[512]], outputs=[[512]]))
        if member == rank:
            stop(case, rank, place + 1)
    case.truth = hang(ABSENT, [rank])


@fault
def lazy_group_stuck_in_init(case: Case):
    """Members wait in ncclCommInitRank for one: none of them has an entry, and all of them look alike."""
    world = case.rng.choice([4, 8])
    ranks = sorted(case.rng.sample(range(world), world // 2))
    case.job = jobs.lazy_group(case.rng, world, case.steps, ranks=ranks)
    group = case.job.groups["1"]
    rank = case.rng.choice(ranks)
    place = next(i for i, op in enumerate(case.ops(rank)) if op.kind in COMMUNICATION and op.group is group)
    stop(case, rank, place)
    if case.own:
        case.truth = hang(ABSENT, [rank])
        return
    case.truth = Truth("hang", [Cause(ABSENT, ranks)], weaker=[Cause(ABSENT, [rank])],
                       note="rank %d is the one that does not come; the records show that all members are away" % rank)


@fault
def checkpoint_thread_stuck(case: Case):
    """A background thread with a group of its own does not come to its call; the training goes on."""
    case.job = jobs.background(case.rng, case.rng.choice([3, 4, 8]), case.steps)
    rank = case.rank()
    program = next(program for of, program in case.job.threads if of == rank)
    places = [i for i, op in enumerate(program.ops) if op.kind == "call" and 2 <= op.step <= case.steps - 3]
    program.ops.insert(case.rng.choice(places), Op("stuck", what="python"))
    case.truth = hang(ABSENT, [rank])
