#!/usr/bin/env python3
"""Processes that drive two devices each, as XLA does: the job has more ranks than processes."""

import harness

TIMEOUT_S = 1.5


class Devices(harness.Case):
    def start(self, scenario, **settings):
        """Two processes: ranks 0 and 1 of NCCL in process 0, ranks 2 and 3 in process 1."""
        return self.place.start_ranks("e2e-devices", scenario, 2, SIMGPU_DEVICES=4, **settings)

    def findings(self, scenario):
        jobs = self.start(scenario, TITANTRACE_TIMEOUT_S=TIMEOUT_S * harness.SLOW)
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 2, 30, "both processes dump")
        for job in jobs:
            job.process.kill()
        told = self.place.analyze(self.place.dumps, "--hang-after-s", "0.3").json
        self.assertEqual(told["run"]["world_size"], 4, "ranks, not processes")
        return [(finding["kind"], finding["ranks"], finding["confidence"]) for finding in told["findings"]]

    def test_healthy(self):
        jobs = self.start("healthy")
        for job in jobs:
            job.wait_says("done")
        analysis = self.place.analyze(self.place.rings)
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))
        self.place.go()
        for job in jobs:
            self.assertEqual(job.wait(), 0)
        self.assertEqual(self.place.dump_files(), [])

    def test_process_that_does_not_come(self):
        """Both of its ranks are named once, by their numbers in NCCL."""
        self.assertEqual(self.findings("process-stays"), [("rank_not_arrived", [2, 3], "certain")])

    def test_processes_that_no_launcher_numbered(self):
        """Each learns its rank from NCCL, and so the dumps are written in turn. What the last one holds back meanwhile
        is still what it saw."""
        jobs = [self.place.start([harness.client("e2e-devices"), "process-stays"],
                                 self.place.env(E2E_RANK=rank, E2E_SIZE=2, SIMGPU_DEVICES=4,
                                                TITANTRACE_TIMEOUT_S=TIMEOUT_S * harness.SLOW))
                for rank in range(2)]
        harness.wait_for(lambda: len(self.place.dump_files()) == 2, 30, "both processes dump")
        for job in jobs:
            job.process.kill()
        frames = {process["pid"]: [frame["function"] for thread in process["threads"] for frame in thread["frames"]]
                  for process in self.place.stacks()}
        for job in jobs:
            self.assertTrue(any("process_stays" in function for function in frames[job.pid]), frames)

    def test_device_whose_thread_does_not_come(self):
        self.assertEqual(self.findings("thread-stays"), [("rank_not_arrived", [3], "certain")])


if __name__ == "__main__":
    harness.main(at_once=3)
