#!/usr/bin/env python3
"""Generates cases of distributed PyTorch jobs that go wrong (or do not), asks titan-analyze, and counts the answers.

  run.py --analyzer build/analyzer/titan-analyze --count 300            the first 300 cases
  run.py --analyzer ... --class send_to_the_wrong_peer --count 12 -v    one class, with each answer that is not right
  run.py --analyzer ... --seed 100000 --count 5000 --jobs 2             5,000 other cases
  run.py --analyzer ... --set new --count 100 --floor                   the newer classes, which have their own numbers
  run.py --analyzer ... --keep /tmp/wrong                               keep the files of what is not right
  run.py --analyzer ... --floor                                         exit status 1 unless the floor is met
  run.py --analyzer ... --again 650010439,650011250                     these cases: exit status 1 unless all are right

A case is a number: --seed is the first one, and the same number gives the same files everywhere. The table counts by
class: right, partly (the guilty rank is named, but not first or not alone), wrong, and how many of those not right were
called certain. The floor asks courage, too: as many certain and right as were before (courage.py).
"""

import argparse
import json
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import case as cases  # noqa: E402
import courage  # noqa: E402
import faults  # noqa: E402
import judge  # noqa: E402
from recorders import titan  # noqa: E402

# Of each set and recorder: least share of right answers, most false alarms for each healthy run (most_alarms). Of each
# set: most answers that are certain and wrong, for each case. Seen on 5,000 fresh ones: 99.6 and 98.9 % right of the
# first set, 98.3 and 99.5 % of the new one; as much lower as is no chance for the number of cases that the night asks
# about.
FLOOR = {"first": {"flight_recorder": (0.985, 0.001), "titan": (0.975, 0.006)},
         "new": {"flight_recorder": (0.955, 0.001), "titan": (0.98, 0.001)}}
CHANCE = 1e-3  # that fresh cases have more false alarms, though the share of healthy runs that give one is as here
MOST_CERTAIN_WRONG = {"first": 0.0, "new": 0.001}


def class_of(number: int, names=faults.LABELS) -> str:
    return names[number % len(names)]


def one(work) -> dict:
    name, number, analyzer, keep, scratch = work
    directory = tempfile.mkdtemp(prefix="%s.%d." % (name, number), dir=scratch)
    try:
        began = time.monotonic()
        case = cases.build(name, number, directory)
        made = time.monotonic()
        answer = judge.ask(analyzer, directory)
        result = judge.judge(case.truth, answer)
        row = {**case.describe(), "result": result.result, "why": result.why, "said": result.said,
               "certain_wrong": result.certain_wrong, "also_certain_wrong": result.also_certain_wrong,
               "head": answer.findings[0]["summary"] if answer.findings else "",
               "make_s": round(made - began, 3), "ask_s": round(time.monotonic() - made, 3)}
        if keep and (result.result != "right" or result.also_certain_wrong):
            target = os.path.join(keep, "%s.%d" % (name, number))
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(directory, target)  # copy2 keeps the times
            with open(os.path.join(keep, "%s.%d.json" % (name, number)), "w") as file:
                json.dump(row, file, indent=1)
        return row
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def table(rows: list, out):
    names = [name for name in faults.LABELS + faults.NEW_LABELS if any(row["class"] == name for row in rows)]
    print("%-40s %7s %7s %7s %14s" % ("class", "right", "partly", "wrong", "certain wrong"), file=out)

    def line(title, some):
        counts = [sum(row["result"] == result for row in some) for result in ("right", "partly", "wrong")]
        print("%-40s %3d/%-3d %7s %7s %14s" % (title, counts[0], len(some), counts[1] or "", counts[2] or "",
                                               sum(row["certain_wrong"] for row in some) or ""), file=out)
    for name in names:
        line(name, [row for row in rows if row["class"] == name])
    line("all", rows)
    print(file=out)
    for said in ("certain", "likely", "possible", "nothing"):
        some = [row for row in rows if row["said"] == said]
        if some:
            line("said: " + said, some)
    for title, test in CONDITIONS:
        some = [row for row in rows if test(row)]
        if some:
            line(title, some)
    fine = [row for row in rows if row["truth"]["outcome"] == "healthy"]
    print("\nfalse alarms: %d of %d healthy runs; certain and wrong: %d; certain and wrong behind the head: %d" % (
        sum(row["result"] != "right" for row in fine), len(fine), sum(row["certain_wrong"] for row in rows),
        sum(row["also_certain_wrong"] for row in rows)), file=out)
    print("made in %.0f ms a case, answered in %.0f ms" % (1000 * sum(row["make_s"] for row in rows) / len(rows),
                                                           1000 * sum(row["ask_s"] for row in rows) / len(rows)),
          file=out)


CONDITIONS = [
    ("wrapped rings", lambda row: row["wrapped"]),
    ("whole rings", lambda row: not row["wrapped"]),
    ("timed", lambda row: row.get("timing")),
    ("not timed", lambda row: not row.get("timing")),
    ("JSON", lambda row: row.get("format") == "json"),
]


def most_alarms(share: float, fixed: int, fresh: int) -> int:
    """False alarms that pass, of so many healthy runs. Of fixed cases the same ones always give one: one may. Of fresh
    ones as many may as are no chance (Poisson)."""
    most, chance = 0, math.exp(-share * fresh)
    more = 1 - chance
    while more > CHANCE:
        most += 1
        chance *= share * fresh / most
        more -= chance
    return most + (max(1, int(share * fixed)) if fixed else 0)


def floor(rows: list, which: str) -> int:
    """0 where the floor is met: no answer certain and wrong, enough of each recorder's right, few false alarms, and
    enough of each class certain and right."""
    met = sum(row["certain_wrong"] for row in rows) <= MOST_CERTAIN_WRONG[which] * len(rows)
    for recorder, (least_right, share_of_alarms) in FLOOR[which].items():
        some = [row for row in rows if row["recorder"] == recorder]
        if not some:
            continue
        right = sum(row["result"] == "right" for row in some) / len(some)
        fine = [row for row in some if row["truth"]["outcome"] == "healthy"]
        alarms = sum(row["result"] != "right" for row in fine)
        fixed = sum(row["number"] < courage.FIXED[which] for row in fine)
        most = most_alarms(share_of_alarms, fixed, len(fine) - fixed)
        met = met and right >= least_right and alarms <= most
        print("%s: %.1f %% right (%.0f %% needed), %d false alarms in %d (%d at most)" % (
            recorder, 100 * right, 100 * least_right, alarms, len(fine), most))
    timid = courage.shortfalls(bold(rows), which)
    for line in timid:
        print("timid: " + line)
    met = met and not timid
    print("counted: %d cases, %d right, %d certain and right, %d certain and wrong: floor %s" % (
        len(rows), sum(row["result"] == "right" for row in rows), sum(certain for _, _, certain in bold(rows)),
        sum(row["certain_wrong"] for row in rows), "met" if met else "NOT met"))
    return 0 if met else 1


def bold(rows: list) -> list:
    return [(row["class"], row["number"], courage.is_bold(row["result"], row["said"])) for row in rows]


def first_case(text: str) -> int:
    if text != "fresh":
        return int(text)
    seed = 1000 + time.time_ns() // 1000 % 10**12
    print("seed %d" % seed, flush=True)
    return seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", required=True, metavar="PATH", help="the titan-analyze to ask")
    parser.add_argument("--count", type=int, default=1000, help="how many cases (default: 1000)")
    parser.add_argument("--seed", type=first_case, default=0, metavar="SEED",
                        help='number of the first case (default: 0); "fresh": one by the clock, which is printed')
    parser.add_argument("--set", dest="which", default="first", choices=list(faults.SETS),
                        help="the classes: first (default) or new; the same number is another case in each")
    parser.add_argument("--class", dest="only", action="append", metavar="NAME",
                        choices=sorted(faults.LABELS + faults.NEW_LABELS),
                        help="only this class (repeatable); --help-classes lists them")
    parser.add_argument("--keep", metavar="DIR", help="keep files, answer and truth of cases that are not right")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)")
    parser.add_argument("--json", metavar="OUT", help="write every case with its answer as one JSON list")
    parser.add_argument("--floor", action="store_true",
                        help="exit status 1 unless enough are right, enough of these certain, and no certain is wrong")
    parser.add_argument("--raise-floor", action="store_true",
                        help="write into courage.json how many are certain and right, of classes where it is more")
    parser.add_argument("--again", type=lambda text: [int(number) for number in text.split(",")], metavar="N,N",
                        help="only the cases with these numbers; exit status 1 unless all are right")
    parser.add_argument("--marks", choices=["writes", "events", "4", "16"],
                        help="how the GPU is observed in all cases that are observed without times: a method, or under "
                        "a budget that gives writes to one step of 4 or 16 (default: the case draws it)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each case that is not right")
    parser.add_argument("--help-classes", action="version", help="list the classes",
                        version="\n".join(name + ":\n  " + "\n  ".join(labels)
                                          for name, labels in faults.SETS.items()))
    args = parser.parse_args()
    if args.marks:
        steps = int(args.marks) if args.marks.isdigit() else 1
        titan.ALL_AS = (titan.WRITES if args.marks == "writes" else titan.EVENTS, steps)
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix="scenarios.")
    numbers = args.again or range(args.seed, args.seed + args.count)
    names = args.only or faults.SETS[args.which]
    work = [(class_of(number, names), number, os.path.abspath(args.analyzer), args.keep, scratch)
            for number in numbers]
    rows = []
    try:
        with multiprocessing.Pool(args.jobs) as pool:
            for row in pool.imap_unordered(one, work, chunksize=4):
                rows.append(row)
                if args.verbose and (row["result"] != "right" or row["also_certain_wrong"]):
                    print("%s %d (%s, %s): %s: %s | %s | truth %s" % (
                        row["class"], row["number"], row["job"], "wrapped" if row["wrapped"] else "whole",
                        row["result"],
                        row["why"], row["head"], [cause["ranks"] for cause in row["truth"]["causes"]]), flush=True)
                if sys.stderr.isatty():
                    print("\r%d of %d, %d right " % (len(rows), len(work), sum(r["result"] == "right" for r in rows)),
                          end="", file=sys.stderr)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    rows.sort(key=lambda row: row["number"])
    table(rows, sys.stdout)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
    if args.raise_floor:
        courage.save(courage.raised(bold(rows), args.which, courage.load()))
    if args.again:
        return 0 if all(row["result"] == "right" for row in rows) else 1
    return floor(rows, args.which) if args.floor else 0


if __name__ == "__main__":
    sys.exit(main())
