#!/usr/bin/env python3
"""Usage: tests/pytorch/overhead.py --build DIR [--rounds N] [--steps N] [--ranks N]

What the preload costs programs/ddp.py on the simulated node: steps per second of rank 0, and processor time per step of
its process (all its threads, ours included), with and without the preload. Runs take turns; a round is one of each, in
alternating order. Printed are the means, and the mean of the ratios with its 95 % confidence interval (Student's t over
the rounds).
"""
import argparse
import math
import os
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
import job  # noqa: E402

# The 97.5 % quantile of Student's t, by degrees of freedom; beyond them the normal one is near enough.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 15: 2.13,
           20: 2.09, 30: 2.04}
FIGURES = re.compile(r"([\d.]+) steps/s, ([\d.]+) ms of processors a step")


def measured(options, preload):
    place = harness.Place()
    try:
        ran = job.start(place, "ddp", "--steps", options.steps, preload=preload, ranks=options.ranks)
        if ran.wait(300) != 0:
            sys.exit(f"ddp.py ended with {ran.status}:\n{ran.stderr[-2000:]}")
        return [float(figure) for figure in FIGURES.search(ran.stdout).groups()]
    finally:
        place.close()


def interval(ratios):
    """Mean and half of the 95 % confidence interval."""
    degrees = len(ratios) - 1
    known = [number for number in STUDENT if number <= degrees]
    return statistics.mean(ratios), STUDENT[max(known)] * statistics.stdev(ratios) / math.sqrt(len(ratios))


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2")
    harness.BUILD = options.build.resolve()
    plain, traced = [], []
    for turn in range(options.rounds):
        for preload in (False, True) if turn % 2 == 0 else (True, False):
            (traced if preload else plain).append(measured(options, preload))
        print(f"round {turn + 1}: without {plain[-1][0]:.1f} steps/s {plain[-1][1]:.3f} ms, with {traced[-1][0]:.1f} "
              f"steps/s "
              f"{traced[-1][1]:.3f} ms; load average {os.getloadavg()[0]:.1f}", flush=True)
    print(f"{options.rounds} rounds, {options.ranks} ranks, {options.steps} steps, {os.cpu_count()} processors, "
          f"simulated node")
    for place, name in enumerate(("steps per second", "ms of processors per step")):
        mean, half = interval([with_[place] / without[place] for without, with_ in zip(plain, traced)])
        print(f"{name}: without {statistics.mean(row[place] for row in plain):.3f}, with "
              f"{statistics.mean(row[place] for row in traced):.3f}; ratio {mean:.4f} +- {half:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
