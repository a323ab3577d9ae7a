#!/usr/bin/env python3
"""Processes that ranks start: where they are, and how they end."""

import sys

import harness

CLIENT = harness.ROOT / "tests" / "e2e" / "clients" / "loader_children.py"


class Children(harness.Case):
    def start(self, **settings):
        jobs = [self.place.start([sys.executable, CLIENT, self.place.meet],
                                 self.place.env(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, PYTHONFAULTHANDLER=None,
                                                TITANTRACE_TIMEOUT_S=2 * harness.SLOW, **settings))
                for rank in range(2)]
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1} or any(job.status is not None for job in jobs), 60,
                         "both ranks dump")
        self.assertEqual([job.status for job in jobs], [None, None], [job.stderr for job in jobs])
        return [int(pid) for pid in (self.place.meet / "children").read_text().split()]

    def test_a_rank_that_waits_for_its_loaders(self):
        killed, *living = self.start()
        finding = self.place.analyze(self.place.dumps).json["findings"][0]
        self.assertEqual((finding["kind"], finding["ranks"]), ("rank_not_arrived", [1]))
        evidence = "\n".join(finding["evidence"])
        self.assertRegex(evidence, rf"child process {killed} \(\S+\) of rank 1 was killed by SIGKILL \S+ \S+ before")
        self.assertRegex(evidence, rf"child process {living[0]} \(\S+\) and 1 more of rank 1 are in load at "
                                   r"loader_children\.py:\d+")
        self.assertRegex(evidence, r'the newest event of rank 1 is "epoch 1 is over", \S+ \S+ before its record ends')
        process = self.place.stacks()[1]
        self.assertEqual([child["pid"] for child in process["children"]], living)
        for child in process["children"]:
            self.assertEqual(child["state"], "S")
            self.assertRegex(child["frames"][0], r"^load at loader_children\.py:\d+$")
            self.assertIn("<module> at loader_children.py", child["frames"][-1])
        self.assertEqual(self.place.stacks()[0]["children"], [])

    def test_a_digest_keeps_them(self):
        killed, *living = self.start()
        digest = self.place.path / "job.digest"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "-o", digest, status=0)
        evidence = "\n".join(self.place.analyze(digest).json["findings"][0]["evidence"])
        self.assertIn(f"child process {killed} ", evidence)
        self.assertIn(f"child process {living[0]} ", evidence)

    def test_without_stacks_they_are_listed(self):
        self.start(TITANTRACE_STACKS="off")
        process = self.place.stacks()[1]
        self.assertEqual([child["frames"] for child in process["children"]], [[], []])


if __name__ == "__main__":
    harness.main(at_once=3)
