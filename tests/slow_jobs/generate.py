#!/usr/bin/env python3
"""Writes slow training jobs, whose cause and cost are known.

  generate.py --out /tmp/new --new --seeds 0-19                jobs of real programs: /tmp/new/fsdp2-0/ and so on
  generate.py --out /tmp/more --reviewed --seeds 0-19          as a reviewer made them: /tmp/more/reviewed-0/ and so on

  generate.py --out /tmp/jobs --cause slow_link --seed 4       one job: /tmp/jobs/slow_link-4/
  generate.py --out /tmp/jobs --all --seeds 20 --jobs 2        20 jobs of every cause
  generate.py --list                                           the causes

Each job is a directory with dumps and truth.json. A cause and a seed give the same job everywhere."""
import argparse
import gc
import multiprocessing
import os
import random
import sys
import time
from typing import List, Optional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import causes  # noqa: E402
import families  # noqa: E402
import faults  # noqa: E402
import recorder  # noqa: E402
import reviewed  # noqa: E402
from layout import LAYOUTS, Layout, host_name  # noqa: E402
from recorder import Recorder, draw_witness, write_truth  # noqa: E402
from training import NAMES, Training, draw_style, step_means  # noqa: E402

TRIES = 8
# Jobs are many small objects and hardly a cycle: to look for these took a fifth of the time.
gc.set_threshold(200_000)


def find_scale(training: Training, wanted: float, most: bool) -> float:
    """What multiplies the cause so that it costs this share of a step (`most`: at most that), by regula falsi."""
    since = training.cause.since or 0
    without = step_means(training, training.graph.times(0), since)
    goal = wanted * without if most else without / (1 - wanted)
    low, high = (0.0, without), None
    scale = 1.0
    for _ in range(TRIES):
        cost = step_means(training, training.graph.times(scale), since)
        if most:
            if cost - without <= goal:
                return scale
            scale /= 2
            continue
        if abs(cost - goal) < 0.1 * (goal - without):
            return scale
        if cost < goal:
            low = (scale, cost)
        else:
            high = (scale, cost)
        if high is None:
            scale *= 4 if cost - without < 0.2 * (goal - without) else 2
        else:
            share = (goal - low[1]) / (high[1] - low[1])
            scale = low[0] + (high[0] - low[0]) * min(max(share, 0.1), 0.9)
    return scale if not most else 0.0


class Job:
    def __init__(self, name: str, seed: int):
        rng = random.Random("%s/%d" % (name, seed))
        self.name, self.seed = name, seed
        kind = causes.ALL[rng.choice(causes.TRANSIENT) if name == "transient" else name]
        flavour = kind.flavours[seed % len(kind.flavours)]
        layout = Layout(*rng.choice([one for one in LAYOUTS if kind.fits(Layout(*one), flavour)]))
        marks = rng.choice(list(NAMES))
        style = draw_style(rng, layout, marks)
        self.cause = cause = kind(rng, layout, style, flavour)
        late = rng.random() < 0.25
        if kind.can_start_late and cause.since is None and (late or name == "transient"):
            cause.start_late()
        self.training = Training(layout, style, cause, random.Random("noise/%s/%d" % (name, seed)))
        self.witness = draw_witness(rng, bool(cause.readings(cause.ranks[0] if cause.ranks else 0)))
        self.scale = 0.0
        if name != "even":
            harmless = kind.name in causes.HEALTHY
            self.scale = find_scale(self.training, kind.loss[1] if harmless else rng.uniform(*kind.loss), harmless)
        self.times = self.training.graph.times(self.scale)

    def truth(self) -> dict:
        cause, training, layout = self.cause, self.training, self.training.layout
        bare = training.graph.times(0)
        step, without = step_means(training, self.times), step_means(training, bare)
        since = cause.since
        found = {"cause": "none" if cause.name in causes.HEALTHY else cause.name, "flavour": cause.flavour,
                 "also": self.also(), "ranks": cause.ranks, "hosts": [host_name(host) for host in cause.hosts],
                 "stage": cause.stage, "since_step": None if since is None else training.style.first + since,
                 "step_ms": step, "step_ms_without": without, "loss_fraction": 1 - without / step}
        if since is not None:
            found["step_ms_since"] = step_means(training, self.times, since)
            found["step_ms_without_since"] = step_means(training, bare, since)
        if cause.name == "slow_link":
            found["hosts_among"] = [host_name(host) for host in sorted(cause.among)]
        if cause.stage is not None:
            found["step_ms_balanced"] = step_means(training, self.balanced())
        style = training.style
        found["job"] = {"name": self.name, "seed": self.seed, **layout.describe(), "scale": self.scale,
                        "style": style._asdict(), **self.witness.describe()}
        return found

    def balanced(self) -> List[float]:
        """Times where what the stage has too much is spread over all stages: work that somebody has to do."""
        graph, cause = self.training.graph, self.cause
        share = self.scale * sum(graph.extra) / len(cause.ranks) / self.training.layout.pp
        saved, graph.extra = graph.extra, [0.0] * len(graph.extra)
        for rank in self.training.work.ranks:
            own = sum(graph.own[node] for node in rank.kernels)
            for node in rank.kernels:
                graph.extra[node] = graph.own[node] * share / own
        times = graph.times(1)
        graph.extra = saved
        return times

    def also(self) -> list:
        """Classes that these records cannot tell from the cause; "none": they do not show it."""
        found = self.cause.also_of(self.training.style.marks)
        style, name, flavour = self.training.style, self.cause.name, self.cause.flavour
        on_device = name in causes.DEVICE_CAUSES and flavour not in ("processors", "host", "files")
        if on_device and self.witness.device == "off" and not style.sync_messages:
            found.append("none")  # hosts run ahead of devices, and all wait for the slowest at the same place
        return found

    def write(self, directory: str) -> dict:
        """Dumps, and truth.json beside them."""
        place = os.path.join(directory, "%s-%d" % (self.name, self.seed))
        os.makedirs(place, exist_ok=True)
        Recorder(self.training, self.times, self.witness, self.cause, random.Random("seen/%s/%d" % (
            self.name, self.seed)), "%s-%d" % (self.name, self.seed)).write(place)
        truth = self.truth()
        write_truth(place, truth)
        return truth


class NewJob(Job):
    """A program of families.py with a fault, two, or none: its seed draws them."""

    def __init__(self, seed: int, family: Optional[str] = None, fault: Optional[str] = None, small: bool = False):
        rng = random.Random("new/%d" % seed)
        drawn = rng.choice(list(families.FAMILIES))
        kind = families.FAMILIES[family or drawn]
        self.name, self.seed, self.key = kind.name, seed, "new/%d" % seed
        layout = kind.lay_out(rng, small)
        style = families.draw(kind, layout, rng)
        self.style = style = style._replace(steps=11, micro_batches=layout.pp) if small else style
        self.kind, self.layout, self.scale = kind, layout, 1.0
        many = not fault and seed % 4 != 0 and rng.random() < 0.12
        if fault == "none" or (fault is None and seed % 4 == 0):
            parts = []
        else:
            parts = [faults.draw(self.key, layout, style, kind.name, fault)]
            if many:
                others = (faults.draw("%s/%d" % (self.key, i), layout, style, kind.name) for i in range(99))
                parts.append(next(other for other in others if other.name != parts[0].name))
        self.parts = parts
        bare = faults.healthy(layout, style, kind.name)
        self.cause = parts[0] if len(parts) == 1 else bare if not parts else faults.Both(
            random.Random(0), layout, style, "", kind.name).join(*parts)
        self.witness = draw_witness(rng, False)
        self.training = self.play()
        self.times = self.training.graph.times(1)

    def play(self) -> Training:
        return self.kind(self.layout, self.style, self.cause, random.Random("noise/" + self.key))

    def without(self, part: faults.Fault, since: int) -> float:
        """What a step takes without that fault."""
        if len(self.parts) == 1:
            return step_means(self.training, self.training.graph.times(0), since)
        for one in self.parts:
            one.__init__(*self.drawn(one))
            one.muted = one is part
        other = self.play()
        return step_means(other, other.graph.times(1), since)

    def drawn(self, part: faults.Fault) -> tuple:
        return random.Random(part.seed), self.layout, self.style, part.flavour, self.kind.name

    def truth(self) -> dict:
        style, layout = self.style, self.layout
        step = step_means(self.training, self.times)
        told = []
        for part in self.parts:
            one = {"fault": part.name, "flavour": part.flavour, "classes": part.also_of(style.marks),
                   "ranks": part.ranks, "among": part.among, "any_of": part.any_of,
                   "hosts": [host_name(host) for host in part.hosts],
                   "stage": part.stage, "since_step": None if part.since is None else style.first + part.since}
            told.append((part, one))
        for part, one in told:
            since = part.since or 0
            one["step_ms_without"] = self.without(part, 0)
            one["share"] = 1 - one["step_ms_without"] / step
            one["share_since"] = 1 - self.without(part, since) / step_means(self.training, self.times, since)
        said = sorted((one for _, one in told), key=lambda one: -one["share"])
        first = said[0] if said else {"fault": "none", "flavour": "", "classes": [], "ranks": [], "among": [],
                                      "any_of": [], "hosts": [], "stage": None, "since_step": None,
                                      "step_ms_without": step,
                                      "share": 0.0, "share_since": 0.0}
        return {"family": self.kind.name, "cause": first["fault"], **first, "second": said[1] if said[1:] else None,
                "faults": len(said), "step_ms": step, "loss_fraction": first["share"],
                "job": {"name": self.name, "seed": self.seed, **layout.describe(), "scale": 1.0,
                        "style": style._asdict(), **self.witness.describe()}}


def make(task) -> str:
    directory, make_job, seed, *which = task
    begun = time.monotonic()
    truth = (make_job(seed, *which) if callable(make_job) else Job(make_job, seed)).write(directory)
    return "%-24s %-24s %3d ranks  step %6.1f ms, without %6.1f ms, loss %4.1f %%  (%.1f s)" % (
        "%s-%d" % (truth["job"]["name"], seed), "%s %s" % (truth["cause"], truth["flavour"]), truth["job"]["world"],
        truth["step_ms"], truth["step_ms_without"], 100 * truth["loss_fraction"], time.monotonic() - begun)


def main(arguments: Optional[list] = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="directory to write jobs to")
    parser.add_argument("--cause", choices=causes.NAMES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="every cause")
    parser.add_argument("--seeds", default="1", help="jobs of each cause, from --seed on; or A-B, from A to B")
    parser.add_argument("--new", action="store_true", help="programs as real frameworks write them")
    parser.add_argument("--reviewed", action="store_true", help="programs as an independent reviewer wrote them")
    parser.add_argument("--family", choices=sorted({*families.FAMILIES, *reviewed.FAULTS}),
                        help="of --new and --reviewed: this one")
    parser.add_argument("--fault", choices=["none"] + sorted({fault.name for fault in faults.FAULTS}.union(
        *reviewed.FAULTS.values())), help="likewise")
    parser.add_argument("--jobs", type=int, default=1, help="processes that make them")
    parser.add_argument("--marks", metavar="METHOD[/N]",
                        help="how the GPU is observed in all jobs: a method (METHOD/N: one step of N), or budget/N: "
                        "writes in one step of N, events in the others")
    parser.add_argument("--list", action="store_true", help="list the causes")
    given = parser.parse_args(arguments)
    if given.list:
        for name in causes.NAMES:
            print(name, *causes.ALL[name].flavours if name in causes.ALL else causes.TRANSIENT)
        return
    if not given.out or given.all + bool(given.cause) + given.new + given.reviewed != 1:
        parser.error("--out and one of --cause, --all, --new and --reviewed, please")
    if given.marks:
        method, _, count = given.marks.partition("/")
        count = int(count or 1)
        recorder.ALL_AS = ({"device": "events", "sample": 1, "full_of": count} if method == "budget" else
                           {"device": method, "sample": count})
    first, _, last = given.seeds.rpartition("-")
    seeds = range(int(first), int(last) + 1) if first else range(given.seed, given.seed + int(last))
    if given.new or given.reviewed:
        make_job = NewJob if given.new else reviewed.ReviewedJob
        tasks = [(given.out, make_job, seed, given.family, given.fault) for seed in seeds]
    else:
        tasks = [(given.out, name, seed) for name in (causes.NAMES if given.all else [given.cause]) for seed in seeds]
    with multiprocessing.Pool(given.jobs) as pool:
        for line in pool.imap(make, tasks):
            print(line, flush=True)


if __name__ == "__main__":
    main()
