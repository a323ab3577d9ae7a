#!/usr/bin/env python3
"""Asks all commands of titan-analyze about slow jobs: do they say the same of each, and nothing absurd?

  agreement.py --analyzer build/analyzer/titan-analyze --synth build/tests/synth/titan-synth      a few jobs
  agreement.py --analyzer ... --synth ... --fresh 100                        and 100 that nobody has tried
  agreement.py --analyzer ... --directory /tmp/jobs                          instead: those of generate.py
  agreement.py --analyzer ... --synth ... --keep /tmp/jobs                   and leaves the jobs there

Among the few are those that nobody plans for: of one rank, of three steps, stopped for a while, or half recorded.
"""
import argparse
import glob
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
from typing import List

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults  # noqa: E402
import generate  # noqa: E402
import reviewed  # noqa: E402
from answers import Answers  # noqa: E402

STOPPED_NS = 30e9
# Jobs of titan-synth: their name, and what it is asked for.
TIMED = {
    "even": ("none", "--steps", "30"),
    "late_gpu": ("kernels", "--at", "12", "--steps", "30"),
    "blocked": ("sync", "--at", "12", "--steps", "30"),
    "each_fifth": ("span", "--pattern", "periodic", "--every", "5", "--at", "3", "--steps", "40"),
    "once": ("span", "--pattern", "once", "--share", "4", "--at", "10"),
    "one_rank": ("kernels", "--at", "0", "--ranks", "1", "--hosts", "1", "--tp", "1", "--rank", "0"),
    "two_ranks": ("kernels", "--at", "10", "--ranks", "2", "--hosts", "1", "--tp", "1", "--rank", "1"),
    "three_steps": ("kernels", "--at", "0", "--steps", "3"),
    "short_steps": ("kernels", "--at", "5", "--step-ms", "1", "--steps", "60"),
    "long_steps": ("span", "--at", "5", "--step-ms", "600000"),
    "all_ranks": ("kernels", "--rank", "-1", "--at", "0", "--steps", "30"),
    "half_recorded": ("kernels", "--at", "5", "--ranks", "16", "--hosts", "4"),
}


class Stopped(generate.NewJob):
    """Something stops all its processes in the middle, and lets them go on 30 s later."""

    def __init__(self, seed: int):
        super().__init__(seed, "ddp", "none", small=True)
        middle = max(self.times) / 2
        self.times = [time + STOPPED_NS * (time > middle) for time in self.times]


class Twins(generate.NewJob):
    """Two GPUs are slow by the same."""

    def __init__(self, seed: int):
        super().__init__(seed, "ddp", "slow_gpu")
        for rank in (1, 2):
            one = faults.SlowGpu(random.Random(rank), self.layout, self.style, "x1.2", self.kind.name)
            one.ranks = one.among = [rank]
            self.parts = [*self.parts[-(rank - 1):], one] if rank > 1 else [one]
        self.cause = faults.Both(random.Random(0), self.layout, self.style, "", self.kind.name).join(*self.parts)
        self.training = self.play()
        self.times = self.training.graph.times(1)


def write(job: generate.Job, directory: str, name: str):
    """Without its truth."""
    place = os.path.join(directory, name)
    generate.Recorder(job.training, job.times, job.witness, job.cause, random.Random(name), name).write(place)


def make_few(synth: str, directory: str):
    for name, (fault, *more) in TIMED.items():
        subprocess.run([synth, os.path.join(directory, name), "--timed", "--run", name, "--fault", fault, *more],
                       check=True)
    for path in glob.glob(os.path.join(directory, "half_recorded", "**", "rank*[13579].0.titan"), recursive=True):
        os.remove(path)
    write(Stopped(3), directory, "stopped")
    write(Twins(54), directory, "twins")
    # Hosts that wait for their GPU every tenth step: one marks nothing, one marks its steps.
    write(generate.NewJob(285518140), directory, "ahead")
    # A checkpoint lies between the last step and the call that ends it, which is on record 64 ns early.
    write(generate.NewJob(15692338), directory, "cut_by_a_checkpoint")
    generate.make((directory, reviewed.ReviewedJob, 6042, None, None))
    for seed, family, fault in ((1, "moe", "slow_cpu"), (2, "megatron_1f1b", "last_stage"), (3, "fsdp2", "loader")):
        generate.make((directory, generate.NewJob, seed, family, fault, True))


def ask(task) -> List[str]:
    analyzer, place, other = task
    try:
        return Answers(analyzer, place, other).check()
    except (ValueError, KeyError, TypeError, AttributeError, subprocess.TimeoutExpired) as error:
        return ["%s: broken: %r" % (os.path.basename(place), error)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", required=True)
    parser.add_argument("--synth", help="titan-synth")
    parser.add_argument("--fresh", type=int, default=0, metavar="N", help="jobs of N fresh seeds, too")
    parser.add_argument("--directory", help="jobs that are there")
    parser.add_argument("--keep", help="where to leave the jobs")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if bool(given.directory) == bool(given.synth):
        parser.error("--directory or --synth, please")
    with tempfile.TemporaryDirectory() as place:
        where = given.directory or given.keep or place
        if given.synth:
            make_few(given.synth, where)
        if given.fresh:
            seed = random.SystemRandom().randrange(10**6, 10**9)
            print("seeds from %d on" % seed, flush=True)
            generate.main(["--out", where, "--new", "--seed", str(seed), "--seeds", str(given.fresh), "--jobs",
                           str(given.jobs)])
        places = sorted(os.path.join(where, name) for name in os.listdir(where))
        # Each is compared with another one.
        tasks = [(given.analyzer, one, places[i - 1]) for i, one in enumerate(places)]
        with multiprocessing.Pool(given.jobs) as pool:
            complaints = [one for found in pool.imap(ask, tasks) for one in found]
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
