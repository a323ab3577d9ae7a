#!/usr/bin/env python3
"""Dumps on request: how many, where, and who may read them."""

import os
import platform
import shutil
import signal
import stat
import time

import harness

JOIN_S = 5  # what comes this soon after a dump is about the same event (tracer/watch/dump_policy.cpp)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class Dumps(harness.Case):
    def test_by_the_c_abi(self):
        run = self.place.run_rank("e2e-processes", "dump-by-hand")
        self.assertEqual((run.status, run.stdout), (0, "dump 0\n"))
        self.assertEqual([path.name for path in self.place.dump_files()], ["rank00000.0.titan"])

    def test_settings_machine_and_builds(self):
        ranks = [self.place.start_rank("e2e-processes", "cuda-only", rank, 3, NCCL_ALGO=algorithm)
                 for rank, algorithm in enumerate(("Ring", "Ring", "Tree"))]
        for rank in ranks:
            rank.wait_says("done")
        ranks[0].signal(signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2}, 20, "all ranks dump")
        told = self.place.settings()
        self.assertEqual(told["NCCL_ALGO"], [("Ring", [0, 1]), ("Tree", [2])])
        self.assertEqual(told["Linux kernel"], [(platform.release(), [0, 1, 2])])
        self.assertEqual(told["processors that the process may use"],
                         [(str(len(os.sched_getaffinity(0))), [0, 1, 2])])
        build, = told["build of libnccl.so.2"]
        self.assertRegex(build[0], "^[0-9a-f]{12}$")
        warned = [warning["summary"] for warning in self.place.analyze(self.place.dumps, "--no-rings").json["warnings"]
                  if warning["kind"] == "config_differs"]
        self.assertEqual(warned, ["NCCL_ALGO is Tree on rank 2, and Ring on ranks 0-1"])

    def test_settings_of_nccl_conf(self):
        """NCCL puts what it reads from a file into the environment, when the recording has begun."""
        file = self.place.path / "nccl.conf"
        file.write_text("# of this host\nNCCL_ALGO=Tree\nNCCL_DEBUG=INFO\n")
        self.place.run_rank("e2e-processes", "dump-by-hand", NCCL_CONF_FILE=str(file), NCCL_DEBUG="WARN")
        settings = self.place.settings()
        self.assertEqual(settings["NCCL_ALGO"], [("Tree", [0])])
        self.assertEqual(settings["NCCL_DEBUG"], [("INFO", [0])])

    def test_what_is_not_recorded_is_said(self):
        """A library by its name: any will do, preloaded beside us. PyTorch loads NVSHMEM's always; its bootstrap module
        is use."""
        libraries = [self.place.path / name for name in ("libnvshmem_host.so.3", "nvshmem_bootstrap_uid.so.3")]
        for library in libraries:
            shutil.copy(harness.client("libpython_calls.so"), library)
        preloaded = ":".join(map(str, [harness.tracer(), *libraries]))
        self.place.run_rank("e2e-processes", "dump-by-hand", LD_PRELOAD=preloaded)
        digests = self.place.path / "digests"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "--into", digests)
        for source in (self.place.dumps, digests):
            warnings = self.place.analyze(source).json["warnings"]
            told = [warning["summary"] for warning in warnings if warning["kind"] == "not_recorded"]
            self.assertEqual([text.split(": ")[1] for text in told], ["NVSHMEM (nvshmem_bootstrap_uid.so.3)"], warnings)

    def test_without_dumps_the_jobs_of_the_node_are_named(self):
        rank = self.place.start_rank("e2e-processes", "linger")
        rank.wait_says("done")

        def said():
            return self.place.analyze(self.place.path / "nothing").stderr
        self.assertIn("run e2e lives on this node (1 rank); for dumps of now: titan-dump --job e2e\n", said())
        rank.signal(signal.SIGKILL)
        rank.wait()
        advice = said().splitlines()[-1]
        self.assertRegex(advice, "run e2e ended on this node at .* and left 1 ring: titan-analyze .*titantrace-.* "
                                 "--run e2e")
        arguments = advice.rpartition(": titan-analyze ")[2]
        told = self.place.tool("titan-analyze", *arguments.split())
        self.assertIn("run e2e attempt 0: 1 of 1 ranks", told.stdout)

    def test_as_many_as_asked_for_are_kept(self):
        self.place.run_rank("e2e-processes", "five-dumps", TITANTRACE_KEEP="1")
        self.assertEqual([path.name for path in self.place.dump_files()], ["rank00000.4.titan"])

    def test_attempts_are_kept_apart(self):
        for attempt in "01":
            self.place.run_rank("e2e-processes", "dump-by-hand", TORCHELASTIC_RESTART_COUNT=attempt)
        self.assertEqual([len(self.place.dump_files(attempt=n)) for n in (0, 1)], [1, 1])

    def test_a_rank_that_ends_just_after_its_dump_is_not_saved_by_another(self):
        """Its dump tells how it ended. The other one looks, after each dump of its own, for those that left none."""
        ranks = self.place.start_ranks("e2e-processes", "linger", 2)
        for rank in ranks:
            rank.wait_says("done")
        begun = time.monotonic()
        ranks[0].signal(signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1}, 10, "both dump")
        ranks[0].signal(signal.SIGTERM)
        self.assertEqual(ranks[0].wait(), -signal.SIGTERM)
        if time.monotonic() - begun > JOIN_S:
            self.skipTest(f"the machine is too busy: a rank did not end within {JOIN_S} s of its dump")
        for _ in range(2):  # the second one begins when all that the first one caused is done
            self.place.tool("titan-dump", ranks[1].pid, "--ring-dir", self.place.rings, status=0)
        self.assertEqual([path.name for path in self.place.dump_files() if path.name.startswith("rank00000.")],
                         ["rank00000.0.titan"])

    def test_private(self):
        run = self.place.start_rank("e2e-processes", "linger")
        run.wait_says("done")
        run.signal(signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 10, "a dump")
        ring = self.place.ring_files()[0]
        self.assertEqual([mode(ring), mode(ring.parent), mode(self.place.dump_files()[0])], [0o600, 0o700, 0o600])

    def test_with_a_loose_umask(self):
        before = os.umask(0)
        try:
            self.test_private()
        finally:
            os.umask(before)


if __name__ == "__main__":
    harness.main()
