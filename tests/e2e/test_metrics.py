#!/usr/bin/env python3
"""Metrics of the program in the verdict: which rank's loss is no number, and since when."""

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
        made = self.place.run([harness.BUILD / "analyzer" / "titan-analyze", "digest", self.place.dumps, "-o", digest],
                              self.place.env(preload=False))
        self.assertEqual(made.status, 0, made.stderr)
        self.assertEqual(self.place.analyze(digest).json["findings"],
                         self.place.analyze(self.place.dumps).json["findings"])

    def test_before_it_nothing_is_wrong(self):
        self.train(4)
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))

    def test_where_the_first_values_are_overwritten(self):
        """Four steps are left: which rank was first is not known."""
        self.train(30, TITANTRACE_MARKERS=32)
        finding, = self.place.analyze(self.place.dumps).json["findings"]
        self.assertEqual((finding["kind"], finding["ranks"], finding["confidence"]),
                         ("metric_not_finite", [0, 1, 2], "certain"))
        self.assertRegex(finding["summary"], r"since step 2\d or before")


if __name__ == "__main__":
    harness.main(at_once=3)
