#!/usr/bin/env python3
"""A run that ended well has an answer in every command, though only its journal is left; so has the next start."""

import json
import os
import re
import sys

import harness

# A name of its own: a rank of another test that dies in the middle, and whose ring had to go to /tmp, is none of this
# run.
RUN = f"ends-well-{os.getpid()}"
CLIENT = harness.ROOT / "tests" / "e2e" / "clients" / "ends_well.py"
ENDED = r"ended well after 30 steps, 2 of 2 ranks; \d+ ms a step; metrics not finite: loss, rank 0, step 20"


class EndedWell(harness.Case):
    def train(self, steps=30, killed_at=-1, **settings):
        """Two ranks under titan-run, to their end."""
        job = self.start(steps, killed_at, **settings)
        job.wait(60)
        return job

    def start(self, steps, killed_at=-1, titan_run=(), **settings):
        socket = self.place.path / f"peers-{steps}"
        rank = f"{sys.executable} {CLIENT} {steps} {killed_at} {socket}"
        job = f"RANK=0 LOCAL_RANK=0 {rank} & RANK=1 LOCAL_RANK=1 {rank} & wait"
        return self.place.start([harness.BUILD / "tools" / "titan-run", *titan_run, "--", "sh", "-c", job],
                                self.place.env(preload=False, TITANTRACE_DUMP_ON="signal,timeout,abort,crash",
                                               **{"WORLD_SIZE": 2, "TITANTRACE_RUN_ID": RUN,
                                                  "PYTHONPATH": harness.ROOT / "python", **settings}))

    def ask(self, command, *options, status=harness.HEALTHY):
        done = self.place.tool("titan-analyze", *command.split(), self.place.dumps, *(options or ["--no-rings"]))
        self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done.stdout

    def test_all_commands_answer(self):
        job = self.train(TITANTRACE_LABELS="session_tag=s,note=" + "x" * 100)
        self.assertEqual(job.status, 0, job.stderr)
        self.assertRegex(job.stderr, ENDED)
        self.assertRegex(job.stderr, r"\n30 steps of \d+ ms on average \(99th percentile \d+ ms\) on 2 ranks; "
                                     r"\d+\.\d% of the time was training\n"
                                     r"longest spans of a step: .*data_loading \d+ ms.* \(rank 1: \d+ ms\).*\n"
                                     r"newest metrics: loss 0\.\d+; not finite: loss in step 20 on rank 0\n"
                                     r"titan-run: the record of its steps is in ")
        self.assertEqual(job.stderr.count(": markers are kept in "), 1)
        self.assertEqual((self.place.dump_files(RUN), self.place.ring_files()), ([], []))

        slow = r"\d+ ms of each step: waits for data on rank 1"
        self.assertRegex(" ".join(self.ask("").split()),
                         rf"records: 2 from.*; session_tag s and 1 more label .*NOTHING WRONG {ENDED} {slow}")
        self.assertRegex(self.ask("", "--oneline", "--no-rings"), rf"{ENDED}; {slow}")
        self.assertEqual(json.loads(self.ask("", "--json", "--no-rings"))["status"], "nothing_wrong")
        self.assertIn(f"{RUN} attempt 0", self.ask("", "--list-runs", "--no-rings"))
        self.assertIn("waits for data on rank 1", self.ask("stragglers", status=harness.FINDINGS))
        self.assertIn("exited with status 0", self.ask("why 1"))
        self.assertIn("2 ranks on 1 host", self.ask("layout"))
        self.assertIn("no stacks: only its journal is left", self.ask("stacks"))
        self.assertRegex(self.ask("summary"), r"data_loading +span +60 ")
        self.assertRegex(self.ask("metrics", "--last", "1", "--no-rings"), r"29 +loss .* 2 of 2")
        markers = self.ask("show", "--markers", "--json", "--no-rings")
        self.assertEqual(markers.count("\n") - markers.count('"marker":"label"'), 2 * 30 * 8)
        self.assertEqual(self.ask("show", "--labels", "--no-rings").count("session_tag"), 2)
        self.assertIn("goodput", self.ask("summary", "--session", "s", "--no-rings"))
        page = json.loads(self.ask("report", "--json", "--no-rings"))
        self.assertRegex(json.dumps(page), ENDED)
        self.assertNotIn("the program marks no steps", json.dumps(page))
        self.look_at_its_last_state(slow)
        for form in ("--jsonl", "--sqlite", "--otlp", "--torchtitan", "--openmetrics"):
            made = self.place.run([sys.executable, "-m", "titantrace.export", "--titan-analyze",
                                   harness.BUILD / "analyzer" / "titan-analyze", form, self.place.path / f"to{form}",
                                   self.place.dumps],
                                  self.place.env(preload=False, PYTHONPATH=harness.ROOT / "python"))
            self.assertEqual(made.status, 0, form + made.stderr)
        logs = sorted((self.place.path / "to--torchtitan").iterdir())
        self.assertEqual([json.loads(log.read_text().splitlines()[0])["local_rank"] for log in logs], [0, 1])

    def look_at_its_last_state(self, slow):
        """titan-top of a run that has ended: how, when, and each rank's last steps."""
        top = self.place.tool("titan-top", self.place.dumps, "--ring-dir", self.place.rings, status=0)
        self.assertRegex(top.stdout, rf"^{ENDED}; {slow}\n"
                                     rf"run {RUN} attempt 0 ended on \S+ at [-0-9]+ [:0-9]+ \S+: 2 processes, 2 ranks")
        self.assertRegex(top.stdout, r"\n +1 .* exited +29 .* data_loading \d+ ms, .* +loss 0\.0333333\n")
        page = json.loads(self.place.tool("titan-top", "--json", self.place.dumps, "--ring-dir",
                                          self.place.rings).stdout)
        job, = page["jobs"]
        self.assertEqual((job["ended"], page["realtime_ns"]), (True, job["recorded_ns"]))
        self.assertEqual([row["step"] for row in job["ranks"]], [29, 29])
        self.assertGreater(job["ranks"][1]["span_ns"]["data_loading"], 2 * job["ranks"][0]["span_ns"]["data_loading"])
        self.assertEqual(self.place.tool("titan-top", self.place.tmp, "--ring-dir", self.place.rings).status,
                         harness.UNUSABLE)

    def test_versions_are_known(self):
        """Of a run that only left a journal: PyTorch's of a stand-in that the program imports."""
        library = self.place.path / "library"
        (library / "torch").mkdir(parents=True)
        (library / "torch" / "__init__.py").write_text("from . import version\n")
        (library / "torch" / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda = '13.0'\n")
        (library / "sitecustomize.py").write_text("import torch\n")
        job = self.train(steps=3, PYTHONPATH=f"{library}:{harness.ROOT / 'python'}")
        self.assertEqual(job.status, 0, job.stderr)
        self.assertEqual(self.place.settings()["PyTorch"], [("2.13.0+cu130, CUDA 13.0", [0, 1])])

    def test_the_baseline_is_found(self):
        """The newest other run that says so, of the same performance tag."""
        runs = {"old": "perf_tag=small,baseline=true", "other": "perf_tag=large,baseline=true",
                "plain": "perf_tag=small", "newest": "perf_tag=small,baseline=true"}
        for steps, (run, labels) in enumerate(runs.items(), 25):
            job = self.train(steps, TITANTRACE_RUN_ID=f"{run}-{os.getpid()}", TITANTRACE_LABELS=labels)
            self.assertEqual(job.status, 0, job.stderr)
        done = self.place.tool("titan-analyze", "compare", self.place.dumps, "--no-rings", "--json")
        sides = json.loads(done.stdout)
        self.assertEqual([sides[side]["run"].partition("-")[0] for side in "ab"], ["old", "newest"])
        done = self.place.tool("titan-analyze", "compare", self.place.dumps, "--no-rings", "--run",
                               f"other-{os.getpid()}")
        self.assertEqual(done.status, harness.UNUSABLE)
        self.assertIn("no other run there has the label baseline=true and perf_tag large", done.stderr)

    def test_who_is_late_in_calls_of_nccl(self):
        """Of which the journal keeps sums of steps."""
        self.place.sim("--ranks", "2", "--steps", "40", "--step-ms", "5", "--checkpoint-every", "0",
                       TITANTRACE_JOURNAL_MIB=64, SIMGPU_FAULTS="sleep rank=1 ms=40")
        self.assertRegex(self.ask("", "--oneline", "--no-rings"),
                         r"ended well after 40 steps, 2 of 2 ranks; \d+ ms a step; \d+ ms of each step: .* rank 1")
        self.assertIn("most of all in reduce_scatter on dp", " ".join(self.ask("stragglers", status=1).split()))
        self.assertIn("version of NCCL", self.place.settings())
        self.assertIn("have no calls one by one", self.place.tool("titan-analyze", "show", self.place.dumps,
                                                                 "--no-rings", status=1).stderr)

    def test_two_starts_under_one_run_id(self):
        for steps in (20, 30):
            self.assertEqual(self.train(steps=steps).status, 0)
        self.assertRegex(self.ask("", "--list-runs", "--no-rings"),
                         f"{RUN} attempt 0 start 2 of 2 [^$]*{RUN} attempt 0 start 1 of 2 ")
        for options, start, steps in (((), 2, 30), (("--start", "1"), 1, 20), (("--start", "2"), 2, 30)):
            run = json.loads(self.ask("", "--json", "--no-rings", *options))
            self.assertEqual((run["run"]["start"], run["run"]["starts"]), (start, 2))
            self.assertIn(f"ended well after {steps} steps", run["one_line"])
            self.assertIn(f"attempt 0 start {start} of 2", self.ask("", "--no-rings", *options))
        self.assertRegex(self.ask("metrics", "--last", "1", "--no-rings", "--start", "1"), r"19 +loss ")
        rows = [json.loads(row) for row in self.ask("summary", "--goodput", "--json", "--no-rings").splitlines()]
        self.assertEqual([row["start"] for row in rows if row["kind"] == "attempt"], [1, 2])
        self.ask("", "--no-rings", "--start", "3", status=harness.UNUSABLE)

    def test_a_metric_that_is_no_number_is_told_while_the_job_runs(self):
        job = self.train(steps=80)
        self.assertEqual(len(re.findall("titantrace: rank 0: metric loss is nan in step 20\n", job.stderr)), 1)

    def test_a_metric_that_is_no_number_is_told_to_others_while_the_job_runs(self):
        """`watch` says it in a line; --on-verdict runs once, of titan-run and of the watch."""
        told = self.place.path / "told"
        watch = self.place.start([harness.BUILD / "analyzer" / "titan-analyze", "watch", self.place.dumps, "--no-rings",
                                  "--on-verdict", f"cat >> {told}.watch"], self.place.env(preload=False))
        job = self.start(2000, titan_run=("--on-verdict", f"cat > {told}"), TITANTRACE_JOURNAL_S=0.2)
        harness.wait_for(lambda: told.exists() and told.read_text().endswith("}\n"), 60, "the command")
        verdict = json.loads(told.read_text())
        self.assertEqual((verdict["verdict"]["kind"], verdict["verdict"]["ranks"]), ("metric_not_finite", [0]))
        self.assertIn("metric loss is nan on rank 0 in step 20", verdict["one_line"])
        watch.wait_says("metric loss is nan on rank 0 in step 20", 60)
        self.assertEqual(list((self.place.dumps / RUN / "0").glob("verdict.json")), [])
        self.assertIsNone(job.status)
        job.end()

    def test_a_rank_without_any_record_is_missed(self):
        job = self.train(WORLD_SIZE=3)
        self.assertRegex(job.stderr, "ranks 0-1 ended well after 30 steps, 2 of 3 ranks; no record of rank 2; ")
        self.assertRegex(self.ask("metrics", "--last", "1", "--no-rings"), "2 of 2; 2 not on record")
        self.assertIn("no record of rank 2: the numbers are those of the others", self.ask("summary"))

    def test_a_program_that_marks_nothing_keeps_nothing(self):
        job = self.train(steps=0)
        self.assertEqual(job.status, 0, job.stderr)
        self.assertEqual(list(self.place.dumps.iterdir()), [])
        job = self.train(steps=3, TITANTRACE_JOURNAL_MIB=0)
        self.assertEqual(job.status, 0, job.stderr)
        self.assertEqual(list(self.place.dumps.iterdir()), [])

    def test_a_start_after_one_that_failed(self):
        """With the same name, in the same directory: the newer one counts."""
        self.train(steps=28, killed_at=25)
        failed = json.loads(self.ask("", "--json", "--ring-dir", self.place.rings, status=harness.FINDINGS))
        self.assertEqual((failed["verdict"]["kind"], failed["verdict"]["ranks"]), ("rank_dead", [1]))
        job = self.train()
        self.assertRegex(job.stderr, ENDED)
        self.assertNotIn("rank_dead", job.stderr)
        self.assertRegex(self.ask("", "--oneline", "--no-rings"), ENDED)


if __name__ == "__main__":
    harness.main()
