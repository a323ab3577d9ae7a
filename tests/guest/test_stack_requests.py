#!/usr/bin/env python3
"""A dump takes the stacks of all threads; no wait of the program ends early because of that, and no memory of it
changes."""
import sys

import guest
import harness


class Waits(guest.Case):
    """Main takes the first return of its wait for the signal that it waits for."""

    def wait(self, scenario):
        both = self.both([guest.program("waits"), scenario], dumps=2)
        self.assertIn("work finished", both.traced.stdout)

    def test_pause(self):
        self.wait("pause")

    def test_sigsuspend(self):
        self.wait("sigsuspend")

    def test_semaphore(self):
        self.wait("semaphore")

    def test_sigwait(self):
        self.wait("sigwait")

    def test_sigtimedwait(self):
        self.wait("sigtimedwait")

    def test_signalfd(self):
        self.wait("signalfd")

    def test_every_other_wait(self):
        both = self.both([guest.program("early_ends"), "all"], dumps=3)
        self.assertEqual(both.plain.stdout, "ready\ndone\n")
        stacks = self.place.stacks()[-1]
        self.assertEqual({thread["outcome"] for thread in stacks["threads"]}, {"unwound", "ours"})


class PythonWaits(guest.Case):
    def wait(self, scenario):
        both = self.both([sys.executable, guest.script("signal_waits.py"), harness.client("libtiny_user2.so"),
                          scenario], dumps=2)
        self.assertIn("work finished", both.traced.stdout)

    def test_sigwait_of_all(self):
        self.wait("sigwait")

    def test_pause(self):
        self.wait("pause")


class AlternativeStacks(guest.Case):
    def stack(self, scenario, function):
        both = self.both([guest.program("alternative_stacks"), scenario], dumps=2)
        self.assertIn("nothing changed", both.plain.stdout)
        names = [frame["function"] for thread in self.place.stacks()[-1]["threads"][1:] for frame in thread["frames"]]
        self.assertTrue(any(function in name for name in names), names)

    def test_too_small(self):
        self.stack("small", "work")

    def test_too_small_and_waits(self):
        self.stack("small-waits", "in_small")

    def test_freed(self):
        self.stack("freed", "work")

    def test_coroutine(self):
        self.stack("coroutine", "work")


class LockedMemory(guest.Case):
    """mlockall(MCL_CURRENT | MCL_FUTURE): the third dump is as good as the first."""

    def locked(self, scenario):
        argv = [guest.program("memory_locks"), scenario]
        self.both(argv, dumps=3)
        names = [frame["function"] for thread in self.place.stacks()[-1]["threads"] for frame in thread["frames"]]
        self.assertTrue(any("waiting_for_go" in name for name in names), names)

    def test_before_the_session(self):
        self.locked("before")

    def test_after_the_session(self):
        self.locked("after")


if __name__ == "__main__":
    harness.main()
