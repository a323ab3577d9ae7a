#!/usr/bin/env python3
"""What the program survives is no crash, and its handlers work as if they were alone."""
import signal

import guest
import harness


class Survived(guest.Case):
    def survive(self, scenario, **settings):
        both = self.both([guest.program("survives"), scenario], **settings)
        self.assertEqual(both.plain.status, 0)
        self.assertEqual(self.rings(), [], "the process ended in order")
        return both

    def rings(self):
        return [path.name for path in self.place.rings.rglob("*.ring")]

    def test_raised_abort_twice(self):
        self.survive("raise-abort-twice")

    def test_raised_abort_then_fault(self):
        self.survive("raise-abort-then-fault")

    def test_ignored_abort(self):
        self.survive("ignored-abort")

    def test_abort_that_is_ignored_is_a_crash(self):
        argv = [guest.program("survives"), "ignored-and-aborts"]
        ran = [self.host(argv, preload, 0) for preload in (False, True)]
        self.assertEqual([(one.status, one.stdout) for one in ran], [(-signal.SIGABRT, "aborting\n")] * 2)
        self.assertEqual(len(self.place.dump_files()), 1, ran[1].stderr)

    def test_probed_memory(self):
        self.survive("probe")

    def test_what_handlers_see(self):
        self.survive("inside-handlers")

    def test_no_handlers_with_signals_off(self):
        self.survive("handled-signals", TITANTRACE_SIGNAL="off")

    def test_abort_is_a_crash(self):
        argv = [guest.program("survives"), "aborts"]
        plain = self.host(argv, False, 0)
        traced = self.host(argv, True, 0)
        self.assertEqual((plain.status, plain.stdout), (-signal.SIGABRT, "own handler\n"))
        self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout))
        self.assertEqual(len(self.place.dump_files()), 1, traced.stderr)
        self.assertIn("crash: SIGABRT", traced.stderr)

    def test_abort_of_another_library(self):
        before = harness.BUILD / "tests" / "guest" / "libown_abort.so"
        argv = [guest.program("survives"), "aborts"]
        traced = self.host(argv, True, 0, LD_PRELOAD=f"{before} {harness.tracer()}")
        self.assertEqual((traced.status, traced.stdout), (-signal.SIGABRT, "own handler\n"))
        self.assertEqual(len(self.place.dump_files()), 1, traced.stderr)


if __name__ == "__main__":
    harness.main()
