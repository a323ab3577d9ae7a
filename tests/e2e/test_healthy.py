#!/usr/bin/env python3
"""Healthy jobs: nothing is found, nothing is left behind, and nothing is said."""

import os
import signal
import time

import harness
import nightly

SIM = ["--steps", "100000", "--step-ms", "10"]


def pids_of(path):
    return dict(tuple(map(int, line.split())) for line in path.read_text().splitlines())


class Healthy(harness.Case):
    def start_job(self, *options, **settings):
        pid_file = self.place.path / "pids"
        self.job = self.place.start([harness.stand_ins() / "titan-sim", *options, *SIM, "--pid-file", pid_file],
                                    self.place.env(**settings))
        harness.wait_for(pid_file.exists, 20, "the job starts")
        self.pids = pids_of(pid_file)
        harness.wait_for(lambda: len(self.place.ring_files()) == len(self.pids), 20, "every rank records")
        time.sleep(0.5)

    def dump_and_analyze(self, *options):
        self.start_job(*options)
        for number in range(5 if nightly.IS_ON else 2):
            os.kill(self.pids[number % len(self.pids)], signal.SIGUSR1)
            harness.wait_for(lambda: len(self.place.dump_files()) >= len(self.pids) * min(number + 1, 3), 20,
                             "all ranks dump")
            wanted = f".{number}.titan"
            harness.wait_for(lambda: sum(wanted in path.name for path in self.place.dump_files()) == len(self.pids),
                             20, wanted)
            analysis = self.place.analyze(self.place.dumps)
            self.assert_healthy(analysis)
            self.assertEqual(analysis.json["run"]["ranks"], sorted(self.pids))
            time.sleep(2.1)  # a dump joins one that was made for a peer in the last two seconds
        self.assertIsNone(self.job.status, "the job goes on")

    def test_dump_in_mid_run(self):
        self.dump_and_analyze("--ranks", "8", "--tp", "2", "--pp", "2")

    def test_dump_in_mid_run_with_splits(self):
        self.dump_and_analyze("--ranks", "4", "--tp", "2", "--use-split")

    def test_dump_of_threads_as_ranks(self):
        self.start_job("--ranks", "4", "--tp", "2", "--threads")
        os.kill(self.pids[0], signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 20, "a dump")
        analysis = self.place.analyze(self.place.dumps)
        self.assert_healthy(analysis)
        self.assertEqual((analysis.json["run"]["ranks"], analysis.json["run"]["missing_ranks"]), ([0, 1, 2, 3], []))

    def test_dump_before_anything_is_overdue(self):
        """Three ranks wait in the creation of a communicator, which is no hang yet: neither a finding nor nothing
        wrong."""
        self.start_job("--ranks", "4", SIMGPU_FAULTS="no-init rank=1 comm=dp")
        waits = lambda: [(wait["ranks"], wait["missing"])
                         for wait in self.place.analyze(self.place.rings).json["waiting"]]
        harness.wait_for(lambda: waits() == [([0, 2, 3], [1])], 20, "three ranks wait for a while")
        os.kill(self.pids[0], signal.SIGUSR1)
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 4, 20, "all ranks dump")
        analysis = self.place.analyze(self.place.dumps)
        self.assert_healthy(analysis)
        self.assertEqual([(wait["ranks"], wait["missing"]) for wait in analysis.json["waiting"]], [([0, 2, 3], [1])])

    def run_to_the_end(self, *options, **settings):
        argv = [harness.stand_ins() / "titan-sim", "--ranks", "4", "--tp", "2", "--steps", "20", "--step-ms", "1",
                *options]
        return self.place.run(argv, self.place.env(**settings))

    def test_clean_end_leaves_nothing(self):
        job = self.run_to_the_end(TITANTRACE_JOURNAL_MIB=0)
        self.assertEqual((job.status, job.stdout, job.stderr), (0, "", ""))
        self.assertEqual(self.place.traces(), ["rings/" + path.name for path in self.place.rings.iterdir()])
        self.assertEqual(self.place.ring_files(), [])


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
