#!/usr/bin/env python3
"""Recorded processes that fork, clone, execute, close files and leave in odd ways."""

import os
import signal
import sys
import unittest

import harness


class Processes(harness.Case):
    def start(self, scenario, **settings):
        started = self.place.start_rank("e2e-processes", scenario, **settings)
        started.wait_says("done")
        return started

    def finish(self, started, status=0):
        self.place.go()
        self.assertEqual(started.wait(), status, started.stderr)

    def expect_dumps(self, signalled, count=1):
        os.kill(signalled, signal.SIGUSR1)
        harness.wait_for(lambda: len(self.place.dump_files()) >= count, 10, "a dump")

    def test_forked_child_that_does_nothing(self):
        parent = self.place.start_rank("e2e-processes", "fork-idle")
        harness.wait_for(lambda: self.children(parent.pid), 20, "a child")
        child = self.children(parent.pid)[0]
        self.assertEqual(len(harness.threads_of(child)), 1, "the child has no thread of ours")
        self.assertEqual(len(self.place.ring_files()), 1, "and no ring")
        self.expect_dumps(parent.pid)
        self.place.go("child")
        parent.wait_says("done")
        self.assertIn("child ended with 0", parent.stdout)
        self.finish(parent)

    def test_signal_to_a_forked_child_does_not_kill_it(self):
        """A launcher signals the whole process group, data-loader workers included."""
        parent = self.place.start_rank("e2e-processes", "fork-idle")
        harness.wait_for(lambda: self.children(parent.pid), 20, "a child")
        os.killpg(parent.pid, signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 10, "the parent dumps")
        self.place.go("child")
        parent.wait_says("done")
        self.finish(parent)

    def children(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]

    def test_markers_of_a_forked_child_are_not_the_parents(self):
        parent = self.start("fork-markers")
        self.assertIn("dump -1", parent.stdout)
        steps = {call["step"] for call in self.place.show(self.place.rings)}
        self.assertNotIn(77, steps)
        self.assertEqual((len(self.place.ring_files()), self.place.dump_files()), (1, []))
        self.finish(parent)

    def test_forked_child_that_uses_nccl(self):
        traced = self.start("fork-nccl")
        self.assertIn("child ended with 0", traced.stdout)
        parents = [path for path in self.place.ring_files() if path.name.startswith(f"{traced.pid}-")]
        calls = self.place.show(*parents, "--op", "all_reduce", "--rank", "0")
        self.assertEqual([call["result"] for call in calls], [0, 0], "the parent's ring holds the parent's calls only")
        self.finish(traced)

    # A child that uses NCCL itself inherits RANK. It is not that rank, or its record would hide its parent's.
    def test_record_of_a_child_does_not_hide_the_parents(self):
        traced = self.start("fork-nccl")
        self.expect_dumps(traced.pid, 2)
        calls = self.place.show(self.place.dumps, "--op", "all_reduce", "--rank", "0")
        self.assertEqual([call["result"] for call in calls], [0, 0])
        self.assertEqual(len(self.place.show(self.place.dumps, "--op", "all_reduce")), 3,
                         "the child's own call is there too")

    def test_children_become_ranks(self):
        launcher = self.place.start([harness.client("e2e-processes"), "fork-first"])
        harness.wait_for(lambda: len(self.place.ring_files()) == 2, 20, "both children record")
        self.assertEqual(harness.threads_of(launcher.pid), ["e2e-processes"])
        harness.wait_for(lambda: len(self.place.show(self.place.rings, "--op", "all_reduce", starting=True)) == 2, 10,
                         "their calls")
        self.finish(launcher)
        self.assertEqual(self.place.ring_files(), [])

    def test_raw_clone(self):
        parent = self.start("raw-clone")
        self.assertIn("child ended with 0", parent.stdout)
        calls = self.place.show(self.place.rings, "--op", "all_reduce")
        self.assertEqual([call["step"] for call in calls if call["result"] == 0], [-1, -1])
        self.expect_dumps(parent.pid)
        self.finish(parent)

    def test_shells_started_by_a_rank(self):
        run = self.same_but_for_the_tracer([harness.client("e2e-processes"), "shells"], RANK="0", WORLD_SIZE="1")
        self.assertEqual((run.status, run.stderr), (0, ""))
        self.assertEqual((self.place.ring_files(), self.place.dump_files()), ([], []))

    def test_rank_records_before_its_first_collective(self):
        """What it does instead of the first one is seen by those who wait for it."""
        rank = self.start("cuda-only")
        self.expect_dumps(rank.pid)
        self.assertIn("done", rank.stdout)
        frames = self.place.stacks()[0]["threads"][0]["frames"]
        self.assertTrue(any("cuda_only" in frame["function"] for frame in frames), frames)
        self.finish(rank)

    def test_helper_that_a_rank_starts_is_no_rank(self):
        rank = self.place.start_rank("e2e-processes", "cuda-in-a-helper")
        rank.wait_says("done")  # of the helper
        self.assertEqual([path.name.split("-")[0] for path in self.place.ring_files()], [str(rank.pid)])
        self.finish(rank)

    def test_exec_by_a_rank_starts_a_new_record(self):
        run = self.start("execute")
        calls = self.place.show(self.place.rings, "--op", "all_reduce")
        self.assertEqual([call["count"] for call in calls], [4242])
        self.expect_dumps(run.pid)
        self.finish(run)

    def test_all_files_closed(self):
        # A file that a thread of ours has open just then would have the lowest number.
        run = self.place.start_rank("e2e-processes", "close-files", TITANTRACE_HEALTH_S=0)
        run.wait_says("closing")
        harness.wait_for(lambda: (self.place.meet / "mine").exists(), 10, "files closed")
        self.expect_dumps(run.pid)
        self.assertEqual(self.place.analyze(self.place.dumps).status, harness.HEALTHY)
        self.finish(run)
        self.assertEqual((self.place.meet / "mine").read_bytes(), b"", "nothing of ours went into the program's file")

    def test_python_workers_by_fork(self):
        """multiprocessing's data-loader workers below a recorded rank; RTLD_LOCAL library for the parent."""
        code = """
import ctypes, multiprocessing, os, sys
lib = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
assert lib.user_reduce() == 2
def work(i):
    return i * i, len(os.listdir(f"/proc/{os.getpid()}/task"))
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(sorted(pool.map(work, range(6))))
assert lib.user_reduce() == 2
"""
        run = self.same_but_for_the_tracer([sys.executable, "-c", code, harness.client("libtiny_user2.so")], RANK="0")
        self.assertEqual((run.status, run.stderr), (0, ""))
        self.assertEqual(self.place.dump_files(), [])

    def test_exit_status_is_kept(self):
        run = self.start("linger", E2E_STATUS="41")
        self.finish(run, 41)


if __name__ == "__main__":
    harness.main()
