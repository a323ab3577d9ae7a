#!/usr/bin/env python3
"""kill -9 at random instants: every ring can be read, and the verdict names the rank that was killed or says that it is
not sure.

    storm_kills.py --build DIR --rounds 1000 [--seed N] [--keep DIR] DIR: gets the files of the rounds that were not
    right

In each round one of four ranks is killed between the job's start and its 200th step or so; then, at once or up to half
a second later, the others: at first what the launcher does, then as a node's end would look. What is read are the
rings, and the dumps where the ranks make some.
"""

import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import threading
import time

import storm
from storm import harness

RANKS = 4
NOT_BEGUN = ("the ring was never finished", "empty file")  # killed while it made its ring
AT_ONCE = 3  # rounds: they mostly wait
LEAST_RIGHT = 0.5  # of the rounds in which all ranks had recorded a call; less would be no recorder


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Kills(harness.Case):
    def one(self, seed):
        chance = random.Random(seed)
        place = harness.Place()
        try:
            result, said = self.judged(place, chance, f"seed {seed}")
            if storm.KEEP and result not in ("right", "before the first call"):
                shutil.copytree(place.path, pathlib.Path(storm.KEEP) / result / str(seed))
            return result, said
        finally:
            place.close()

    def judged(self, place, chance, label):
        dump_on = chance.choice(("none", None))
        job = place.start([harness.stand_ins() / "titan-sim", "--ranks", RANKS, "--tp", 2, "--steps", 100000,
                           "--step-ms", 1,
                           "--pid-file", place.path / "pids"], place.env(TITANTRACE_DUMP_ON=dump_on))
        pids = harness.wait_for(lambda: self.pids(place), 30, "the job starts")
        victim = chance.randrange(RANKS)
        time.sleep(chance.uniform(0, 0.6))
        kill(pids[victim])
        time.sleep(chance.choice((0, 0.05, 0.5)))
        for number in (signal.SIGTERM, signal.SIGKILL):
            for rank, pid in pids.items():
                kill(pid, number)
            time.sleep(0.02)
        job.wait(30)
        analysis = place.analyze(place.rings, *([place.dumps] if place.dump_files() else []))
        with self.lock:
            self.assertIn(analysis.status, (0, 1, 2, 3), label + analysis.stderr)
        if analysis.status == harness.UNUSABLE:
            begun = [line for line in analysis.stderr.splitlines() if not any(words in line for words in NOT_BEGUN)]
            return ("unreadable", f"{label}: {begun}") if place.ring_files() and begun else ("before the first call",
                                                                                             "")
        damaged = [warning["summary"] for warning in analysis.json["warnings"]
                   if warning["kind"] == "damaged_file" and not any(words in warning["summary"] for words in NOT_BEGUN)]
        if damaged:
            return "unreadable", f"{label}: {damaged}"
        verdict = analysis.json["verdict"]
        if verdict is None:
            return "unsure", f"{label}: rank {victim} killed: nothing is wrong or cannot be told"
        said = (f"{label}: rank {victim} killed: {verdict['kind']} {verdict['ranks']} {verdict['confidence']}: "
                f"{verdict['summary']}")
        if verdict["kind"] == "rank_dead" and verdict["ranks"] == [victim]:
            return "right", said
        if verdict["confidence"] == "certain" and victim not in verdict["ranks"]:
            return "wrong and certain", said
        return ("unsure" if verdict["confidence"] != "certain" else "right among others"), said

    def pids(self, place):
        try:
            lines = (place.path / "pids").read_text().split("\n")
        except FileNotFoundError:
            return None
        found = dict(map(int, line.split()) for line in lines if line)
        return found if len(found) == RANKS else None

    def test_every_ring_can_be_read(self):
        self.lock = threading.Lock()
        counts, told = collections.Counter(), collections.defaultdict(list)
        chance = random.Random(storm.SEED)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for result, said in pool.map(self.one, [chance.randrange(1 << 30) for _ in range(storm.ROUNDS)]):
                counts[result] += 1
                told[result].append(said)
        print(f"counted: {storm.ROUNDS} kills, seed {storm.SEED}: "
              + ", ".join(f"{count} {result}" for result, count in counts.most_common()))
        for result in ("unreadable", "wrong and certain", "right among others"):
            print(*told[result][:20], sep="\n")
        self.assertEqual((counts["unreadable"], counts["wrong and certain"]), (0, 0))
        self.assertGreaterEqual(counts["right"], LEAST_RIGHT * (storm.ROUNDS - counts["before the first call"]),
                                told["unsure"][:20])


if __name__ == "__main__":
    storm.main()
