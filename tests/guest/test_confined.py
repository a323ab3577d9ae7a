#!/usr/bin/env python3
"""Threads and programs that confine themselves by seccomp: what the kernel would kill them for, we do not make them
do."""
import guest
import harness


class Threads(guest.Case):
    """The handler of a signal runs under the filter of the thread that it interrupts."""

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


if __name__ == "__main__":
    harness.main()
