#!/usr/bin/env python3
"""Programs that each do one thing to their process: with the preload they end as without it."""
import os
import pathlib
import re
import signal
import unittest

import guest
import harness

LIBRARIES = "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"


class Allocators(guest.Case):
    """Other allocators, loaded before and after us."""

    def with_allocator(self, name, **settings):
        found = [str(path) for path in (pathlib.Path(where) / name for where in LIBRARIES) if path.exists()]
        if not found:
            self.skipTest(f"no {name} on this machine")
        argv = [guest.program("allocations"), "work"]
        plain = self.host(argv, False, 1, LD_PRELOAD=found[0], **settings)
        self.assertIn("0 wrong blocks", plain.stdout)
        for order in ([found[0], str(harness.tracer())], [str(harness.tracer()), found[0]]):
            traced = self.host(argv, True, 1, LD_PRELOAD=" ".join(order), TITANTRACE_TIMEOUT_S=5, **settings)
            self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout), traced.stderr)
            self.assertEqual(len(self.place.dump_files()), 1)

    def test_libc(self):
        self.both([guest.program("allocations"), "work"], dumps=1, TITANTRACE_TIMEOUT_S=5)

    def test_jemalloc(self):
        self.with_allocator("libjemalloc.so.2")

    def test_jemalloc_with_threads_of_its_own(self):
        self.with_allocator("libjemalloc.so.2", MALLOC_CONF="background_thread:true,dirty_decay_ms:0")

    def test_tcmalloc(self):
        self.with_allocator("libtcmalloc_minimal.so.4")


class Checkpoints(guest.Case):
    """Programs that go on from a copy of themselves."""

    def test_copy_of_a_killed_process(self):
        self.both([guest.program("checkpoints"), "copy"], dumps=0, TITANTRACE_TIMEOUT_S=5)

    def test_program_that_runs_itself_again(self):
        self.both([guest.program("checkpoints"), "exec"], dumps=0, TITANTRACE_TIMEOUT_S=5)


class Confined(guest.Case):
    """Threads and programs that confine themselves by seccomp: what the kernel would kill them for, we do not make
    them do. The handler of a signal runs under the filter of the thread that it interrupts."""

    def thread(self, scenario, outcome, function, dumps=2, **settings):
        ran = self.both([guest.program("confined"), scenario], dumps=dumps, **settings)
        self.assertIn("the confined thread lives", ran.plain.stdout)
        if dumps:
            stacks = self.place.stacks()[-1]
            found = [thread for thread in stacks["threads"] if thread["tid"] != stacks["pid"]
                     and thread["outcome"] == outcome
                     and any(function in frame["function"] for frame in thread["frames"]) == bool(function)]
            self.assertTrue(found, stacks)

    def test_strict_runs(self):
        self.thread("strict", "not_asked", "")

    def test_strict_waits(self):
        self.thread("strict_waits", "unwound", "wait_for_byte")

    def test_own_filter_runs(self):
        self.thread("own_filter", "not_asked", "")

    def test_own_filter_waits(self):
        self.thread("own_filter_waits", "unwound", "wait_for_byte")

    def test_strict_is_sampled(self):
        self.thread("strict", "", "", dumps=0, TITANTRACE_STACK_SAMPLES_S=0.1, GUEST_ROUNDS=100)


class ExitHandlers(guest.Case):
    """Exit handlers that still use CUDA and NCCL: some run after ours, and after the destructors of the main
    thread's data."""

    def end(self, scenario):
        both = self.both([guest.program("exit_handlers"), scenario])
        self.assertEqual((both.plain.status, both.plain.stdout), (0, "ready\nhandled\n"))

    def test_communicator_of_the_main_program(self):
        self.end("with_a_communicator")

    def test_first_use_of_all(self):
        self.end("without_one")


class IoUring(guest.Case):
    """Programs that wait in io_uring_enter, beside threads of the kernel that belong to them."""

    def with_ring(self, scenario, dumps=1):
        self.both([guest.program("io_uring"), scenario], dumps=dumps, TITANTRACE_TIMEOUT_S=5)

    def test_traffic(self):
        self.with_ring("traffic", dumps=3)

    def test_wait(self):
        self.with_ring("wait")

    def test_bare_wait(self):
        self.with_ring("bare_wait")

    def test_thread_of_the_kernel(self):
        self.with_ring("sqpoll")

    def test_worker_of_the_kernel(self):
        self.with_ring("worker")

    def test_without_stacks(self):
        self.both([guest.program("io_uring"), "bare_wait"], dumps=1, TITANTRACE_STACKS="off")


class Jumps(guest.Case):
    """A call that the program leaves by longjmp is over: no timeout is called for it, and what comes later is
    recorded."""

    def left(self, scenario):
        both = self.both([guest.program("jumps"), scenario], TITANTRACE_TIMEOUT_S=1)
        self.assertIn("done", both.traced.stdout)

    def test_wait(self):
        self.left("wait")

    def test_creation(self):
        self.left("creation")


class Limits(guest.Case):
    """Limits that a program sets for itself are as it set them, also while it is dumped."""

    def test_open_files(self):
        ran = self.both([guest.program("limits"), "files"], dumps=20, TITANTRACE_KEEP=50)
        self.assertIn("0 times a raise was undone, 0 times", ran.traced.stdout)

    def test_locked_memory(self):
        """A start that fails for want of memory keeps none, and leaves no ring of a process that it did not record."""
        both = self.both([guest.program("memory_locks"), "little"])
        self.assertIn("cannot record in this process", both.traced.stderr)
        self.assertEqual(list(self.place.rings.rglob("*.ring")), [])

    def test_lowest_number(self):
        self.both([guest.program("limits"), "lowest_number"], dumps=3, TITANTRACE_KEEP=9)


class MainThreadLeaves(guest.Case):
    """main calls pthread_exit: the process runs on, and ends with the last thread of the program."""

    def test_last_thread(self):
        both = self.both([guest.program("ends"), "last_thread"])
        self.assertEqual(both.plain.stdout, "the last thread leaves\nhandled\n")

    def test_the_others_work_on(self):
        self.both([guest.program("ends"), "without_main"], dumps=1)
        names = [frame["function"] for thread in self.place.stacks()[-1]["threads"] for frame in thread["frames"]]
        self.assertTrue(any("work_without_main" in name for name in names), names)


class OwnThreads(guest.Case):
    """The tracer's threads take nothing over from the thread that happens to call NCCL first."""

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "needs two processors")
    def test_policy_and_processors(self):
        ran = self.host([guest.program("real_time"), "policies"], True, 1)
        if "not allowed" in ran.stdout:
            self.skipTest("real-time policies are not allowed here")
        self.assertEqual(ran.status, 0, ran.stderr)
        threads = {name: (int(policy), int(processors)) for policy, processors, name
                   in re.findall(r"policy (\d+), processors (\d+): (.*)", ran.stderr)}
        self.assertEqual(threads["guest-real_time"], (os.SCHED_FIFO, 1))
        ours = {name: had for name, had in threads.items() if name.startswith("titan-")}
        self.assertIn("titan-watch", ours)
        self.assertEqual(set(ours.values()), {(os.SCHED_OTHER, len(os.sched_getaffinity(0)))}, ours)


class RestartLoop(guest.Case):
    """Rings of processes that ended: which ones stay as evidence, and that what goes is said."""

    ATTEMPTS = 20

    def test_the_first_death_and_the_newest_attempts_are_still_there(self):
        """The first attempt is killed, the others fail; the rings of some five attempts are allowed."""
        for attempt in range(self.ATTEMPTS):
            ran = self.place.run([guest.program("ends"), "in_failure" if attempt else "killed"],
                                 self.place.env(**guest.IDENTITY, TORCHELASTIC_RESTART_COUNT=attempt,
                                                TITANTRACE_RINGS_MIB=40, TITANTRACE_DUMP_ON="none"))
            self.assertEqual(ran.status, 1 if attempt else -signal.SIGKILL)
        listed = self.place.tool("titan-analyze", "rings", "--ring-dir", self.place.rings).stdout
        attempts = sorted(int(line.split("e2e/")[1].split()[0]) for line in listed.splitlines()[1:])
        self.assertEqual((attempts[0], attempts[-1]), (0, self.ATTEMPTS - 1), listed)
        self.assertIn(len(attempts), range(4, 10), listed)
        self.assertEqual(attempts[1:], list(range(attempts[1], self.ATTEMPTS)), "the newest of the others")
        self.assertIn("removed 1 ring of processes that ended", ran.stderr)
        verdict = self.place.analyze(self.place.rings, "--attempt", "0").json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_dead", [0]))


class WithoutPreload(guest.Case):
    """What a program does not want preloaded is left alone, although the environment still has variables that we
    set."""

    def setUp(self):
        if not pathlib.Path(guest.program("nvtx")).exists():
            self.skipTest("built without NVTX's headers")

    def test_a_helper_that_uses_nvtx(self):
        ran = self.both([guest.program("nvtx"), "rank"])
        self.assertEqual(ran.traced.stdout, "no tool listens, 1 thread, SIGTERM as it was\n")
        self.assertEqual(self.place.ring_files(), [])


if __name__ == "__main__":
    harness.main(at_once=3)
