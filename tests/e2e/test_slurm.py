#!/usr/bin/env python3
"""Batch jobs on a Slurm cluster of two nodes: a signal before the time limit, a requeue, a cancel, and two steps that
share the nodes."""

import re
import subprocess
import sys
import unittest

import harness
import slurm_cluster
from test_launchers import AS_TORCHRUN

NODES, RANKS = 2, 4
TRAIN = '"$PYTHON" "$PROGRAM" --tp 2 --step-ms 2 --steps'


@unittest.skipIf(slurm_cluster.missing(), slurm_cluster.missing())
class Slurm(harness.Case):
    def setUp(self):
        super().setUp()
        place = self.place
        self.cluster = slurm_cluster.Cluster(place.path / "slurm", NODES)
        self.addCleanup(self.cluster.stop)
        if why := self.cluster.start():
            self.fail(why)
        program = place.path / "as_torchrun.py"
        program.write_text(AS_TORCHRUN.replace("SLURM_LOCALID",
                                               "SLURM_PROCID"))  # the simulator has one set of GPUs for all
        tools = f"{harness.BUILD}/tools:{harness.BUILD}/analyzer"
        self.env = place.env(preload=False, SIMGPU_DIR=harness.stand_ins(), OMP_NUM_THREADS="1",
                             TITANTRACE_RUN_ID=None, PYTHON=sys.executable,
                             PROGRAM=program, MEET=place.meet, **self.cluster.env)
        self.env["PATH"] = f"{tools}:{self.env['PATH']}"

    def slurm(self, *words):
        done = subprocess.run([str(word) for word in words], env=self.env, capture_output=True, text=True, timeout=60,
                              cwd=self.place.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def submit(self, *lines, **settings):
        script = self.place.path / "job.sh"
        script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        self.env.update(settings)
        return self.slurm("sbatch", "--parsable", "--output=job.out", script)

    def output(self):
        path = self.place.path / "job.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def state(self, job):
        return self.slurm("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")

    def requeue(self, job, run):
        """
        Starts the job once more; which attempt of it has dumped. Slurm holds a requeued job back for two minutes
        unless it is told otherwise, and forgets what it is told before the old attempt has gone. It may take the
        status with which that one's script ends for the job's, and then calls it failed, or start the new one too
        early, and then holds it back once more. So it is asked until an attempt has dumped.
        """
        def dumps():
            state = self.state(job)
            if state == "FAILED":
                self.slurm("scontrol", "requeue", job)
            elif state == "PENDING":
                subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], env=self.env,
                               capture_output=True, timeout=60)
            restarts = int(re.search(r"Restarts=(\d+)", self.slurm("scontrol", "show", "job", job))[1])
            return restarts if restarts and len(self.dumped(run, restarts)) == RANKS else None
        self.slurm("scontrol", "requeue", job)
        return harness.wait_for(dumps, 150, f"another attempt dumps: {self.output()}")

    def dumped(self, run, attempt=0):
        return {path.name[:9] for path in (self.place.dumps / run / str(attempt)).glob("rank*.titan")}

    def wait_for_dumps(self, run, limit_s=30):
        harness.wait_for(lambda: len(self.dumped(run)) == RANKS, limit_s, f"all ranks of {run} dump: {self.output()}")

    def verdict(self, *options):
        return self.place.analyze(self.place.dumps, "--no-rings", *options)

    def test_signal_before_the_time_limit_and_cancel(self):
        job = self.submit("#SBATCH --nodes=2 --ntasks-per-node=2 --time=1", "#SBATCH --signal=USR1@50",
                          "export SIMTRAIN_STORE=$MEET/store",
                          f"titan-run --dir dumps -- srun --kill-on-bad-exit=1 {TRAIN} 1000000")
        harness.wait_for(lambda: len(self.place.ring_files()) == RANKS, 30, "all ranks record")
        self.wait_for_dumps(f"slurm-{job}.0", limit_s=60)
        analysis = self.verdict()
        self.assert_healthy(analysis)
        self.assertEqual(self.state(job), "RUNNING")
        before = len(list(self.place.dumps.rglob("*.titan")))
        self.slurm("scancel", job)
        harness.wait_for(lambda: self.state(job) == "CANCELLED", 45, f"the job ends: {self.output()}")
        self.assertEqual(len(list(self.place.dumps.rglob("*.titan"))), before, "a cancelled job writes no dumps")

    def test_requeue(self):
        """A hang, and after a requeue the same: two attempts of one run."""
        job = self.submit("#SBATCH --nodes=2 --ntasks-per-node=2 --requeue",
                          'export SIMTRAIN_STORE="$MEET/store-${SLURM_RESTART_COUNT:-0}"',
                          f"titan-run --dir dumps --timeout 3 -- srun --kill-on-bad-exit=1 {TRAIN} 1000000",
                          SIMGPU_FAULTS="spin rank=3 step=40")
        self.wait_for_dumps(f"slurm-{job}.0")
        again = self.requeue(job, f"slurm-{job}.0")
        for attempt in (0, again):
            verdict = self.verdict("--attempt", str(attempt)).json["verdict"]
            self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_not_arrived", [3]), attempt)

    def test_two_steps_share_the_nodes(self):
        """A rank is killed in one step; the other's record stays apart and healthy."""
        step = f"--overlap --overcommit --nodes=2 --ntasks-per-node=2 --kill-on-bad-exit=1 {TRAIN}"
        job = self.submit("#SBATCH --nodes=2 --ntasks-per-node=2",
                          f"SIMTRAIN_STORE=$MEET/one titan-run --dir dumps -- srun {step} 300 & first=$!",
                          f'SIMTRAIN_STORE=$MEET/two SIMGPU_FAULTS="kill rank=1 step=40" titan-run --dir dumps -- srun '
                          f'{step} 1000000',
                          "wait $first")
        harness.wait_for(lambda: self.state(job) in ("COMPLETED", "FAILED"), 60, f"both steps end: {self.output()}")
        self.assertRegex(self.output(), r"VERDICT  rank_dead[\s\S]*rank 1")
        runs = [path.name for path in self.place.dumps.glob("slurm-*")]
        killed, *others = sorted(runs, key=lambda run: len(self.dumped(run)), reverse=True)
        verdict = self.verdict("--run", killed).json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_dead", [1]))
        self.assertEqual([len(self.dumped(run)) for run in others], [0], "only the step that failed has dumps")
        healthy = self.verdict("--run", *others)
        self.assert_healthy(healthy)
        self.assertIn("ended well after 300 steps, 4 of 4 ranks", healthy.json["one_line"])


if __name__ == "__main__":
    harness.main()
