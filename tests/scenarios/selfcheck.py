#!/usr/bin/env python3
"""Checks the generator alone: jobs finish when nothing is wrong, every class can be made and is what it says, a number
makes the same files twice, and PyTorch's own loader reads them (where PyTorch is installed)."""

import filecmp
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import case as cases  # noqa: E402
import courage  # noqa: E402
import engine  # noqa: E402
import faults  # noqa: E402
import jobs  # noqa: E402
import newer_jobs  # noqa: E402
import run  # noqa: E402
from recorders.flight_recorder import VERSIONS  # noqa: E402

LARGE = {"one_of_128_3d", "one_of_512"}


def check(holds: bool, what: str):
    if not holds:
        raise SystemExit("selfcheck: " + what)


def jobs_finish():
    for name, make in {**jobs.USUAL, **newer_jobs.NEWER}.items():
        rng = random.Random(name)
        run = engine.Engine(make(rng, 3), rng)
        run.run(3600 * engine.S)
        check(all(host.done for host in run.hosts), name + " does not finish")
        check(all(record.item is None or record.item.end_ns is not None for rows in run.records for record in rows),
              name + " leaves a call unfinished")


def classes_hold():
    for number, name in enumerate(faults.LABELS + faults.NEW_LABELS):
        if name in LARGE or (name.startswith(cases.OWN) and number % 6):
            continue  # of titantrace's dumps a few will do: their truth is that of the others
        with tempfile.TemporaryDirectory() as directory:
            case = cases.build(name, number, directory)
            truth = case.truth
            check(bool(os.listdir(directory)), name + " writes no file")
            if truth.outcome == "hang":
                check(case.hangs() and bool(truth.causes), name + " does not hang, or nobody is guilty")
            elif truth.outcome == "healthy":
                check((truth.over or not case.hangs()) and not truth.causes, name + " is not healthy")
            for cause in truth.causes + truth.weaker + truth.beside:
                check(all(0 <= rank < case.job.world for rank in cause.ranks), name + " accuses no rank of the job")


def files_below(directory: str) -> list:
    return sorted(os.path.relpath(os.path.join(place, name), directory) for place, _, names in os.walk(directory)
                  for name in names)


def numbers_decide():
    for name in ("stuck_in_code_before_a_call", "send_left_out", "stale_file_of_the_culprit", "thread_stuck",
                 "own:polling_threads", "own:one_not_at_the_barrier", "own:dumped_then_killed",
                 "own:two_jobs_of_one_name"):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            cases.build(name, 7, one)
            cases.build(name, 7, two)
            names = files_below(one)
            same, other, errors = filecmp.cmpfiles(one, two, names, shallow=False)
            check(not other and not errors and names == files_below(two), name + " differs from run to run")
            if name.startswith(cases.OWN):
                continue  # nothing depends on the times of those files
            times = [[os.stat(os.path.join(d, n)).st_mtime_ns for n in names] for d in (one, two)]
            check(times[0] == times[1], name + ": times of files differ from run to run")


def courage_is_asked():
    name = faults.LABELS[0]
    known = {"first": {name: {"fixed": [0, len(faults.LABELS)], "certain": 10, "of": 20}}}

    def short(fixed, fresh, known=known):
        rows = [(name, place * len(faults.LABELS), bold) for place, bold in enumerate(fixed)]
        rows += [(name, courage.FIXED["first"] + place, bold) for place, bold in enumerate(fresh)]
        return courage.shortfalls(rows, "first", known)
    check(not short([True, True], []) and not short([], [True] * 6 + [False] * 10), "courage: enough is too little")
    check(bool(short([True, False], [])), "courage: a fixed case may become timid")
    check(bool(short([], [False] * 24)), "courage: fresh cases may all be timid")
    few = {"first": {name: {"fixed": [], "certain": 11, "of": 12}}}
    check(not short([], [True] + [False] * 7 + [True] * 2, few), "courage: what chance makes of twelve cases counts")
    check(bool(short([], [False] * 10, few)), "courage: all of ten cases may become timid")
    check(not short([True], []), "courage: a case that was not asked is missed")
    raised = courage.raised([(name, courage.FIXED["first"], False)], "first", known)
    check(raised == known, "courage: the floor falls")


def few_alarms_pass():
    check(run.most_alarms(0.001, 90, 0) == 1, "floor: fixed cases may give more than one false alarm")
    check(run.most_alarms(0.001, 0, 507) == 4, "floor: chance fails one run in five, or more false alarms pass")
    check(run.most_alarms(0.006, 0, 468) == 9, "floor: of the recorder's own more pass than are no chance")
    check(run.most_alarms(0, 0, 500) == 0, "floor: where none is promised, one passes")


def torch_reads_them():
    try:
        from torch.distributed.flight_recorder.components.loader import read_dump
    except ImportError:
        print("selfcheck: no PyTorch here: its loader is not tried")
        return
    number = entries = 0
    with tempfile.TemporaryDirectory() as directory:
        while cases.build("healthy_mid_step", number, directory).settings.format != "pickle":
            number += 1
        for name in os.listdir(directory):
            dump = read_dump("nccl_trace_rank_", os.path.join(directory, name))
            check(dump["version"] in VERSIONS, "PyTorch's loader does not know " + name)
            entries += len(dump["entries"])
    check(entries > 0, "PyTorch's loader finds no entries")


if __name__ == "__main__":
    jobs_finish()
    classes_hold()
    numbers_decide()
    courage_is_asked()
    few_alarms_pass()
    torch_reads_them()
    print("selfcheck: %d classes" % len(faults.LABELS + faults.NEW_LABELS))
