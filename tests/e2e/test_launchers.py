#!/usr/bin/env python3
"""A rank that ends under real mpirun and srun, which end the others: the right one is named by dumps, by rings, and by
the launcher."""

import shutil
import signal
import subprocess
import sys
import unittest

import harness
import slurm_cluster

VICTIM = 2
TRAIN = harness.ROOT / "tests" / "simgpu" / "train.py"

# train.py wants torchrun's names. They are for Python alone: the tracer reads what the launcher itself set.
AS_TORCHRUN = f"""import os, runpy, sys
for names in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
              ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")):
    if names[0] in os.environ:
        os.environ = dict(os.environ, **dict(zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), map(os.environ.get, names))))
        break
sys.argv[0] = {str(TRAIN)!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def no_mpirun():
    return "" if shutil.which("mpirun") else "no mpirun (Debian: openmpi-bin)"


def no_slurm():
    if not shutil.which("srun"):
        return "no srun"
    asked = subprocess.run(["sinfo", "--noheader", "--format=%A"], capture_output=True, text=True, timeout=20)
    return "" if asked.returncode == 0 and asked.stdout.strip() else f"no Slurm that answers: {asked.stderr.strip()}"


class Launchers(harness.Case):
    def run_job(self, launcher, fault):
        program = self.place.path / "as_torchrun.py"
        program.write_text(AS_TORCHRUN)
        job = self.place.start([*launcher, sys.executable, program, "--tp", "2", "--steps", "100000", "--step-ms", "2"],
                               self.place.env(SIMGPU_DIR=harness.stand_ins(), SIMTRAIN_STORE=self.place.meet,
                                              SIMGPU_FAULTS=fault,
                                              OMP_NUM_THREADS="1"))
        self.assertNotEqual(job.wait(90), 0)
        return job

    def expect(self, *source):
        analysis = self.place.analyze(*source)
        verdict = analysis.json["verdict"]
        self.assertEqual((analysis.status, verdict["kind"], verdict["ranks"]),
                         (harness.FINDINGS, "rank_dead", [VICTIM]), analysis.stdout)
        return analysis.json["findings"][0]

    def each_end(self, launcher, witness):
        for fault, how in ((f"kill rank={VICTIM} step=40", "killed by SIGKILL"),
                           (f"segv rank={VICTIM} step=40", "killed by SIGSEGV"),
                           (f"exit rank={VICTIM} step=40 code=3", "exited with status 3")):
            with self.subTest(fault=fault):
                self.place = self.new_place()
                job = self.run_job(launcher, fault)
                self.expect(self.place.rings)
                self.expect(self.place.dumps)
                for dump in self.place.dumps.glob(f"*/0/rank{VICTIM:05}.*"):
                    dump.unlink()
                (self.place.dumps / "job.out").write_text(job.stderr)
                finding = self.expect(self.place.dumps, "--no-rings")
                self.assertIn(f"is dead ({how}) and left no record", finding["summary"])
                self.assertTrue(any(line.startswith(f"{witness} says (job.out): ") for line in finding["evidence"]),
                                finding["evidence"])

    def test_mpirun(self):
        if no_mpirun():
            self.skipTest(no_mpirun())
        self.each_end(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 4], "mpirun")

    def test_mpich(self):
        """Beside Open MPI, whose mpirun goes first in Debian; MPICH's has a name of its own. It kills all ranks at once
        when one dies."""
        if not shutil.which("mpirun.mpich"):
            self.skipTest("no mpirun.mpich (Debian: mpich)")
        program = self.place.path / "as_torchrun.py"
        program.write_text(AS_TORCHRUN)
        job = self.place.start([harness.BUILD / "tools" / "titan-run", "--dir", self.place.dumps, "--timeout",
                                3 * harness.SLOW, "--",
                                "mpirun.mpich", "-n", 4, sys.executable, program, "--tp", "2", "--steps", "100000",
                                "--step-ms", "2"],
                               self.place.env(preload=False, SIMGPU_DIR=harness.stand_ins(),
                                              SIMTRAIN_STORE=self.place.meet, OMP_NUM_THREADS="1",
                                              SIMGPU_FAULTS=f"spin rank={VICTIM} step=40"))
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 4 or job.status is not None, 30, "all ranks dump")
        analysis = self.place.analyze(self.place.dumps)
        verdict = analysis.json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_not_arrived", [VICTIM]), analysis.stdout)
        job.signal(signal.SIGTERM)
        job.wait(30)  # MPICH's mpirun ends with 0 now and then when it is told to end
        self.assertIn("VERDICT  rank_not_arrived", job.stderr)

    def test_srun(self):
        if no_slurm():
            self.skipTest(no_slurm())
        self.each_end(["srun", "--overcommit", "--kill-on-bad-exit=1", "-n", 4], "Slurm")

    def test_srun_on_four_nodes(self):
        """A hang on one node makes all four dump; each packs its own ranks; one machine names the cause."""
        if slurm_cluster.missing():
            self.skipTest(slurm_cluster.missing())
        cluster = slurm_cluster.Cluster(self.place.path / "slurm", 4)
        self.addCleanup(cluster.stop)
        if why := cluster.start():
            self.skipTest(why)
        program = self.place.path / "as_torchrun.py"
        program.write_text(AS_TORCHRUN.replace("SLURM_LOCALID",
                                               "SLURM_PROCID"))  # the simulator has one set of GPUs for all
        env = self.place.env(preload=False, SIMGPU_DIR=harness.stand_ins(), SIMTRAIN_STORE=self.place.meet,
                             OMP_NUM_THREADS="1",
                             SIMGPU_FAULTS="spin rank=5 step=40", TITANTRACE_RUN_ID=None, RINGS=self.place.rings,
                             RUN=harness.BUILD / "tools" / "titan-run", **cluster.env)
        # /dev/shm is one here: each node has rings of its own by name.
        node = 'mkdir -p "$RINGS/$SLURM_NODEID"; exec "$RUN" --ring-dir "$RINGS/$SLURM_NODEID" --timeout 3 -- "$@"'
        job = self.place.start(["srun", "--nodes=4", "--ntasks-per-node=2", "sh", "-c", node, "sh", sys.executable,
                                program, "--tp", "2",
                                "--steps", "100000", "--step-ms", "2"], env)
        dumped = lambda: {path.name[:9] for path in self.place.dumps.glob("slurm-*/0/rank*.titan")}
        harness.wait_for(lambda: len(dumped()) == 8 or job.status is not None, 60, "all four nodes dump")
        self.assertEqual(len(dumped()), 8, job.stderr[:3000])
        self.assertIn(f"titan-run: recording; dumps will be in {self.place.dumps}/", job.stderr)
        digests = self.place.path / "digests"
        packed = self.place.run(["srun", "--nodes=4", "--ntasks-per-node=1",
                                 harness.BUILD / "analyzer" / "titan-analyze", "digest",
                                 self.place.dumps, "--node", "--into", digests, "--ring-dir", self.place.path], env, 60)
        self.assertEqual(packed.status, 0, packed.stderr)
        self.assertEqual(len(list(digests.rglob("*.digest"))), 4)
        for source in (digests, self.place.dumps):
            analysis = self.place.analyze(source, "--no-rings")
            self.assertEqual((analysis.status, analysis.json["verdict"]["ranks"]), (harness.FINDINGS, [5]),
                             analysis.stdout)
            self.assertIn("node-3", analysis.stdout)


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
