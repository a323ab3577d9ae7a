#!/usr/bin/env python3
"""The Python training program under real torchrun, its NCCL loaded RTLD_LOCAL as PyTorch loads its own."""

import os
import pathlib
import signal
import unittest

import harness

TORCHRUN = harness.ROOT / ".venv" / "bin" / "torchrun"


def python_ranks(launcher):
    """rank -> pid of the training processes below torchrun."""
    ranks = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (process / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        named = [int(value[5:]) for value in variables if value.startswith(b"RANK=")]
        if parent == launcher and named:
            ranks[named[0]] = int(process.name)
    return ranks


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class Torchrun(harness.Case):
    def start(self, *options, **settings):
        return self.place.start(
            [TORCHRUN, "--nproc-per-node=4", "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
             harness.ROOT / "tests" / "simgpu" / "train.py", "--tp", "2", *options],
            self.place.env(SIMGPU_DIR=harness.stand_ins(), LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1", **settings))

    def test_signal_to_any_rank_dumps_all(self):
        job = self.start("--steps", "100000", "--step-ms", "2")
        harness.wait_for(lambda: len(self.place.ring_files()) == 4 or job.status is not None, 90, "four ranks record")
        pids = python_ranks(job.pid)
        self.assertEqual(sorted(pids), [0, 1, 2, 3])
        harness.wait_for(lambda: len(self.place.show(self.place.rings, "--rank", "0")) > 50, 30, "they train")
        os.kill(pids[2], signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 20, "all ranks dump")
        self.assertIsNone(job.status, "the job goes on")
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))
        self.assertEqual(analysis.json["run"]["ranks"], [0, 1, 2, 3])

    def test_rank_stuck_in_python(self):
        self.start("--steps", "100000", "--step-ms", "2", SIMGPU_FAULTS="spin rank=1 step=20",
                   TITANTRACE_TIMEOUT_S=3 * harness.SLOW)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 120, "the watchdog dumps all")
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("rank_not_arrived", [1]))

    def test_clean_end(self):
        job = self.start("--steps", "5")
        job.wait(120)
        self.assertEqual(job.status, 0)
        self.assertIn("trained 5 steps on 4 ranks", job.stdout)
        self.assertNotIn("titantrace: ", job.stdout + job.stderr)  # its prefix; the word alone may be in a path
        self.assertEqual((self.place.ring_files(), self.place.dump_files()), ([], []))


if __name__ == "__main__":
    harness.main()
