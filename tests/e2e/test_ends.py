#!/usr/bin/env python3
"""Ways in which a job ends under real torchrun, and what is said of it afterwards: with dumps, and from the rings
alone.

    test_ends.py --build DIR --rounds 20    each way twenty times (one round of each way otherwise)
"""

import contextlib
import os
import re
import signal
import time
import unittest

import forked_torchrun
import harness
from test_torchrun import TORCHRUN, python_ranks

VICTIM = 2
ROUNDS = 1
TRAIN = harness.ROOT / "tests" / "simgpu" / "train.py"

# One rank leaves with an exception, which PyTorch's @record writes to its error file.
RECORDED = f"""import os, runpy, sys
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    sys.argv[0] = {str(TRAIN)!r}
    if os.environ["RANK"] == "{VICTIM}":
        sys.argv += ["--steps", "40"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit:
        pass
    raise RuntimeError("loss is not finite")

main()
"""


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class Ends(harness.Case):
    def start(self, faults="", *, options=(), program=TRAIN, **settings):
        return self.place.start(
            [TORCHRUN, "--nproc-per-node=4", "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
             *options,
             program, "--tp", "2", "--steps", "100000", "--step-ms", "10"],
            self.place.env(SIMGPU_DIR=harness.stand_ins(), LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1",
                           SIMGPU_FAULTS=faults,
                           TITANTRACE_RUN_ID=None, **settings), by=forked_torchrun.start)

    def wait_for_steps(self, job, step):
        harness.wait_for(lambda: len(self.place.ring_files()) == 4 or job.status is not None, 90, "four ranks record")

        def newest():
            calls = self.place.show(self.place.rings, "--last", 1, starting=True)
            return min((call["step"] for call in calls), default=-1) if len(calls) == 4 else -1
        harness.wait_for(lambda: newest() >= step, 60, f"step {step}")

    def expect(self, kind, *, of_ranks=(VICTIM,), line=True, sources=None):
        """The same verdict from what lies in the dump directory and from the rings alone; a line of the program with
        dumps."""
        for source in sources or (self.place.dumps, self.place.rings):
            analysis = self.place.analyze(source, *(["--no-rings"] if source == self.place.dumps else []))
            self.assertEqual(analysis.status, harness.FINDINGS, analysis.stdout + analysis.stderr)
            verdict = analysis.json["verdict"]
            self.assertEqual((verdict["kind"], verdict["ranks"]), (kind, list(of_ranks)), analysis.stdout)
            if line and source == self.place.dumps:
                self.assertRegex(analysis.stdout, r"train\.py:\d+")
        return analysis.json["findings"][0]

    def each_round(self, once):
        for number in range(ROUNDS):
            if number:
                self.place = self.new_place()
            once()

    def test_kill_9(self):
        def once():
            self.start("kill rank=2 step=40").wait(90)
            finding = self.expect("rank_dead")
            self.assertTrue(any(
                re.search(r"rank 2 was last seen alive at .* before the first of the others ended", line)
                                for line in finding["evidence"]), finding["evidence"])
        self.each_round(once)

    @harness.at_night
    def test_kill_9_without_dumps(self):
        def once():
            self.start("kill rank=2 step=40", TITANTRACE_DUMP_ON="none").wait(90)
            self.expect("rank_dead", sources=[self.place.rings])
            collected = self.place.path / "collected"
            done = self.place.tool("titan-analyze", "collect", "--into", collected, "--ring-dir", self.place.rings)
            self.assertEqual((done.status, len(done.stdout.splitlines())), (0, 4), done.stderr)
            analysis = self.place.analyze(collected, "--no-rings")
            self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]),
                             ("rank_dead", [VICTIM]), analysis.stdout)
            for there in (True, False):
                analysis = self.place.analyze(self.place.dumps)
                self.assertEqual((analysis.status, analysis.json["verdict"]["kind"]), (harness.FINDINGS, "rank_dead"),
                                 there)
                self.assertIn("has no dumps there: 4 rings of this node are read",
                              analysis.json["warnings"][0]["summary"])
                if there:
                    self.place.dumps.rmdir()
            self.place.dumps.mkdir()
        self.each_round(once)

    @harness.at_night
    def test_out_of_memory(self):
        """As the OOM killer does it: from outside, at any moment of a step."""
        def once():
            job = self.start()
            self.wait_for_steps(job, 20)
            os.kill(python_ranks(job.pid)[VICTIM], signal.SIGKILL)
            job.wait(90)
            self.expect("rank_dead")
        self.each_round(once)

    @harness.at_night
    def test_dead_without_a_record(self):
        """Nothing of rank 2 is left but what torchrun says of it."""
        def once():
            job = self.start("kill rank=2 step=40")
            job.wait(90)
            for dump in self.place.dumps.glob(f"*/0/rank{VICTIM:05}.*"):
                dump.unlink()
            before = self.place.analyze(self.place.dumps, "--no-rings")
            # On a busy machine some rank may have been late.
            self.assertEqual([one for one in before.json["findings"] if one["kind"] != "straggler"], [], before.stdout)
            (self.place.dumps / "job.log").write_text(job.stderr)
            finding = self.expect("rank_dead", sources=[self.place.dumps], line=False)
            self.assertRegex(finding["summary"], "is dead .killed by SIGKILL. and left no record")
            said = [said for said in self.place.analyze(self.place.dumps).json["witnesses"] if said["rank"] == VICTIM]
            self.assertEqual([(one["witness"], one["signal"], one["order"]) for one in said],
                             [("torchrun", signal.SIGKILL, "first")])
        self.each_round(once)

    @harness.at_night
    def test_exception(self):
        def once():
            program = self.place.path / "recorded.py"
            program.write_text(RECORDED)
            job = self.start(options=["--log-dir", self.place.dumps / "logs"], program=program)
            job.wait(90)
            finding = self.expect("rank_dead", sources=[self.place.dumps], line=False)
            self.assertIn("RuntimeError: loss is not finite", finding["summary"])
            self.assertTrue(any("error file says (attempt_0/2/error.json): RuntimeError: loss is not finite, at "
                                "recorded.py:" in line
                                for line in finding["evidence"]), finding["evidence"])
        self.each_round(once)

    @harness.at_night
    def test_exit_status(self):
        def once():
            self.start("exit rank=2 step=40 code=3").wait(90)
            finding = self.expect("rank_dead")
            self.assertIn("exited with status 3", finding["summary"])
            self.assertEqual(finding["ends"], {"2": {"ended": "exited", "status": 3}})
        self.each_round(once)

    @harness.at_night
    def test_segmentation_fault(self):
        def once():
            self.start("segv rank=2 step=40").wait(90)
            finding = self.expect("rank_dead")
            self.assertIn("SIGSEGV", finding["summary"])
            self.assertEqual(finding["ends"], {"2": {"ended": "crashed", "signal": "SIGSEGV"}})
        self.each_round(once)

    def signal_to_any_rank_dumps_all(self, job):
        pids = python_ranks(job.pid)
        self.assertEqual(sorted(pids), [0, 1, 2, 3])
        os.kill(pids[VICTIM], signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks(self.run_id()) == {0, 1, 2, 3}, 20, "all ranks dump")
        self.assertIsNone(job.status, "the job goes on")
        analysis = self.place.analyze(self.place.dumps, "--no-rings")
        self.assert_healthy(analysis)
        self.assertEqual(analysis.json["run"]["ranks"], [0, 1, 2, 3])

    def cancelled(self, number, before=lambda job: None):
        """A healthy job that is told to end as a whole ends without a dump per rank; its rings tell how."""
        def once():
            job = self.start()
            self.wait_for_steps(job, 20)
            before(job)
            dumped = set(self.place.dumps.glob("*/0/*.titan"))
            job.signal(number)
            job.wait(90)
            self.assertEqual(set(self.place.dumps.glob("*/0/*.titan")), dumped, job.stderr)
            analysis = self.place.analyze(self.place.rings)
            self.assertIn("were told to end by SIGTERM" if number == signal.SIGTERM else "told to end by",
                          analysis.stdout)
            self.assert_healthy(analysis)
        self.each_round(once)

    def test_cancelled(self):
        self.cancelled(signal.SIGTERM, self.signal_to_any_rank_dumps_all)

    @harness.at_night
    def test_interrupted_while_healthy(self):
        self.cancelled(signal.SIGINT)

    @harness.at_night
    def test_one_rank_is_told_to_end(self):
        """By hand or by an agent that guards memory; the launcher then ends the others."""
        def once():
            job = self.start()
            self.wait_for_steps(job, 20)
            os.kill(python_ranks(job.pid)[VICTIM], signal.SIGTERM)
            job.wait(90)
            finding = self.expect("rank_dead", sources=[self.place.rings])
            self.assertEqual(finding["ends"], {"2": {"ended": "killed", "signal": "SIGTERM"}})
        self.each_round(once)

    def test_stopped(self):
        def once():
            job = self.start()
            self.wait_for_steps(job, 20)
            victim = python_ranks(job.pid)[VICTIM]
            os.kill(victim, signal.SIGSTOP)
            try:
                harness.wait_for(self.stands_still, 20, "the others wait")
                from_rings = self.expect("rank_stopped", sources=[self.place.rings])
                self.assertIn("is stopped", from_rings["summary"])
                self.place.tool("titan-dump", "--job", self.run_id(), "--ring-dir", self.place.rings)
                self.assertIn("is stopped", self.expect("rank_stopped", sources=[self.place.dumps])["summary"])
            finally:
                os.kill(victim, signal.SIGCONT)
                job.end()
        self.each_round(once)

    def stands_still(self, for_s=1.5):
        waits = self.place.show(self.place.rings, "--last", 1)
        now_ns = time.time_ns()
        return waits and all(now_ns - call["entered_realtime_ns"] > for_s * 1e9 for call in waits)

    def run_id(self):
        done = self.place.tool("titan-analyze", "rings", "--ring-dir", self.place.rings)
        return done.stdout.splitlines()[1].split()[-2].rsplit("/", 1)[0]

    def expect_stuck_in_python(self):
        """From the dumps of the hang, and from their digests."""
        analysis = self.place.analyze(self.place.dumps, "--no-rings")
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]),
                         ("rank_not_arrived", [VICTIM]))
        verdict, = analysis.json["findings"]
        self.assertRegex(verdict["summary"], r"rank 2 is in stuck_in_python at train\.py:\d+$")
        self.assertRegex(verdict["rank_state"]["2"], r"step 40; .*is in stuck_in_python at train\.py:\d+$")
        self.assertTrue(any("part below main at train.py" in line and "rank 2 goes on to train_step" in line
                            for line in verdict["evidence"]), verdict["evidence"])
        self.assertIn("stuck_in_python at train.py", verdict["stacks"]["2"][1])
        digest = self.place.dumps.parent / "digests"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "--no-rings", "--into", digest)
        self.assertEqual(self.place.analyze(digest).json["findings"], analysis.json["findings"])
        line = 1 + next(i for i, text in enumerate(TRAIN.read_text().splitlines()) if "def stuck_in_python" in text)
        for process in self.place.stacks():
            main = process["threads"][0]
            self.assertTrue(process["python"].startswith("CPython 3."), process["python"])
            self.assertEqual((main["python_frames"][-1]["function"], main["python_cut"]), ("<module>", False))
            inner = main["python_frames"][0]
            if process["rank"] == VICTIM:
                self.assertEqual(inner["function"], "stuck_in_python")
                self.assertIn(inner["line"], range(line, line + 5))
                # Native frames stand inside of the Python function that called them, and the interpreter's are left
                # out.
                self.assertTrue(any("sleep" in text for text in main["merged"][:2]), main["merged"])
                self.assertIn(f"stuck_in_python at train.py:{inner['line']}", main["merged"])
                self.assertFalse(any("_PyEval" in text for text in main["merged"]), main["merged"])
            else:
                self.assertNotEqual(inner["function"], "stuck_in_python")

    def end_long_after_its_dump(self, ranks):
        job = self.start("spin rank=2 step=40", TITANTRACE_TIMEOUT_S=3 * harness.SLOW)
        self.wait_for_steps(job, 39)
        harness.wait_for(lambda: self.place.dumped_ranks(self.run_id()) == {0, 1, 2, 3}, 90, "all dump")
        dumped_at = time.monotonic()
        self.expect_stuck_in_python()
        time.sleep(max(0, dumped_at + 4 - time.monotonic()))
        pids = python_ranks(job.pid)
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):  # torchrun may have ended it for the others' sake
                os.kill(pids[rank], signal.SIGKILL)
        job.wait(90)
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]),
                         ("rank_not_arrived", [VICTIM]),
                         analysis.stdout)
        self.assertIn("stuck_in_python at train.py:", analysis.json["findings"][0]["summary"])
        # Rings that are read in place of the dumps know why those were made, and line 1 says what is read.
        self.assertNotIn("no watchdog has called this a hang", analysis.stdout)
        if "read from the ring" in analysis.stdout:
            self.assertIn("are older: --no-rings reads those", analysis.stdout)
        return pids[VICTIM]

    def test_killed_long_after_its_dump(self):
        """The rings, and a dump that is made of one of them, are newer than the watchdog's dumps, which alone have
        stacks."""
        def once():
            victim = self.end_long_after_its_dump(range(4))
            dumped = self.place.tool("titan-dump", victim, "--ring-dir", self.place.rings)
            # A rank that is killed a moment later may have noticed the death, and have saved the ring first.
            self.assertRegex(dumped.stderr, "is dead: (its dump was written from outside|another rank saved its ring)")
            self.assertIn("stuck_in_python at train.py:",
                          self.expect("rank_not_arrived", sources=[self.place.dumps])["summary"])
        self.each_round(once)

    @harness.at_night
    def test_one_killed_in_a_hang(self):
        """Rank 1 waits in a call that rank 3 has issued behind the one that rank 2 never makes. torchrun ends the
        others."""
        self.each_round(lambda: self.end_long_after_its_dump([1]))

    @harness.at_night
    def test_all_but_one_killed_in_a_hang(self):
        """Three have no time to note anything, and torchrun tells the fourth."""
        self.each_round(lambda: self.end_long_after_its_dump(range(3)))

    @harness.at_night
    def test_interrupted_hang(self):
        def once():
            job = self.start("spin rank=2 step=40", TITANTRACE_TIMEOUT_S="60")
            self.wait_for_steps(job, 39)
            harness.wait_for(lambda: self.stands_still(4), 20, "the others wait")
            job.signal(signal.SIGINT)
            harness.wait_for(lambda: len(list(self.place.dumps.glob("*/0/*.titan"))) == 4, 30, "all dump")
            finding = self.expect("rank_not_arrived", sources=[self.place.dumps])
            self.assertIn("stuck_in_python at train.py:", finding["summary"])
            for pid in python_ranks(job.pid).values():
                os.kill(pid, signal.SIGKILL)  # what torchrun does 30 s later
            job.wait(60)
            finding = self.expect("rank_not_arrived")
            self.assertTrue(any("hung before it ended: it was told to end by SIGINT" in line
                                for line in finding["evidence"]),
                            finding["evidence"])
        self.each_round(once)


if __name__ == "__main__":
    ROUNDS = harness.take_option("--rounds", ROUNDS)
    harness.main(at_once=2, rings=harness.SMALL_RINGS)
