#!/usr/bin/env python3
"""Sends and receives between ranks: rings that wait for each other, halves without their other half, and groups."""

import harness
import nightly

TIMEOUT_S = 1.5


class Pairs(harness.Case):
    def verdict_of(self, scenario, size):
        for _ in range(3 if nightly.IS_ON else 1):
            place = self.place = self.new_place()
            jobs = place.start_ranks("e2e-pairs", scenario, size, TITANTRACE_TIMEOUT_S=TIMEOUT_S * harness.SLOW)
            harness.wait_for(lambda: len(place.dumped_ranks()) == size, 30, "all ranks dump")
            for job in jobs:
                job.process.kill()  # all at once: a rank that sees another one die dumps again
            for job in jobs:
                job.end()
            analysis = place.analyze(place.dumps)
            self.assertEqual(analysis.status, harness.FINDINGS)
            yield analysis.json["verdict"], analysis.json["findings"][0]

    def test_cycle_of_two(self):
        for verdict, _ in self.verdict_of("cycle", 2):
            self.assertEqual((verdict["kind"], verdict["ranks"]), ("p2p_cycle", [0, 1]))

    def test_receive_never_issued(self):
        for verdict, head in self.verdict_of("no-receive", 3):
            self.assertEqual((verdict["kind"], verdict["ranks"]), ("p2p_unmatched", [2]))
            self.assertEqual(head["victims"], [0])

    def test_halves_of_different_size(self):
        for verdict, _ in self.verdict_of("other-size", 2):
            self.assertEqual((verdict["kind"], sorted(verdict["ranks"])), ("size_mismatch", [0, 1]))

    def test_signal_never_sent(self):
        for verdict, _ in self.verdict_of("no-signal", 2):
            self.assertEqual((verdict["kind"], verdict["ranks"]), ("p2p_unmatched", [0]))
            self.assertIn("wait_signal #1 from rank 0 to rank 1", verdict["summary"])

    def test_call_that_nccl_refused(self):
        for verdict, head in self.verdict_of("refused", 3):
            self.assertEqual((verdict["kind"], verdict["ranks"], head["seq"]), ("rank_not_arrived", [0], 2))
            self.assertIn("NCCL refused broadcast", verdict["summary"])

    def test_grouped_ring_is_healthy(self):
        jobs = self.place.start_ranks("e2e-pairs", "ring", 4)
        for job in jobs:
            job.wait_says("done")
        calls = self.place.show(self.place.rings, "--rank", "1")
        pairs = {call["op"]: call for call in calls if call["op"] in ("send", "recv")}
        self.assertEqual({op: call["peer"] for op, call in pairs.items()}, {"send": 2, "recv": 0})
        self.assertEqual(pairs["send"]["group"], pairs["recv"]["group"])
        self.assertNotEqual(pairs["send"]["group"], 0)
        self.assertNotEqual(pairs["send"]["group_index"], pairs["recv"]["group_index"])
        analysis = self.place.analyze(self.place.rings)
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))
        self.place.go()
        for job in jobs:
            self.assertEqual(job.wait(), 0)


if __name__ == "__main__":
    harness.main(at_once=3)
