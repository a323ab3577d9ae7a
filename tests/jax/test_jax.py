#!/usr/bin/env python3
"""JAX's own collectives under the preload: a program of several processes with its CUDA plugin on the simulated node,
each with a mistake of process 1, and the verdict. See README.md; `scripts/setup --jax` installs what this needs."""
import pathlib
import socket
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402

PYTHON = harness.ROOT / ".venv-jax" / "bin" / "python"
STAND_INS = ("libcuda.so.1", "libcudart.so.12", "libcupti.so.12", "libnccl.so.2")
TIMEOUT_S = 4
CULPRIT = 1


def free_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


@unittest.skipUnless(PYTHON.exists(), f"no JAX: {PYTHON} is missing (scripts/setup --jax installs it)")
class Jax(harness.Case):
    def start(self, fault="none", processes=2, devices=1, identity=True):
        """`identity`: the environment says which rank a process is, as that of a launcher does."""
        node = [str(harness.stand_ins() / name) for name in STAND_INS]
        env = self.place.env(LD_PRELOAD=":".join([str(harness.tracer()), *node]),
                             LD_LIBRARY_PATH=f"{harness.BUILD / 'tests' / 'jax'}:{harness.stand_ins()}",
                             TITANTRACE_TIMEOUT_S=TIMEOUT_S * harness.SLOW, JAX_PLATFORMS="cuda",
                             # NVIDIA's other libraries are not there, and there is no ptxas: the driver takes PTX.
                             JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1, XLA_PYTHON_CLIENT_PREALLOCATE="false",
                             XLA_FLAGS="--xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found=true")
        port = free_port()
        started = []
        for process in range(processes):
            rank = {"RANK": process, "WORLD_SIZE": processes, "LOCAL_RANK": process} if identity else {}
            started.append(self.place.start(
                [PYTHON, HERE / "psum.py", process, processes, devices, port, fault],
                {**env, **{name: str(value) for name, value in rank.items()}}))
        return started

    def check_healthy(self, devices=1):
        jobs = self.start(devices=devices)
        sums = [[float(3 * devices)] * 4] * devices
        for job in jobs:
            self.assertEqual(job.wait(60), 0, job.stderr[-2000:])
            self.assertEqual(job.stdout.splitlines(), [f"step {step}: {sums}" for step in range(4)])
        self.assertEqual(self.place.dump_files(), [])

    def findings(self, fault, processes=2, **options):
        jobs = self.start(fault, processes, **options)
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == processes, 60, "all ranks dump")
        for job in jobs:
            job.process.kill()  # JAX takes SIGTERM for a notice, and goes on
        return self.place.analyze(self.place.dumps).json["findings"]

    def check_verdict(self, finding, kind, ranks, words):
        self.assertEqual((finding["kind"], finding["ranks"], finding["confidence"]), (kind, ranks, "certain"), finding)
        self.assertIn(words, finding["summary"])

    def test_healthy(self):
        self.check_healthy()

    def test_healthy_with_two_devices_in_a_process(self):
        self.check_healthy(devices=2)

    def test_loader_that_hangs(self):
        first, *_ = self.findings("loader")
        self.check_verdict(first, "rank_not_arrived", [CULPRIT], "in load at psum.py")

    def test_without_a_launcher(self):
        """Who started the processes told them nothing: NCCL's ranks are those of the job."""
        first, *_ = self.findings("loader", identity=False)
        self.check_verdict(first, "rank_not_arrived", [CULPRIT], "in load at psum.py")

    def test_loader_that_feeds_two_devices(self):
        first, *others = self.findings("loader", devices=2)
        self.check_verdict(first, "rank_not_arrived", [2, 3], "in load at psum.py")
        self.assertEqual(others, [], "nobody waits but for process 1")

    def test_another_program(self):
        first, *_ = self.findings("gather", processes=3)
        self.check_verdict(first, "op_mismatch", [CULPRIT], "called all_gather")

    def test_killed(self):
        first, *_ = self.findings("kill")
        self.check_verdict(first, "rank_dead", [CULPRIT], "never called all_reduce")


if __name__ == "__main__":
    harness.main()
