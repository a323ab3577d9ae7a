#!/usr/bin/env python3
"""kill -9 in mid-run: the rank is named and its last calls are shown, from its ring."""

import os
import signal

import harness
from test_healthy import pids_of

VICTIM = 3


class Killed(harness.Case):
    def start_and_kill(self, **settings):
        pid_file = self.place.path / "pids"
        self.place.start([harness.stand_ins() / "titan-sim", "--ranks", "8", "--tp", "2", "--steps", "100000",
                          "--step-ms", "2",
                          "--pid-file", pid_file], self.place.env(**settings))
        harness.wait_for(pid_file.exists, 20, "the job starts")
        pids = pids_of(pid_file)
        harness.wait_for(lambda: self.steps_of(VICTIM) > 5, 20, "some steps")
        os.kill(pids[VICTIM], signal.SIGKILL)
        harness.wait_for(lambda: not harness.alive(pids[VICTIM]), 5, "the rank is gone")

    def steps_of(self, rank):
        if len(self.place.ring_files()) < 8:
            return -1
        return max([call["step"] for call in self.place.show(self.place.rings, "--rank", rank, "--last", 1,
                                                             starting=True)], default=-1)

    def expect_verdict(self, analysis):
        self.assertEqual(analysis.status, harness.FINDINGS)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("rank_dead", [VICTIM]))
        self.assertEqual(analysis.json["run"]["missing_ranks"], [])

    def expect_last_calls(self, *sources):
        calls = self.place.show(*sources, "--rank", VICTIM, "--last", 20)
        self.assertEqual(len(calls), 20)
        self.assertEqual({call["rank"] for call in calls}, {VICTIM})
        self.assertGreater(calls[-1]["step"], 5)

    def test_survivors_dump_for_it(self):
        self.start_and_kill()
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 8, 20, "seven dumps and the ring of the dead one")
        self.expect_verdict(self.place.analyze(self.place.dumps))
        self.expect_last_calls(self.place.dumps)

    def test_with_rings_only(self):
        """No dump at all: signals off, and the analyzer is faster than the watchdog."""
        self.start_and_kill(TITANTRACE_DUMP_ON="none")
        self.expect_verdict(self.place.analyze(self.place.rings))
        self.expect_last_calls(self.place.rings)
        self.assertEqual(self.place.dump_files(), [])

    def test_dumps_of_the_others_and_its_ring(self):
        """The dumps lie in one place, the ring still on the node."""
        self.start_and_kill()
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 8, 20, "all dumps")
        for path in self.place.dump_files():
            if path.name.startswith(f"rank{VICTIM:05}"):
                path.unlink()
        self.expect_verdict(self.place.analyze(self.place.dumps))

    def test_collected_from_the_node(self):
        self.start_and_kill(TITANTRACE_DUMP_ON="none")
        into = self.place.path / "collected"
        self.place.tool("titan-analyze", "collect", "--into", into, "--ring-dir", self.place.rings, status=0)
        self.assertEqual([path.name for path in into.rglob("*.titan")], [f"rank{VICTIM:05}.0.titan"])


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
