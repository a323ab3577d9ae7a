#!/usr/bin/env python3
"""Metrics of the program in the verdict: which rank's loss is no number, and since when."""

import json
import os
import subprocess
import sys

import harness

CLIENT = harness.ROOT / "tests" / "e2e" / "clients" / "metrics.py"


class Metrics(harness.Case):
    def train(self, steps, **settings):
        jobs = [self.place.start([sys.executable, CLIENT, str(steps)],
                                 self.place.env(RANK=rank, WORLD_SIZE=3, PYTHONPATH=harness.ROOT / "python",
                                                **settings))
                for rank in range(3)]
        for job in jobs:
            self.assertEqual(job.wait(), 0, job.stderr)
        self.assertEqual(self.place.dumped_ranks(), {0, 1, 2})

    def test_the_first_rank_and_step(self):
        self.train(8)
        analysis = self.place.analyze(self.place.dumps)
        finding, = analysis.json["findings"]
        self.assertEqual((finding["kind"], finding["ranks"], finding["confidence"]),
                         ("metric_not_finite", [1], "certain"))
        self.assertRegex(finding["summary"], r"^metric loss is nan on rank 1 since step 5, in span backward, "
                         r"at metrics\.py:\d+ <module>; on ranks 0,2 since step 6, in span backward, at metrics\.py:")
        self.assertIn("ranks 0-2 report it; its 4 newest values on rank 1 are no numbers", finding["evidence"])

    def test_a_digest_tells_the_same(self):
        self.train(8)
        digest = self.place.path / "job.digest"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "-o", digest, status=0)
        self.assertEqual(self.place.analyze(digest).json["findings"],
                         self.place.analyze(self.place.dumps).json["findings"])

    def metrics(self, *options):
        listed = self.place.tool("titan-analyze", "metrics", self.place.dumps, "--no-rings", *options)
        return listed.status, listed.stdout

    def rows(self, *options):
        status, text = self.metrics("--json", *options)
        self.assertEqual(status, 0)
        return {(row["step"], row["metric"]): row for row in map(json.loads, text.splitlines())}

    def test_joined_over_ranks(self):
        self.train(6)
        rows = self.rows()
        tokens, accuracy, loss = (rows[2, name] for name in ("tokens", "accuracy", "loss"))
        self.assertEqual((tokens["value"], tokens["ranks_reported"], tokens["ranks_missing"]), (200, 2, [0]))
        self.assertAlmostEqual(accuracy["value"], (1 * 0.1 + 2 * 0.2) / 3)
        self.assertEqual((accuracy["lowest_rank"], accuracy["highest_rank"], accuracy["reduction"]), (1, 2, "mean"))
        self.assertAlmostEqual(loss["value"], 1.8)
        self.assertEqual((loss["ranks_missing"], loss["ranks_not_finite"]), ([], []))
        self.assertEqual((rows[5, "loss"]["value"], rows[5, "loss"]["ranks_not_finite"]), ("nan", [1]))
        self.assertEqual((rows[5, "loss"]["lowest"], rows[6, "loss"]["lowest"]), (1.5, None))
        status, text = self.metrics("--name", "tokens", "--last", "1")
        self.assertEqual(status, 0)
        self.assertEqual(" ".join(text.splitlines()[1].split()),
                         "6 tokens 200 sum 100 (rank 1) 100 (rank 1) 2 of 3, not 0")
        self.assertEqual(text.splitlines()[-1], "tokens: rank 0 has no value on record")
        self.assertEqual(self.metrics("--name", "no such")[0], 1)

    def test_every_reduction(self):
        """Of 1 and 3 on rank 0, 2 and 4 on rank 1, 3 and 5 on rank 2, each weighted by itself."""
        self.train(3)
        rows = {name: row for (_, name), row in self.rows().items() if name.startswith("by ")}
        self.assertEqual({row["ranks_reported"] for row in rows.values()}, {3})
        for name, value in (("sum", 18), ("min", 1), ("max", 5), ("mean", 64 / 18), ("std", (10 / 6) ** 0.5)):
            self.assertAlmostEqual(rows[f"by {name}"]["value"], value, msg=name)
        self.assertIn(rows["by last"]["value"], (3, 4, 5))
        self.assertIsNone(rows["by none"]["value"])

    def test_overwritten_steps_are_not_missing_ones(self):
        """Rank 0 marks less, and its record reaches back to the first step."""
        self.train(30, TITANTRACE_MARKERS=256, TITANTRACE_JOURNAL_MIB=0)
        rows = self.rows("--name", "loss")
        self.assertEqual((rows[0, "loss"]["ranks_reported"], rows[0, "loss"]["ranks_not_on_record"]), (1, [1, 2]))
        self.assertEqual({tuple(row["ranks_missing"]) for row in rows.values()}, {()})

    def test_before_it_nothing_is_wrong(self):
        self.train(4)
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))
        self.assertIn("metrics not finite: grad_norm, ranks 0-2, step 3", " ".join(analysis.stdout.split()))

    def test_where_the_first_values_are_overwritten(self):
        """Four steps are left: which rank was first is not known."""
        self.train(30, TITANTRACE_MARKERS=32, TITANTRACE_JOURNAL_MIB=0)
        finding, = self.place.analyze(self.place.dumps).json["findings"]
        self.assertEqual((finding["kind"], finding["ranks"], finding["confidence"]),
                         ("metric_not_finite", [0, 1, 2], "certain"))
        self.assertRegex(finding["summary"], r"since step 2\d or before")

    def test_why_the_program_asked_for_a_dump(self):
        """In its own words, or their beginning."""
        program = "import sys, titantrace; titantrace.step(1); titantrace.dump(sys.argv[1])"
        env = self.place.env(RANK=0, WORLD_SIZE=1, PYTHONPATH=harness.ROOT / "python")
        for reason, told in (("the loss is 7", "the loss is 7"), ("x" + "\u00fc" * 120, "x" + "\u00fc" * 76 + "...")):
            self.assertEqual(self.place.start([sys.executable, "-c", program, reason], env).wait(), 0)
            report = self.place.tool("titan-analyze", self.place.dumps, "--no-rings").stdout
            self.assertIn(f'records: 1 by the program itself ("{told}")', " ".join(report.split()))

    def peak_of(self, *arguments):
        """(lines, peak memory in MiB) of titan-analyze."""
        into = self.place.path / "answer"
        with into.open("w") as out:
            process = subprocess.Popen([harness.BUILD / "analyzer" / "titan-analyze", *map(str, arguments)], stdout=out,
                                       env=self.place.env(preload=False))
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, into.read_text())
        return into.read_text().splitlines(), used.ru_maxrss / 1024

    @harness.at_night
    def test_a_million_steps(self):
        """Records, memory and answers are as large as what is kept, not as the run."""
        program = ("import titantrace\nfor step in range(1_000_000):\n    titantrace.step(step)\n"
                   "    titantrace.metric('loss', 1 / (1 + step))\ntitantrace.dump('done')")
        for job in [self.place.start([sys.executable, "-c", program],
                                     self.place.env(RANK=rank, WORLD_SIZE=2, PYTHONPATH=harness.ROOT / "python",
                                                    TITANTRACE_JOURNAL_MIB=2)) for rank in range(2)]:
            self.assertEqual(job.wait(120), 0, job.stderr)
        kept = sum(path.stat().st_size for path in self.place.dumps.rglob("*") if path.is_file())
        self.assertLess(kept, 24 << 20)
        for command, most_lines in ((("summary",), 20), (("metrics", "--last", "3"), 10), (("report", "--json"), 20000),
                                    (("--oneline",), 1)):
            lines, peak_mib = self.peak_of(*command, self.place.dumps, "--no-rings")
            self.assertTrue(0 < len(lines) <= most_lines, (command, len(lines)))
            self.assertLess(peak_mib, 512, command)
        self.assertIn("newest step 999999", lines[0])


if __name__ == "__main__":
    harness.main(at_once=3)
