#!/usr/bin/env python3
"""The program's signal handlers and ours live together, whoever came first."""

import signal
import sys

import harness


class Signals(harness.Case):
    def signalled(self, scenario, handled, dumps=1, number=signal.SIGUSR1, **settings):
        run = self.place.start_rank("e2e-signals", scenario, **settings)
        run.wait_says("ready")
        run.signal(number)
        if dumps:
            harness.wait_for(lambda: len(self.place.dump_files()) == dumps, 10, "a dump")
        self.place.go()
        self.assertEqual(run.wait(), 0)
        self.assertEqual(run.stdout.splitlines()[-1], f"handled {handled}")
        self.assertEqual(len(self.place.dump_files()), dumps)
        return run

    def test_no_handler(self):
        self.signalled("plain", 0)

    def test_sigaction_before(self):
        self.signalled("sigaction-before", 1)

    def test_signal_after(self):
        self.signalled("signal-after", 1)

    def ignored(self, scenario):
        run = self.signalled(scenario, 0, dumps=0)
        self.assertEqual(run.stderr, "titantrace: rank 0: SIGUSR1 is ignored by the program and asks for no dump; "
                         "titan-dump does\n")

    def test_ignored_after(self):
        self.ignored("ignored-after")

    def test_ignored_over_exec(self):
        run = self.same_but_for_the_tracer([harness.client("e2e-signals"), "ignored-over-exec"], RANK="0")
        self.assertEqual(run.stdout, "survived\nchild ended with 0\n")

    def test_fork_while_actions_change(self):
        run = self.same_but_for_the_tracer([harness.client("e2e-signals"), "fork-among-changes"], RANK="0")
        self.assertEqual(run.stdout, "300 children ended\n")

    def test_signal_that_is_the_programs_wake_up(self):
        run = self.place.run_rank("e2e-signals", "wake-ups")
        self.assertEqual((run.status, run.stdout), (0, "handled 420\n"))
        self.assertEqual([path.name for path in self.place.dump_files()], ["rank00000.0.titan"])

    def test_the_program_reads_back_its_own(self):
        run = self.same_but_for_the_tracer([harness.client("e2e-signals"), "reads-back"], RANK="0")
        self.assertEqual(run.stdout, "first default\nthen mine\nand default\n")

    def test_another_signal(self):
        self.signalled("plain", 0, number=signal.SIGUSR2, TITANTRACE_SIGNAL="USR2")

    def test_signal_by_number(self):
        self.signalled("plain", 0, number=signal.SIGUSR2, TITANTRACE_SIGNAL=str(int(signal.SIGUSR2)))

    def test_signals_off(self):
        run = self.signalled("signal-before", 1, dumps=0, TITANTRACE_SIGNAL="off")
        self.assertEqual(run.stderr, "")

    def test_signals_off_leaves_the_default(self):
        run = self.place.start_rank("e2e-signals", "plain", TITANTRACE_SIGNAL="off")
        run.wait_says("ready")
        run.signal(signal.SIGUSR1)
        self.assertEqual(run.wait(), -signal.SIGUSR1)

    def python(self, when):
        code = """
import ctypes, os, signal, sys, time
handled = []
def install():
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
lib = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
if sys.argv[2] == "before": install()
assert lib.user_reduce() == 2
if sys.argv[2] == "after": install()
print("ready", flush=True)
while not os.path.exists(os.environ["E2E_MEET"] + "/go"):
    time.sleep(0.01)
print("handled", len(handled))
"""
        run = self.place.start([sys.executable, "-c", code, harness.client("libtiny_user2.so"), when],
                               self.place.env(RANK="0", WORLD_SIZE="1"))
        run.wait_says("ready")
        run.signal(signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 10, "a dump")
        self.place.go()
        self.assertEqual((run.wait(), run.stdout), (0, "ready\nhandled 1\n"))

    def test_python_handler_after(self):
        self.python("after")


if __name__ == "__main__":
    harness.main()
