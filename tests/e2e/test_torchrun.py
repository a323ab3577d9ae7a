#!/usr/bin/env python3
"""The Python training program under real torchrun, its NCCL loaded RTLD_LOCAL as PyTorch loads its own."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import harness

TORCHRUN = harness.ROOT / ".venv" / "bin" / "torchrun"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


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
    def test_clean_end(self):
        job = self.place.start(
            [TORCHRUN, "--nproc-per-node=4", "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
             harness.ROOT / "tests" / "simgpu" / "train.py", "--tp", "2", "--steps", "5"],
            self.place.env(SIMGPU_DIR=harness.stand_ins(), LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1"))
        job.wait(120)
        self.assertEqual(job.status, 0)
        self.assertIn("trained 5 steps on 4 ranks", job.stdout)
        said = re.findall("titantrace: .*", job.stdout + job.stderr)  # its prefix; the word alone may be in a path
        self.assertEqual([line for line in said if "markers are kept in" not in line], [])
        self.assertEqual(len(said), 1)
        self.assertEqual((self.place.ring_files(), self.place.dump_files()), ([], []))


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class BesideNccl(harness.Case):
    """Ranks that wait for one of them in Gloo or for a key of the store: no collective of NCCL is pending."""

    def check(self, analysis, place):
        verdict, = analysis.json["findings"]
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["victims"]), ("outside_nccl", [2], [0, 1, 3]))
        self.assertRegex(verdict["summary"], rf"ranks 0-1,3 are in step at beside_nccl.py:\d+.*{place}")
        self.assertRegex(verdict["summary"], r"rank 2 is in load at beside_nccl.py:\d+")

    TORCHRUN_OF_FOUR = (TORCHRUN, "--nproc-per-node=4", "--master-port=0", "--rdzv-backend=c10d",
                        "--rdzv-endpoint=localhost:0")

    def wait_in(self, wait, place, launcher=TORCHRUN_OF_FOUR, **settings):
        job = self.place.start(
            [*launcher, harness.ROOT / "tests" / "e2e" / "clients" / "beside_nccl.py", wait,
             harness.client("libtiny_user2.so")],
            self.place.env(OMP_NUM_THREADS="1", TITANTRACE_TIMEOUT_S=2, **settings))
        up = lambda: len([path for path in self.place.meet.glob("up.*") if path.read_text()]) == 4
        harness.wait_for(lambda: up() or job.status is not None, 90, "four ranks are up")
        self.assertIsNone(job.status)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 30, "all ranks dump by themselves")
        waiting = self.place.analyze(self.place.dumps)
        self.assertEqual(waiting.json["findings"], [], waiting.stdout)
        self.assertRegex(waiting.json["waiting"][0]["summary"], place)
        time.sleep(2)  # a dump of somebody who asks within two seconds joins the last one
        os.kill(int((self.place.meet / "up.0").read_text()), signal.SIGUSR1)
        harness.wait_for(lambda: len(list(self.place.dumps.glob("*/0/*.1.titan"))) == 4, 30, "all ranks dump again")
        self.check(self.place.analyze(self.place.dumps), place)
        return job

    @harness.at_night
    def test_monitored_barrier(self):
        job = self.wait_in("monitored_barrier", r"in monitored_barrier at distributed_c10d.py:\d+ \(Gloo\)")
        os.kill(job.pid, signal.SIGTERM)
        harness.wait_for(lambda: job.status is not None, 60, "torchrun ends")
        self.check(self.place.analyze(self.place.dumps), r"\(Gloo\)")

    def test_all_gather_object(self):
        """Without torchrun, so that PyTorch is imported once."""
        self.wait_in("all_gather_object", r"\(a collective of a CPU backend\)",
                     [TORCHRUN.with_name("python")])

    @harness.at_night
    def test_store(self):
        job = self.wait_in("store", r"\(the store\)", STORE_TIMEOUT_S=30 * harness.SLOW)
        # The store gives up: ranks fail by themselves, and the cause is still the one that did not come.
        harness.wait_for(lambda: job.status is not None, 90, "torchrun ends")
        ended = self.place.analyze(self.place.dumps)
        verdict, deaths = ended.json["findings"]
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["victims"]), ("outside_nccl", [2], [0, 1, 3]),
                         ended.stdout)
        self.assertIn("were in step at beside_nccl.py", verdict["summary"])
        self.assertEqual((deaths["kind"], deaths["hangs"]), ("rank_dead", False))
        self.assertLessEqual(set(deaths["ranks"]), {0, 1, 3})  # torchrun ends the others as soon as one has failed


def own_host_name():
    """What gives a command a host name of its own; empty where the system does not allow that."""
    for options in (["--uts"], ["--user", "--map-root-user", "--uts"]):
        command = ["unshare", *options]
        if shutil.which("unshare") and subprocess.run([*command, "hostname", "gpu-0"],
                                                      capture_output=True).returncode == 0:
            return command
    return []


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
@unittest.skipUnless(own_host_name(), "no host names of their own for two nodes: unshare --uts is not allowed here")
class TwoNodes(harness.Case):
    """Two torchrun agents, each on a host of its own as far as names tell: they train, and later they digest."""

    def torchrun(self, port, *command, **settings):
        rings = lambda node: self.place.path / f"rings-gpu-{node}"
        return [self.place.start(
            [*own_host_name(), "sh", "-c", f'hostname gpu-{node} && exec "$@"', "sh", TORCHRUN, "--nnodes=2",
             f"--node-rank={node}",
             "--master-addr=127.0.0.1", f"--master-port={port}", *command],
            self.place.env(LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1", SIMGPU_HOST_INDEX=node,
                           TITANTRACE_RING_DIR=rings(node),
                           **settings))
            for node in "01"]

    @harness.at_night
    def test_digests_of_two_nodes_give_the_verdict_of_all_dumps(self):
        for node in "01":
            (self.place.path / f"rings-gpu-{node}").mkdir()
        self.torchrun(free_port(), "--nproc-per-node=2", harness.ROOT / "tests" / "simgpu" / "train.py", "--tp", "2",
                      "--steps", "100000", "--step-ms", "10", SIMGPU_DIR=harness.stand_ins(),
                      SIMGPU_FAULTS="spin rank=3 step=20",
                      SIMTRAIN_STORE=self.place.path / "store", TITANTRACE_TIMEOUT_S=3 * harness.SLOW)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 120, "the watchdog dumps all")
        digests = self.place.path / "digests"
        mapped = self.torchrun(free_port(), "--nproc-per-node=1", "--no-python", "--",
                               harness.BUILD / "analyzer" / "titan-analyze",
                               "digest", self.place.dumps, "--node", "--into", digests, preload=False)
        self.assertEqual([step.wait(60) for step in mapped], [0, 0])
        self.assertEqual([path.name.rsplit("-", 1)[0] for path in sorted(digests.glob("*/*/*"))], ["gpu-0", "gpu-1"])
        whole, reduced = self.place.analyze(self.place.dumps), self.place.analyze(digests)
        self.assertEqual((whole.json["verdict"]["kind"], whole.json["verdict"]["ranks"]), ("rank_not_arrived", [3]))
        self.assertEqual(reduced.json, whole.json)


if __name__ == "__main__":
    harness.main(at_once=2)
