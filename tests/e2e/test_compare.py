#!/usr/bin/env python3
"""titan-analyze compare: windows of one run, two runs, and what cannot be compared; against figures computed here."""

import collections
import json
import math
import re
import statistics
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
import fr_files  # noqa: E402

INCONCLUSIVE = 3
SLOW_FROM, STEPS = 40, 80

PROGRAM = """
import os, pathlib, sys, time, titantrace
rank, size, tag, wait_s, spans = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), *sys.argv[1:4]
titantrace.label("perf_tag", tag)
titantrace.label("session_tag", "session-7")
for step in range(24):
    titantrace.step(step)
    for span in spans.split(","):
        with titantrace.span(span):
            time.sleep(float(wait_s))
    titantrace.metric("loss", 5.0 - 0.1 * step + (0.5 if tag == "large" else 0))
    if tag == "large" and step == 3:
        titantrace.metric("grad_norm", float("nan"))
    titantrace.metric("same", 1.0 + 0.1 * (step % 3))
titantrace.step(24)
titantrace.dump()
"""


class Compare(harness.Case):
    def compare(self, *arguments, status):
        """`status`: None where chance decides."""
        done = self.place.tool("titan-analyze", "compare", "--no-rings", *arguments)
        if status is not None:
            self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def compared(self, *arguments, status):
        return json.loads(self.compare("--json", *arguments, status=status).stdout)

    def medians_of_slices(self, first, last):
        """The means over ranks of the medians of each tenth of these 40 steps."""
        begun = collections.defaultdict(dict)
        for marker in self.place.show(self.place.dumps, "--markers"):
            if marker["marker"] == "step":
                begun[marker["rank"]][int(marker["value"])] = marker["realtime_ns"]
        of_ranks = []
        for steps in begun.values():
            took = [steps[step + 1] - steps[step] for step in range(first, last + 1)]
            # Of an even number the lower middle, as everywhere in the analyzer.
            of_ranks.append([statistics.median_low(took[4 * i:4 * i + 4]) for i in range(10)])
        return [statistics.mean(of_slice) for of_slice in zip(*of_ranks)]

    def test_windows_of_one_run(self):
        """Steps of a simulated run become slower by a sleep of one rank, as far as the noise of this machine lets that
        be seen; the same steps do not differ from themselves. By the hosts' marks alone: where the end of a call is
        seen late, steps count up to that."""
        faults = f"sleep step=0-{SLOW_FROM - 1} ms=5; sleep rank=1 step={SLOW_FROM}-{STEPS - 1} ms=25"
        self.place.sim("--ranks", "2", "--steps", str(STEPS + 1), "--step-ms", "1", "--checkpoint-every", "0",
                       TITANTRACE_DUMP_ON="exit", TITANTRACE_GPU_PROGRESS="off", SIMGPU_FAULTS=faults)
        windows = ["--step", f"0-{SLOW_FROM - 1}", "--with-step", f"{SLOW_FROM}-{STEPS - 1}"]
        slower = self.compared(self.place.dumps, *windows, status=None)
        typical = slower["steps"][0]
        before, after = self.medians_of_slices(0, SLOW_FROM - 1), self.medians_of_slices(SLOW_FROM, STEPS - 1)
        self.assertEqual((typical["compared"], typical["name"]), ("typical_step", "step"))
        self.assertAlmostEqual(typical["a_ns"] / statistics.mean(before), 1, delta=1e-4)
        self.assertAlmostEqual(typical["b_ns"] / statistics.mean(after), 1, delta=1e-4)
        change = math.exp(statistics.mean(map(math.log, after)) - statistics.mean(map(math.log, before))) - 1
        self.assertAlmostEqual(typical["change"], change, delta=1e-3 * (1 + abs(change)))
        self.assertLess(typical["low"], typical["change"])
        self.assertGreater(typical["high"], typical["change"])
        self.assertEqual((slower["a"]["steps"], slower["b"]["steps"], slower["ranks"]), (40, 40, [0, 1]))
        calls = [row["name"] for row in slower["rows"] if row["compared"] == "part" and row["kind"] in ("GPU", "host")]
        self.assertTrue(calls, slower["rows"])  # which of them a GPU was seen to run is chance
        for name in calls:
            self.assertRegex(name, "^[a-z_]+ on .*, up to [0-9]+ [A-Za-z]+$")
        same = self.compare(self.place.dumps, self.place.dumps, status=harness.HEALTHY).stdout
        self.assertIn("NO DIFFERENCE  in step time beyond noise", same)
        self.assertRegex(same, r"\nParts and metrics  0 of [0-9]+ differ")
        few = self.compare(self.place.dumps, "--step", "0-10", "--with-step", "60-70", "--fail-if-slower", "0.03",
                           status=INCONCLUSIVE).stdout
        self.assertIn("CANNOT TELL", few)
        self.assertIn("fewer than 20 steps on record", few)

    def synthetic(self, name, *fault):
        self.place.run([harness.BUILD / "tests" / "synth" / "titan-synth", self.place.path / name, "--timed", "--ranks",
                        "8", "--hosts", "2", "--steps", "100", "--run", name, "--fault", *fault])
        return self.place.path / name

    def test_slower_and_not(self):
        """Jobs with the noise of healthy ones, the same each time; the page shows one of these comparisons."""
        usual, other = self.synthetic("main", "none"), self.synthetic("other", "none", "--seed", "2")
        slow = self.synthetic("branch", "span", "--share", "0.1", "--rank", "3", "--at", "0", "--seed", "3")
        text = self.compare(usual, slow, status=harness.FINDINGS).stdout
        page = (harness.ROOT / "docs" / "use" / "compare.md").read_text(encoding="utf-8")
        shown = re.search(r"<!-- compare -->\n```\n(.*?)```\n<!-- end of compare -->", page, re.S)[1]
        self.assertEqual(text, shown)
        found = self.compared(usual, slow, "--fail-if-slower", "3%", status=harness.FINDINGS)
        self.assertEqual((found["gate"], found["newly_late"]), ("slower", [3]))
        rows = {row["name"]: row for row in found["rows"]}
        self.assertTrue(rows["data"]["differs"])
        self.assertFalse(rows["forward"]["differs"])
        self.assertIn("host node-0", [row["where"] for row in found["groups"] if row["name"] == "data"])
        self.assertNotIn("host node-1", [row["where"] for row in found["groups"] if row["name"] == "data"])
        self.assertIn("FAILED  steps are slower by 3% or more",
                      self.compare(usual, slow, "--fail-if-slower", "3%", status=harness.FINDINGS).stdout)
        self.compare(usual, slow, "--fail-if-slower", "20%", status=harness.HEALTHY)
        self.compare(slow, usual, "--fail-if-slower", "3%", status=harness.HEALTHY)
        same = self.compared(usual, other, "--fail-if-slower", "10%", status=harness.HEALTHY)
        self.assertEqual([row["differs"] for row in same["steps"]], [False, False])
        self.assertEqual(same["gate"], "passed")
        # Its noise hides a change of 1 %.
        self.assertIn("CANNOT TELL", self.compare(usual, other, "--fail-if-slower", "1%", status=INCONCLUSIVE).stdout)

    def test_flight_recorder_files(self):
        """The period of the calls stands in for steps; how long calls took only where PyTorch timed them."""
        def job(name, slower, timed):
            files = fr_files.Job(4)
            files.group("1", "tp", [0, 1])
            files.group("2", "tp", [2, 3])
            for step in range(40):
                took = {"duration_ms": slower * (3 + 0.01 * (step % 3))} if timed else {}
                for rank in files.ranks:
                    files.call(rank, str(1 + rank // 2), "all_gather", [[4]], [[8]], **took)
                    files.call(rank, "0", "all_reduce", [[1024]], **took)
                files.now_ns += slower * 20_000_000
            (self.place.path / name).mkdir()
            files.write(self.place.path / name)
            return self.place.path / name

        usual, slow, untimed = job("usual", 1, True), job("slow", 2, True), job("untimed", 1, False)
        found = self.compared(usual, slow, status=harness.FINDINGS)
        typical = found["steps"][0]
        self.assertEqual((typical["name"], typical["a_ns"], typical["b_ns"]), ("period of 2 calls", 28e6, 48e6))
        self.assertEqual({row["name"]: round(row["change"], 6) for row in found["rows"]},
                         {"all_gather on tp, up to 16 bytes": 1, "all_reduce on default_pg, up to 4 KiB": 1})
        self.assertIn("A and B: Flight Recorder files hold only calls: their period counts as a step",
                      found["notes"])
        self.assertEqual(self.compared(usual, untimed, status=harness.HEALTHY)["rows"], [])
        self.assertIn("how long 320 calls took is not known (TORCH_NCCL_ENABLE_TIMING=1 shows it)",
                      self.compare(usual, untimed, status=harness.HEALTHY).stdout.replace("\n    ", " "))
        done = self.place.tool("titan-analyze", "summary", usual, "--json")
        rows = {(row["kind"], row["name"]): row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(set(rows), {("step", "period of 2 calls"), ("GPU", "all_gather on tp"),
                                     ("GPU", "all_reduce on default_pg"), ("job", "throughput")})
        row = rows["GPU", "all_reduce on default_pg"]
        self.assertEqual((row["count"], row["calls"], row["bytes"]), (160, 160, 160 * 4096))
        self.assertAlmostEqual(row["mean_ns"] / 3.01e6, 1, delta=0.001)

    def run_job(self, name, ranks, *arguments):
        dumps = self.place.path / name
        jobs = [self.place.start([sys.executable, "-c", PROGRAM, *arguments],
                                 self.place.env(RANK=rank, WORLD_SIZE=ranks, TITANTRACE_DIR=dumps,
                                                PYTHONPATH=harness.ROOT / "python")) for rank in range(ranks)]
        for job in jobs:
            self.assertEqual(job.wait(), 0, job.stderr)
        return dumps

    def test_two_runs(self):
        small = self.run_job("small", 2, "small", "0.001", "forward")
        large = self.run_job("large", 2, "large", "0.02", "forward,eval")
        apart = self.compared(small, large, "--fail-if-slower", "3%", status=INCONCLUSIVE)
        self.assertEqual((apart["a"]["perf_tag"], apart["b"]["perf_tag"], apart["b"]["session_tag"]),
                         ("small", "large", "session-7"))
        self.assertIn("another perf_tag is another kind of run",
                      self.compare(small, large, "--fail-if-slower", "3%", status=INCONCLUSIVE).stdout)
        self.assertEqual(apart["only_b"], ["eval", "grad_norm"])
        self.assertTrue(any(note.startswith('perf_tag is "small" in A and "large" in B') for note in apart["notes"]))
        self.assertIn("B: grad_norm is NaN or infinite in 1 step", apart["notes"])
        rows = {row["name"]: row for row in apart["rows"]}
        self.assertAlmostEqual(rows["loss"]["change"], 0.5)
        self.assertEqual((rows["loss"]["step_by_step"], rows["loss"]["differs"]), (True, True))
        self.assertFalse(rows["same"]["differs"])
        # On a busy machine 24 steps may not tell 1 ms from 20: effect_test.cpp and comparison_test.cpp judge that.
        self.assertAlmostEqual(rows["forward"]["per_step_a"], 1)
        self.assertLessEqual(rows["forward"]["low"], rows["forward"]["change"])
        self.assertGreater(rows["forward"]["high"], 1)

    def test_arguments(self):
        nothing = self.place.path / "nothing"
        nothing.mkdir()
        for arguments, says in (([nothing], "no dumps"), ([nothing] * 3, "compare takes two paths"),
                                ([nothing, nothing], "A: no dumps"),
                                ([nothing, nothing, "--fail-if-slower", "much"], "takes a share of a step such as 3%")):
            self.assertIn(says, self.compare(*arguments, status=harness.UNUSABLE).stderr)


if __name__ == "__main__":
    harness.main()
