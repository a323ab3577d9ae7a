#!/usr/bin/env python3
"""Stacks of processes that run, sampled: what a slow rank does is named, and nothing is hurt."""

import json
import re
import signal
import sys
import time

import harness

TRAIN = harness.ROOT / "tests" / "simgpu" / "train.py"
ANALYZE = lambda: harness.BUILD / "analyzer" / "titan-analyze"


def folded(text):
    """{frames: counts}"""
    lines = [re.fullmatch(r"(.+?)((?: \d+)+)", line) for line in text.splitlines()]
    return {tuple(line[1].split(";")): [int(count) for count in line[2].split()] for line in lines}


def holding(stacks, frame):
    """The sum of the counts of the stacks with such a frame."""
    return [sum(column) for column in zip(*(counts for frames, counts in stacks.items()
                                            if any(frame in one for one in frames)))] or [0, 0]


class StackSamples(harness.Case):
    def analyze(self, command, *arguments, status=harness.HEALTHY):
        done = self.place.run([ANALYZE(), command, *arguments], self.place.env(preload=False))
        self.assertEqual(done.status, status, done.stderr)
        return done.stdout

    def folded(self, *arguments):
        return folded(self.analyze("stacks", "--no-rings", "--folded", "-", *arguments))

    def sampled(self, scenario, *functions, rings=1):
        """A program that ran until each ring had samples of these functions, and what they held then, oldest first."""
        ran = self.place.start_rank("e2e-sampled", scenario, TITANTRACE_STACK_SAMPLES_S=0.1)
        harness.wait_for(lambda: len(self.place.ring_files()) == rings, 20, "rings")

        def enough():
            found = []
            for ring in sorted(self.place.ring_files(), key=lambda path: path.stat().st_ctime):
                done = self.place.run([ANALYZE(), "stacks", ring, "--no-rings", "--folded", "-"],
                                      self.place.env(preload=False))
                found.append(folded(done.stdout))
            return found if all(holding(one, function)[0] > 4 for one in found for function in functions) else None

        stacks = harness.wait_for(enough, 20, f"samples of {functions}")
        self.place.go()
        self.assertEqual(ran.wait(), 0)
        return ran.stdout, stacks

    def test_the_function_that_makes_a_rank_late(self):
        env = {"TITANTRACE_STACK_SAMPLES_S": 0.1, "WORLD_SIZE": 3, "SIMTRAIN_STORE": self.place.path / "store",
               "SIMGPU_FAULTS": "sleep rank=2 step=5- ms=40", "SIMGPU_DIR": harness.stand_ins()}
        ranks = [self.place.start([sys.executable, TRAIN, "--steps", "100000", "--step-ms", "20"],
                                  self.place.env(RANK=rank, LOCAL_RANK=rank, **env)) for rank in range(3)]
        harness.wait_for(lambda: len(self.place.ring_files()) == 3, 20, "every rank records")
        newest = lambda: self.place.show(self.place.rings, "--rank", 0, "--last", 1, starting=True)
        harness.wait_for(lambda: any(call["step"] >= 60 for call in newest()), 60, "slow steps")
        ranks[0].signal(signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2}, 20, "all ranks dump")
        for rank in ranks:
            rank.signal(signal.SIGKILL)
        line = next(number for number, text in enumerate(TRAIN.read_text().splitlines(), 1)
                    if text == "    time.sleep(seconds)")
        frame = f"slow_data_loader at train.py:{line}"
        table = json.loads(self.analyze("stragglers", self.place.dumps, "--no-rings", "--json",
                                        status=harness.FINDINGS))
        cause = next(one for one in table["causes"] if one["ranks"] == [2])
        sampled = cause["sampled"]
        self.assertEqual((sampled["ranks"], sampled["thread"], sampled["frame"]), ([2], "main", frame))
        self.assertGreater(sampled["samples"], sampled["of"] / 4)
        self.assertEqual(sampled["peers_samples"], 0)
        self.assertEqual(next(rank for rank in table["ranks"] if rank["rank"] == 2)["sampled"]["frame"], frame)
        text = self.analyze("stragglers", self.place.dumps, "--no-rings", status=harness.FINDINGS)
        self.assertRegex(" ".join(text.split()), rf"in {sampled['samples']} of {sampled['of']} samples rank 2 is in "
                         rf"{re.escape(frame)}; its peers in none of {sampled['peers_of']}")
        for records in (self.place.dumps, self.place.rings):  # and after kill -9
            both = self.folded(records, "--diff-rank", 2)
            peers, own = holding(both, frame)
            self.assertEqual(peers, 0)
            self.assertGreater(own, 5)
            totals = [sum(counts) for counts in zip(*both.values())]
            self.assertLess(abs(totals[0] - totals[1]), 0.1 * totals[0] + len(both))
        self.assertTrue(all(frames[0] == "main" or not frames[0][-1].isdigit() for frames in both))
        digest = self.place.path / "all.digest"
        self.analyze("digest", self.place.dumps, "--no-rings", "-o", digest)
        self.assertEqual(self.folded(digest), self.folded(self.place.dumps))

    def test_running_and_waiting_threads(self):
        said, (stacks,) = self.sampled("places", "spinning", "waiting")
        self.assertEqual(said, "0 waits of the helper ended early\na handler ran\ndone\n")
        self.assertEqual({frames[0] for frames in stacks}, {"main", "helper"})
        self.assertTrue(all(frames[1].startswith("_start") for frames in stacks if "spinning" in frames[-1]), stacks)

    def test_off(self):
        """By default there is no room in the ring, and no signal; and no thread more where it is on."""
        names, said, sizes = [], [], []
        for seconds in (None, 0.1):
            ran = self.place.start_rank("e2e-sampled", "places", TITANTRACE_STACK_SAMPLES_S=seconds)
            harness.wait_for(lambda: "titan-commit" not in harness.threads_of(ran.pid)
                             and "titan-watch" in harness.threads_of(ran.pid), 20, "the tracer's threads")
            time.sleep(0.5)  # five samples
            names.append(harness.threads_of(ran.pid))
            sizes.append(self.place.ring_files()[0].stat().st_size)
            self.place.go()
            self.assertEqual(ran.wait(), 0)
            said.append("a handler ran" in ran.stdout)
            (self.place.meet / "go").unlink()
        self.assertEqual(names[0], names[1])
        self.assertGreater(sizes[1], sizes[0] + (1 << 20))
        self.assertFalse(said[0])

    def test_a_program_with_handlers_for_all_signals(self):
        said, (stacks,) = self.sampled("own-handlers", "waiting", "(not seen)")
        self.assertIn("\n0 signals of its own\n", said)
        self.assertEqual(holding(stacks, "spinning")[0], 0, "it ran, and could not be asked")

    def test_forked_children(self):
        said, _ = self.sampled("forked", "spinning", rings=2)
        self.assertIn("1 thread in the child, 0 waits ended early\n", said)


if __name__ == "__main__":
    harness.main()
