#!/usr/bin/env python3
"""A rank that crashes leaves a dump, and still dies as it would have."""

import signal

import harness


class Crashes(harness.Case):
    def crash(self, scenario, number, dumps=True, **settings):
        plain = self.place.run([harness.client("e2e-signals"), scenario], self.place.env(preload=False))
        run = self.place.run_rank("e2e-signals", scenario, **settings)
        self.assertEqual(plain.status, -number)
        self.assertEqual((run.status, run.stdout), (plain.status, plain.stdout))
        self.assertEqual(len(self.place.dump_files()), 1 if dumps else 0, run.stderr)
        return run

    def test_segfault(self):
        self.crash("segfault", signal.SIGSEGV)
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("rank_dead", [0]))
        self.assertIn("SIGSEGV", analysis.stdout)

    def test_raised_signal(self):
        self.crash("raised", signal.SIGFPE)

    def test_stack_overflow(self):
        """No stack is left for a handler: the ring must do, or an alternate stack."""
        plain = self.place.run([harness.client("e2e-signals"), "stack-overflow"], self.place.env(preload=False))
        run = self.place.run_rank("e2e-signals", "stack-overflow")
        self.assertEqual((run.status, run.stdout), (plain.status, plain.stdout))
        analysis = self.place.analyze(*([self.place.dumps] if self.place.dump_files() else []), self.place.rings)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("rank_dead", [0]))

    def test_on_another_thread(self):
        self.crash("segfault-on-thread", signal.SIGSEGV)

    def test_own_handler_runs_first(self):
        run = self.crash("handled-segfault", signal.SIGSEGV)
        self.assertIn("own handler", run.stdout)

    def test_not_asked_for(self):
        self.crash("segfault", signal.SIGSEGV, dumps=False, TITANTRACE_DUMP_ON="signal,timeout")


if __name__ == "__main__":
    harness.main()
