#!/usr/bin/env python3
"""A job that is slow and does not hang: the rank that the others wait for is named, with the step since when."""

import json
import os
import signal

import harness
from test_healthy import pids_of


class Stragglers(harness.Case):
    def stragglers(self):
        done = self.place.tool("titan-analyze", "stragglers", self.place.dumps, "--json", "--ring-dir",
                               self.place.rings)
        return done.status, json.loads(done.stdout)

    def test_persistently_slow_rank(self):
        pid_file = self.place.path / "pids"
        # Four ranks on however few cores: a step takes long enough for a delay of 60 ms to stand out.
        self.place.start([harness.stand_ins() / "titan-sim", "--ranks", "4", "--steps", "100000", "--step-ms", "40",
                          "--pid-file", pid_file],
                         self.place.env(SIMGPU_FAULTS="sleep rank=2 step=20- ms=60"))
        harness.wait_for(pid_file.exists, 20, "the job starts")
        pids = pids_of(pid_file)
        harness.wait_for(lambda: len(self.place.ring_files()) == 4, 20, "every rank records")
        newest = lambda: self.place.show(self.place.rings, "--rank", 0, "--last", 1, starting=True)
        harness.wait_for(lambda: any(call["step"] >= 90 for call in newest()), 60, "seventy slow steps")
        os.kill(pids[0], signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 20, "all ranks dump")
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual(analysis.status, harness.FINDINGS)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("straggler", [2]))
        self.assertEqual(len(analysis.json["findings"]), 1)
        self.assertFalse(analysis.json["findings"][0]["hangs"])
        status, table = self.stragglers()
        self.assertEqual(status, harness.FINDINGS)
        rank = next(row for row in table["ranks"] if row["rank"] == 2)
        self.assertEqual(rank["pattern"], "persistent")
        self.assertIn(rank["since"]["step"], range(18, 23))
        self.assertEqual(rank["slow_part"], "program code outside of spans")
        cause = next(one for one in table["causes"] if one["ranks"] == [2])
        self.assertEqual(cause["class"], "slow_rank_host")
        self.assertEqual(table["step"]["source"], "markers")
        # One number for one delay, and what the step takes is that above what it would.
        self.assertEqual(rank["cost_ms_per_step"], cause["cost_ms_per_step"])
        self.assertAlmostEqual(cause["step_ms"] - cause["step_ms_without"], cause["cost_ms_per_step"], places=6)
        self.assertTrue(20 < cause["cost_ms_per_step"] < 120, cause)
        # Of steps before it the record holds as many as the window of it; then it has a beginning, else none.
        self.assertIn(cause["since_step"], [None, *range(18, 23)])
        self.assertIn(f"; {cause['step_ms_without']:.0f} ms if rank 2 were", analysis.json["verdict"]["summary"])


if __name__ == "__main__":
    harness.main()
