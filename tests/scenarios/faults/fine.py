"""Healthy jobs: whatever is said of them is a false alarm."""

import damage
import jobs
from case import Case, scale
from engine import MS, S
from faults.table import fault
from truth import healthy


def fine(case: Case, *names: str, when: str = "middle", **more):
    case.use(*names)
    case.must_hang = False
    case.when = when
    case.truth = healthy()
    for name, value in more.items():
        setattr(case, name, value)


@fault
def healthy_mid_step(case: Case):
    fine(case)


@fault
def healthy_finished(case: Case):
    fine(case, when="finished")


@fault
def healthy_files_apart(case: Case):
    fine(case)
    scale(case.job, 300)
    case.apart_ns = case.rng.randrange(1, 60) * S


@fault
def healthy_long_steps(case: Case):
    fine(case)
    scale(case.job, 3000)


@fault
def healthy_clocks_off(case: Case):
    fine(case)
    scale(case.job, case.rng.choice([1, 30]))
    case.job.per_host = 2
    case.settings.clocks_off_ns = 3 * S


@fault
def healthy_uneven_work(case: Case):
    fine(case)
    factors = {rank: 1 + case.rng.random() for rank in range(case.job.world)}
    case.prepare.append(lambda engine: engine.host_factor.update(factors))
    case.prepare.append(lambda engine: setattr(engine, "jitter", 0.4))


@fault
def healthy_wrapped(case: Case):
    fine(case, may_wrap=1.0)


@fault
def healthy_coalesced_small_ring(case: Case):
    fine(case, "coalesced")
    case.ring = case.rng.randrange(7, 20)
    case.apart_ns = case.rng.choice([50 * MS, 3 * S])
    scale(case.job, case.rng.choice([1, 50]))


@fault
def healthy_uneven_gathers(case: Case):
    case.job = jobs.coalesced(case.rng, case.rng.choice([3, 4, 8]), case.steps, uneven=True)
    case.must_hang = False
    case.when = "middle"
    case.truth = healthy()


@fault
def healthy_background_thread(case: Case):
    case.job = jobs.background(case.rng, case.rng.choice([2, 4, 8]), case.steps)
    case.must_hang = False
    case.when = "middle"
    case.truth = healthy()


@fault
def healthy_files_copied_without_times(case: Case):
    fine(case)
    case.after.append(damage.copied_without_times(case.rng.choice([2, 30, 200])))


@fault
def healthy_one_rank(case: Case):
    case.job = jobs.one_rank(case.rng, case.steps)
    case.must_hang = False
    case.when = "middle"
    case.truth = healthy()


@fault
def no_straggler_in_noise(case: Case):
    case.steps = 30
    fine(case, "ddp", "fsdp", "hsdp", when="finished")
    case.prepare.append(lambda engine: setattr(engine, "jitter", 0.5))
