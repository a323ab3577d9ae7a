#!/usr/bin/env python3
"""Whole simulated jobs with the tracer under ThreadSanitizer: captures, launches and dumps at the same time, by all
methods and ways in. Only the tracer is instrumented (tests/unit/tracer/tsan); what the stand-ins do between themselves
is ignored (tsan.supp). And programs that bring a sanitizer of their own run under the ordinary library."""

import os
import pathlib
import signal
import subprocess
import time

import harness

REPORTED = 66
COMPILER = os.environ.get("TITAN_COMPILER", "c++").split()
# That a slot is taken again a lap later is a race on purpose, told by its sequence: no ring of these tests wraps.
RINGS = {f"TITANTRACE_{ring}": 65536 for ring in ("COLLECTIVES", "CUDA_CALLS", "STREAM_WORK", "MARKERS")}
STEPS = 100


def library():
    return harness.BUILD / "tests" / "unit" / "tracer" / "tsan" / "libtitantrace_tsan.so"


# Who crashes on purpose looks at who handles it. sigaltstack is our wrapper, compiled for ThreadSanitizer, which calls
# it before it is ready for such code.
WITH_US = "handle_segv=0 handle_abort=0 use_sigaltstack=0"


def runtime(name):
    """A sanitizer's own library, or None."""
    found = subprocess.run([*COMPILER, f"-print-file-name={name}"], capture_output=True, text=True,
                           check=False).stdout.strip()
    return pathlib.Path(found).resolve() if "/" in found else None


class Instrumented(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.around, cls.why_not = [], None
        if not library().exists() or runtime("libtsan.so") is None:
            cls.why_not = "no libtitantrace_tsan.so: this build or its compiler has no ThreadSanitizer to preload"
            return
        for cls.around in ([], ["setarch", "-R"]):
            tried = subprocess.run([*cls.around, "env", f"LD_PRELOAD={runtime('libtsan.so')}", "true"],
                                   capture_output=True,
                                   text=True, check=False)
            if tried.returncode == 0:
                return
        cls.why_not = f"ThreadSanitizer does not run here: {tried.stderr[-200:]}"

    def setUp(self):
        if self.why_not is not None:
            print("skipped:", self.why_not)
            self.skipTest(self.why_not)
        self.reports = self.place.path / "reports"
        self.reports.mkdir()

    def start(self, *arguments, **settings):
        options = (f"exitcode={REPORTED} halt_on_error=0 history_size=4 atexit_sleep_ms=0 {WITH_US} "
                   f"log_path='{self.reports}/of' suppressions='{pathlib.Path(__file__).parent / 'tsan.supp'}'")
        environment = self.place.env(preload=False, TSAN_OPTIONS=options, **RINGS, **settings)
        return self.place.start([*self.around, "env", f"LD_PRELOAD={library()}:{runtime('libtsan.so')}",
                                 harness.stand_ins() / "titan-sim", *arguments], environment)

    def reported(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.reports.iterdir()))

    def job(self, *arguments, status=0, faults="", least=100, **settings):
        """A job that is asked for dumps all the time, from inside and from outside."""
        threads = "--threads" in arguments
        job = self.start(*arguments, "--steps", str(STEPS), "--step-ms", "10",
                         SIMGPU_FAULTS=f"dump step=2; dump step={STEPS // 2}; {faults}", **settings)
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == (1 if threads else 2) or job.status is not None, 30,
                         "dumps")
        signals = 0
        while job.status is None and signals < 300:
            job.signal(signal.SIGUSR1)
            signals += 1
            time.sleep(0.1)
        job.wait(60)
        self.assertEqual(self.reported(), "")
        self.assertEqual(job.status, status)
        self.assertGreater(signals, 3, "it was over before it was asked")
        calls = self.place.show(self.place.dumps, "--last", "100000")
        self.assertGreater(len(calls), least)
        return calls

    def test_a_race_is_reported(self):
        job = self.start("--ranks", "2", "--steps", "2", TITAN_TSAN_SELF_TEST="1")
        self.assertEqual(job.wait(), REPORTED)
        self.assertIn("data race", self.reported())
        self.assertIn("tsan_guest.c", self.reported())

    def test_processes_with_graphs(self):
        self.job("--ranks", "2", "--graphs")

    def test_threads_with_graphs_and_writes(self):
        calls = self.job("--threads", "--ranks", "4", "--tp", "2", "--graphs")
        self.assertIn("captured", {call["state"] for call in calls})

    def test_threads_with_graphs_and_events(self):
        self.job("--threads", "--ranks", "4", "--tp", "2", "--graphs", TITANTRACE_GPU_PROGRESS="events")

    def test_threads_with_kernels_and_timing(self):
        self.job("--threads", "--ranks", "4", "--kernels", "20", TITANTRACE_GPU_PROGRESS="timing")

    def test_threads_with_the_plugin_and_nvtx(self):
        self.job("--threads", "--ranks", "4", "--pp", "2", "--use-split", "--nvtx", TITANTRACE_NCCL_PLUGIN="progress")

    def test_threads_with_cupti(self):
        self.job("--threads", "--ranks", "4", "--pp", "2", "--kernels", "20", TITANTRACE_CUDA="cupti")

    def test_an_abort_while_others_wait(self):
        # On a busy machine a step before the fault may take that long already: the abort is what counts here.
        self.job("--threads", "--ranks", "4", "--tp", "2", "--graphs", "--hang-timeout-s", "5", status=5, least=20,
                 faults="skip rank=1 comm=dp step=9", TITANTRACE_TIMEOUT_S="1")


class Uninstrumented(harness.Case):
    def check_beside(self, name):
        """The preload and a sanitizer in one process: its runtime asks dlsym before it can do anything else."""
        beside = runtime(name)
        if beside is None:
            print(f"skipped: this compiler has no {name}")
            self.skipTest(f"this compiler has no {name}")
        for preload in ([harness.tracer(), beside], [beside, harness.tracer()]):
            environment = self.place.env(preload=False, TITANTRACE_DUMP_ON="exit", TSAN_OPTIONS="report_bugs=0",
                                         ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
            run = self.place.run(["env", "LD_PRELOAD=" + ":".join(map(str, preload)), harness.stand_ins() / "titan-sim",
                                  "--ranks", "2", "--steps", "3"], environment, 60)
            self.assertEqual(run.status, 0)
            self.assertEqual(self.place.dumped_ranks(), {0, 1})

    def test_thread_sanitizer_in_the_process(self):
        self.check_beside("libtsan.so")

    def test_address_sanitizer_in_the_process(self):
        self.check_beside("libasan.so")


if __name__ == "__main__":
    harness.main()
