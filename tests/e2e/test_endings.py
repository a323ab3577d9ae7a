#!/usr/bin/env python3
"""How communicators and programs end: a healthy end is no abort, whatever way the framework takes and however soon
after the last call; one that gives up on a hang is."""

import os

import harness

METHODS = ("writes", "events", "timing")


class Endings(harness.Case):
    def test_a_healthy_end_never_dumps(self):
        for run in [self.place.start_rank("e2e-endings", "all", TITANTRACE_RUN_ID=method,
                                          TITANTRACE_GPU_PROGRESS=method)
                    for method in METHODS]:
            self.assertEqual((run.wait(), run.stdout), (0, "done\n"))
            self.assertEqual(run.stderr, "")
        self.assertEqual(self.place.traces(), [f"rings/titantrace-{os.geteuid()}"],
                         "no dump, and no ring that waits for one")

    def test_an_abort_of_a_hang_dumps(self):
        for method in METHODS:
            for hang_ms in (0, 1500):
                with self.subTest(method=method, hang_ms=hang_ms):
                    self.place = self.new_place()
                    ranks = self.place.start_ranks("e2e-endings", "abort-of-a-hang", 2, HANG_MS=hang_ms,
                                                   TITANTRACE_GPU_PROGRESS=method)
                    ranks[0].wait_says("done")
                    harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1}, 10, "both ranks dump")
                    # The recorder says so behind its dump.
                    harness.wait_for(lambda: any("ncclCommAbort with unfinished calls" in rank.stderr
                                                 for rank in ranks), 10, "why they dump is said")
                    self.place.go()
                    self.assertEqual([rank.wait() for rank in ranks], [0, 0])

    def test_an_exit_dump_shows_what_the_device_finished(self):
        for method in METHODS:
            for at_once in ("1", None):
                with self.subTest(method=method, at_once=at_once):
                    name = f"{method}-{at_once}"
                    run = self.place.run_rank("e2e-endings", "graphs-at-the-end", TITANTRACE_RUN_ID=name,
                                              TITANTRACE_DUMP_ON="exit",
                                              TITANTRACE_GPU_PROGRESS=method, LEAVE_AT_ONCE=at_once)
                    self.assertEqual(run.status, 0, run.stderr)
                    calls = self.place.show(*self.place.dump_files(name), "--op", "all_reduce")
                    self.assertEqual([call["state"] for call in calls], ["captured"] + ["finished"] * 3)


if __name__ == "__main__":
    harness.main()
