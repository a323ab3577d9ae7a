#!/usr/bin/env python3
"""Collectives in CUDA graphs: recorded at their capture, issued again at each launch, with the right numbers."""

import harness

CAPTURED, REPLAYED = 2, 32


class Graphs(harness.Case):
    def reduces(self, scenario, state=None, **settings):
        """The all_reduces in the ring while the program holds still; those of `state` that are to be."""
        client = self.place.start_rank("e2e-graphs", scenario, **settings)
        client.wait_says("done")
        show = lambda: self.place.show(self.place.rings, "--op", "all_reduce", "--last", "100000")
        if state:  # the GPU is asked every 20 ms
            harness.wait_for(lambda: {call["state"] for call in show() if not call["flags"] & CAPTURED} == {state}, 10,
                             f"all are {state}")
        calls = show()
        self.place.go()
        self.assertEqual(client.wait(), 0)
        return calls

    def issued(self, calls):
        """Counts of what ran, in order; their numbers must have no gap."""
        ran = [call for call in calls if not call["flags"] & CAPTURED]
        self.assertEqual([call["seq"] for call in ran], list(range(len(ran))))
        return [call["count"] for call in ran]

    def check_forked(self, method):
        state = "enqueued" if method == "off" else "finished"
        calls = self.reduces("forked", state, TITANTRACE_GPU_PROGRESS=method)
        captured = [call for call in calls if call["flags"] & CAPTURED]
        self.assertEqual([(call["count"], call["seq"], call["state"]) for call in captured],
                         [(count, None, "captured") for count in (2, 3, 4, 5)])
        self.assertEqual(self.issued(calls), [1, 2, 3, 4, 5, 2, 3, 4, 5, 6])
        replayed = [call for call in calls if call["flags"] & REPLAYED]
        self.assertEqual([call["replay"] for call in replayed], [1] * 4 + [2] * 4)
        self.assertEqual({call["graph"] for call in calls if call["count"] not in (1, 6)}, {captured[0]["graph"]})
        groups = [call["group"] for call in replayed if call["count"] in (3, 4)]
        self.assertEqual((groups[0], groups[2]), (groups[1], groups[3]))
        self.assertEqual(len({captured[1]["group"], groups[0], groups[2]}), 3)
        self.assertEqual({call["state"] for call in calls if not call["flags"] & CAPTURED}, {state})

    def test_forked_streams_and_groups(self):
        self.check_forked("writes")

    def test_with_events(self):
        self.check_forked("events")

    def test_without_device_progress(self):
        self.check_forked("off")

    def test_clones_children_updates(self):
        self.assertEqual(self.issued(self.reduces("changed")), [1, 2, 1, 2, 1, 1, 3, 2, 1, 4])

    def test_a_job_that_replays_its_steps(self):
        self.place.run([harness.stand_ins() / "titan-sim", "--ranks", "4", "--tp", "2", "--steps", "6", "--step-ms",
                        "1",
                        "--graphs"], self.place.env(TITANTRACE_DUMP_ON="exit"))
        calls = self.place.show(self.place.dumps, "--last", "100000")
        replayed = [call for call in calls if call["flags"] & REPLAYED]
        self.assertEqual({(call["rank"], call["replay"]) for call in replayed},
                         {(rank, replay) for rank in range(4) for replay in range(1, 6)})
        for communicator in {call["communicator"] for call in replayed}:
            by_rank = {}
            for call in calls:
                if call["communicator"] == communicator and call["seq"] is not None and not call["op"].startswith(
                        "comm_"):
                    by_rank.setdefault(call["rank"], []).append((call["seq"], call["op"], call["count"]))
            first, *others = by_rank.values()
            for other in others:
                self.assertEqual(other, first)
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))


if __name__ == "__main__":
    harness.main()
