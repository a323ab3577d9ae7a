#!/usr/bin/env python3
"""Writes slow training jobs, whose cause and cost are known.

  generate.py --out /tmp/jobs --cause slow_link --seed 4       one job: /tmp/jobs/slow_link-4/
  generate.py --out /tmp/jobs --all --seeds 20 --jobs 2        20 jobs of every cause
  generate.py --list                                           the causes

Each job is a directory with dumps and truth.json. A cause and a seed give the same job everywhere."""
import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from typing import List, Optional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import causes  # noqa: E402
from layout import LAYOUTS, Layout, host_name  # noqa: E402
from recorder import Recorder, draw_witness  # noqa: E402
from training import NAMES, Training, draw_style, step_means  # noqa: E402

TRIES = 8


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
        place = os.path.join(directory, "%s-%d" % (self.name, self.seed))
        os.makedirs(place, exist_ok=True)
        Recorder(self.training, self.times, self.witness, self.cause, random.Random("seen/%s/%d" % (
            self.name, self.seed)), "%s-%d" % (self.name, self.seed)).write(place)
        truth = self.truth()
        with open(os.path.join(place, "truth.json"), "w") as file:
            json.dump(truth, file, indent=1)
            file.write("\n")
        return truth


def make(task) -> str:
    directory, name, seed = task
    begun = time.monotonic()
    truth = Job(name, seed).write(directory)
    return "%-24s %-10s %3d ranks  step %6.1f ms, without %6.1f ms, loss %4.1f %%  (%.1f s)" % (
        "%s-%d" % (name, seed), truth["flavour"], truth["job"]["world"], truth["step_ms"], truth["step_ms_without"],
        100 * truth["loss_fraction"], time.monotonic() - begun)


def main(arguments: Optional[list] = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="directory to write jobs to")
    parser.add_argument("--cause", choices=causes.NAMES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="every cause")
    parser.add_argument("--seeds", type=int, default=1, help="jobs of each cause, from --seed on")
    parser.add_argument("--jobs", type=int, default=1, help="processes that make them")
    parser.add_argument("--list", action="store_true", help="list the causes")
    given = parser.parse_args(arguments)
    if given.list:
        for name in causes.NAMES:
            print(name, *causes.ALL[name].flavours if name in causes.ALL else causes.TRANSIENT)
        return
    if not given.out or not (given.all or given.cause):
        parser.error("--out and one of --cause and --all, please")
    tasks = [(given.out, name, seed) for name in (causes.NAMES if given.all else [given.cause])
             for seed in range(given.seed, given.seed + given.seeds)]
    with multiprocessing.Pool(given.jobs) as pool:
        for line in pool.imap(make, tasks):
            print(line, flush=True)


if __name__ == "__main__":
    main()
