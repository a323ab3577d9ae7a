#!/usr/bin/env python3
"""Journals of long jobs: memory does not grow with steps, and steps in the middle are found without the others."""

import json
import subprocess
import sys

import harness
import perfetto_trace
from nightly import at_night

RANKS, SLOW_RANK, FIRST_STEP = 6, 5, 500_000
STEPS = 6_000  # more than are loaded for the verdict
KEEPS_MIB = 12  # allocators, and the index
KIB_OF_A_METRIC = 1  # in a step, joined over ranks: half a million are kept at most

# A small process starts the commands, for the memory of the one that starts a command counts as that command's, too.
MEASURE = """
import os, sys
for line in sys.stdin:
    into, *command = line[:-1].split("\\t")
    output = [(os.POSIX_SPAWN_OPEN, 1, into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    _, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=output), 0)
    print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, flush=True)
"""


class LargeJournals(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.measure = subprocess.Popen([sys.executable, "-I", "-S", "-c", MEASURE], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)

    @classmethod
    def tearDownClass(cls):
        cls.measure.communicate()

    def journal(self, steps):
        directory = self.place.path / f"steps-{steps}"
        subprocess.run([harness.BUILD / "tests" / "synth" / "titan-synth-journal", directory, "--ranks", str(RANKS),
                        "--steps", str(steps), "--first-step", str(FIRST_STEP), "--slow-rank", str(SLOW_RANK)],
                       check=True)
        return directory

    def run_command(self, directory, command, *options):
        """The file that it writes to, and how much memory it had at most."""
        into = self.place.path / "output"
        print(into, harness.BUILD / "analyzer" / "titan-analyze", *command, directory, "--no-rings", *options, sep="\t",
              file=self.measure.stdin, flush=True)
        status, kib = map(int, self.measure.stdout.readline().split())
        self.assertEqual(status, 0, command)
        return into, kib / 1024

    def rows(self, *arguments):
        return [json.loads(line) for line in self.run_command(*arguments)[0].read_text().splitlines()]

    def assert_memory_stays(self, journals, *command, grows_mib=0):
        peaks = [self.run_command(journal, command[:1], *command[1:])[1] for journal in journals]
        self.assertLess(peaks[1], peaks[0] + KEEPS_MIB + grows_mib, command)

    def assert_all_stay(self, steps, times):
        journals = [self.journal(steps), self.journal(times * steps)]
        for command in (["summary"], ["summary", "--goodput"], ["show", "--step-sums", "--csv"],
                        ["timeline", "--overview", "-o", self.place.path / "trace"],
                        ["show", "--markers", "--csv", "--rank", "0"], ["timeline", "--rank", "0", "--limit-mb", "4",
                                                                        "-o", self.place.path / "trace"]):
            with self.subTest(command=command):
                self.assert_memory_stays(journals, *command)
        for command in (["metrics", "--csv"], ["summary", "--brief"]):
            with self.subTest(command=command):
                self.assert_memory_stays(journals, *command, grows_mib=times * steps * KIB_OF_A_METRIC / 1024)

    def test_memory_does_not_grow_with_steps(self):
        self.assert_all_stay(STEPS // 2, 3)

    @at_night
    def test_memory_of_seventy_mebibytes(self):
        self.assert_all_stay(STEPS, 12)

    def test_steps_in_the_middle(self):
        journal = self.journal(STEPS)
        first, last = FIRST_STEP + 2_000, FIRST_STEP + 2_009
        wanted = ("--json", "--steps", f"{first}-{last}")
        summed = {row["name"]: row for row in self.rows(journal, ["summary"], *wanted)}
        self.assertEqual([summed[name]["count"] for name in ("step", "forward", "loss")], [10 * RANKS] * 3)
        self.assertEqual(summed["data_loading"]["slowest_rank"], SLOW_RANK)
        steps = set(range(first, last + 1))
        self.assertEqual({row["step"] for row in self.rows(journal, ["show"], "--markers", *wanted)}, steps)
        self.assertEqual(sorted((row["rank"], row["step"]) for row in
                                self.rows(journal, ["show"], "--step-sums", *wanted)),
                         [(rank, step) for rank in range(RANKS) for step in sorted(steps)])
        self.assertEqual([row["step"] for row in self.rows(journal, ["metrics"], *wanted)], sorted(steps))
        # With the second all blocks are read.
        for step in ("step", "step + 0"):
            told, = self.rows(journal, ["sql"], "--json", "select count(*) as n, min(step) as least, max(step) as most "
                              f"from markers where {step} >= {first} and {step} <= {last}")
            self.assertEqual(told, {"n": 22 * 10 * RANKS, "least": first, "most": last})

    def test_parts_of_a_step_on_the_page(self):
        """Ten spans of 100 ms: seven by name, as many as the page has colours for, and the others together."""
        page = json.loads(self.run_command(self.journal(100), ["report"], "--json")[0].read_text())
        parts = {part["name"]: part["mean_ns"][50] for part in page["steps"]["parts"]}
        self.assertEqual(len(parts), 8)
        self.assertGreater(parts["others"], 2.5 * min(parts.values()))

    def test_a_timeline_at_two_details(self):
        """All steps in groups, and ten of them in full."""
        journal = self.journal(STEPS)
        first, last = FIRST_STEP + 2_000, FIRST_STEP + 2_009
        trace = self.place.path / "trace"
        said = self.run_command(journal, ["timeline"], "--overview", "--steps", f"{first}-{last}", "-o", trace)[0]
        self.assertRegex(said.read_text(), f"slices of {RANKS} ranks")
        drawn = perfetto_trace.read(trace)
        of = lambda kind, rank, track: [one for one in drawn[kind] if one["process"].startswith(f"rank {rank} ") and
                                        one["track"].startswith(track)]
        for rank in range(RANKS):
            groups = of("slices", rank, "overview")
            self.assertEqual(sum(group["arguments"]["steps"] for group in groups), STEPS - 1)  # no step ends the last
            self.assertLessEqual(len(groups), 500)
            for group in groups:
                self.assertAlmostEqual(group["arguments"]["mean, ms"], 1100 if rank == SLOW_RANK else 1000, delta=60)
            for part, ms in (("step", None), ("data_loading", 200 if rank == SLOW_RANK else 100),
                             ("NCCL on the GPU", 300), ("loss", None)):
                values = of("values", rank, "overview: " + part)
                self.assertEqual(len(values), len(groups), part)
                for value in values:
                    self.assertTrue(ms is None or abs(value["value"] - ms) < ms / 5, value)
            steps = [int(one["name"].split()[1]) for one in of("slices", rank, "steps")]
            self.assertEqual([step for step in steps if first <= step <= last], list(range(first, last + 1)))
            self.assertLess(len(steps), 20)


if __name__ == "__main__":
    harness.main()
