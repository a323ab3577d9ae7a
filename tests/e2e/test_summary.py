#!/usr/bin/env python3
"""titan-analyze summary, against sums over what `show` lists."""

import collections
import json
import math
import statistics
import sys

import harness

PROGRAM = """
import os, pathlib, time, titantrace
rank = int(os.environ["RANK"])
titantrace.label("tokens_per_step", 4096)
titantrace.label("flops_per_token", "2e6")
pathlib.Path(f"recording-{rank}").touch()
while len(list(pathlib.Path().glob("recording-*"))) < 4:  # one job, however late a rank starts
    time.sleep(0.01)
with titantrace.span("build"):
    time.sleep(0.3)
for step in range(12):
    titantrace.step(step)
    with titantrace.span("forward"):
        time.sleep(0.05 if rank == 2 else 0.001)
    if rank != 0:
        with titantrace.span("loss"):
            pass
    titantrace.metric("loss", 5.0 - 0.1 * step - rank)
    if rank == 3:
        titantrace.metric("broken", float("inf"))
        titantrace.metric("grad_norm", float("nan") if step == 7 else 0.5)
titantrace.step(12)
titantrace.dump()
"""


class Summary(harness.Case):
    def summary(self, *options, status=harness.HEALTHY):
        done = self.place.tool("titan-analyze", "summary", self.place.dumps, "--no-rings", *options)
        self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def rows(self, *options):
        return {(row["kind"], row["name"]): row
                for row in map(json.loads, self.summary("--json", *options).stdout.splitlines())}

    def check(self, row, durations_ns):
        """`durations_ns` by rank."""
        every = [one for of_rank in durations_ns.values() for one in of_rank]
        self.assertEqual(row["count"], len(every))
        self.assertAlmostEqual(row["sum_ns"] / sum(every), 1, delta=0.001)  # of ticks; `show` rounds to ns
        self.assertAlmostEqual(row["std_ns"] / max(statistics.pstdev(every), 1), 1, delta=0.01)
        self.assertAlmostEqual(row["min_ns"], min(every), delta=5)
        self.assertAlmostEqual(row["max_ns"], max(every), delta=5)
        for key, share in (("p50_ns", 0.5), ("p95_ns", 0.95), ("p99_ns", 0.99)):
            exact = sorted(every)[math.ceil(len(every) * share) - 1]
            self.assertAlmostEqual(row[key], exact, delta=5 + 0.011 * exact, msg=key)
        self.assertEqual(row["ranks"], sorted(durations_ns))
        slowest = max(durations_ns, key=lambda rank: statistics.mean(durations_ns[rank]))
        self.assertEqual(row["slowest_rank"], slowest if len(durations_ns) > 1 else -1)

    def test_steps_and_spans(self):
        jobs = [self.place.start([sys.executable, "-c", PROGRAM],
                                 self.place.env(RANK=rank, WORLD_SIZE=4, PYTHONPATH=harness.ROOT / "python"))
                for rank in range(4)]
        for job in jobs:
            self.assertEqual(job.wait(), 0, job.stderr)
        markers = self.place.show(self.place.dumps, "--markers")
        begun, spans, steps, newest = {}, collections.defaultdict(lambda: collections.defaultdict(list)), {}, {}
        for marker in markers:
            rank, at_ns = marker["rank"], marker["realtime_ns"]
            if marker["marker"] == "span_begin":
                begun[rank, marker["span"]] = at_ns
            elif marker["marker"] == "span_end":
                spans[marker["name"]][rank].append(at_ns - begun[rank, marker["span"]])
            elif marker["marker"] == "step":
                if rank in newest:
                    steps.setdefault(rank, []).append(at_ns - newest[rank])
                newest[rank] = at_ns
        rows = self.rows()
        self.assertEqual(set(rows), {("step", "step"), ("span", "forward"), ("span", "loss"), ("span", "build"),
                                     ("metric", "loss"), ("metric", "grad_norm"), ("metric", "broken"),
                                     ("job", "throughput")})
        self.assertIsNone(rows["span", "build"]["share_of_steps"])  # it lies before them
        self.check(rows["step", "step"], steps)
        self.check(rows["span", "forward"], spans["forward"])
        self.check(rows["span", "loss"], spans["loss"])
        forward = rows["span", "forward"]
        self.assertEqual((forward["slowest_rank"], forward["phase"]), (2, "model_forward"))
        self.assertEqual((rows["span", "loss"]["ranks"], rows["span", "loss"]["ranks_on_record"]), ([1, 2, 3], 4))
        whole_ns = sum(map(sum, steps.values()))
        self.assertAlmostEqual(rows["span", "forward"]["share_of_steps"],
                               sum(map(sum, spans["forward"].values())) / whole_ns, places=4)
        self.assertEqual(self.rows("--skip-steps", "10")["step", "step"]["count"], 4 * 2)
        self.assertEqual(self.rows("--step", "3-5")["span", "forward"]["count"], 4 * 3)
        self.assertEqual(self.rows("--rank", "2")["step", "step"]["ranks"], [2])
        text = self.summary().stdout
        self.assertRegex(text, r"\nforward +span +48 .* 4 of 4 +rank 2: ")
        self.assertRegex(text, r"\nloss +span +36 .* 3 of 4 ")
        self.assertIn("4 rows more: --top 0 lists all", self.summary("--top", "1").stdout)
        self.summary("--rank", "77", status=harness.FINDINGS)
        self.check_metrics(rows, text)
        self.check_throughput(rows, steps)

    def check_metrics(self, rows, text):
        losses = {rank: [5.0 - 0.1 * step - rank for step in range(12)] for rank in range(4)}
        every = sorted(one for of_rank in losses.values() for one in of_rank)
        row = rows["metric", "loss"]
        self.assertEqual((row["count"], row["not_finite"], row["ranks"]), (48, 0, [0, 1, 2, 3]))
        self.assertAlmostEqual(row["mean"], statistics.mean(every))
        self.assertAlmostEqual(row["std"], statistics.pstdev(every))
        self.assertEqual((row["min"], row["max"]), (every[0], every[-1]))
        self.assertAlmostEqual(row["p50"] / every[23], 1, delta=0.011)
        self.assertEqual((row["lowest_rank"], row["highest_rank"]), (3, 0))
        self.assertAlmostEqual(row["lowest_rank_mean"], statistics.mean(losses[3]))
        norm = rows["metric", "grad_norm"]
        self.assertEqual((norm["count"], norm["not_finite"], norm["ranks"], norm["lowest_rank"]), (11, 1, [3], -1))
        broken = rows["metric", "broken"]
        self.assertEqual((broken["count"], broken["not_finite"], broken["mean"], broken["p50"], broken["ranks"]),
                         (0, 12, None, None, []))
        self.assertRegex(text, r"\nbroken +0 \+ 12 not finite +- ")
        self.assertRegex(text, r"\nloss +48 .* 4 of 4 +rank 3: 1.45 +rank 0: 4.45\n")
        self.assertRegex(text, r"\ngrad_norm +11 \+ 1 not finite .* 1 of 4 +- +-\n")
        self.assertEqual(self.rows("--step", "3-5")["metric", "loss"]["count"], 4 * 3)

    def check_throughput(self, rows, steps):
        step_s = statistics.mean(one for of_rank in steps.values() for one in of_rank) / 1e9
        job = rows["job", "throughput"]
        self.assertAlmostEqual(job["steps_per_s"] * step_s, 1, delta=0.001)
        self.assertAlmostEqual(job["tokens_per_s"] * step_s, 4096, delta=4)
        self.assertEqual((job["ranks"], job["mfu"]), (4, None))  # no GPU here
        job = self.rows("--peak-tflops", "0.5", "--tokens-per-step", "8192")["job", "throughput"]
        self.assertAlmostEqual(job["mfu"], 8192 * 2e6 / step_s / (4 * 0.5e12), delta=1e-4 * job["mfu"] + 1e-6)
        self.assertRegex(self.summary("--peak-tflops", "0.5").stdout,
                         r"\n\n[0-9.]+ steps/s; [0-9,]+ tokens/s, [0-9,]+ on each of 4 ranks; "
                         r"MFU [0-9.]+% of 0.5 TFLOPS a GPU\n")

    def test_unmarked_steps(self):
        """A program that marks nothing: its calls repeat, and a step begins with those of its largest communicator. It
        lasts from end to end on the GPU, where these are seen: a host may run ahead."""
        for method in "off", "writes":
            with self.subTest(method=method):
                self.place = self.new_place()
                self.check_unmarked(method)

    def check_unmarked(self, method):
        self.place.sim("--ranks", "4", "--tp", "2", "--steps", "9", "--unmarked", "--checkpoint-every", "0",
                       TITANTRACE_DUMP_ON="exit", TITANTRACE_GPU_PROGRESS=method)
        calls = collections.defaultdict(list)
        for call in self.place.show(self.place.dumps):
            if call["op"] in ("all_reduce", "all_gather", "reduce_scatter"):
                calls[call["rank"]].append(call)
        self.assertEqual({len(of_rank) for of_rank in calls.values()}, {9 * 6})
        of_a_step = len(calls[0]) // 9
        rows = self.rows()
        row = rows["step", f"period of {of_a_step} calls"]
        durations = {}
        for rank, of_rank in calls.items():
            first, last = of_rank[0], of_rank[-1]
            tick_ns = ((last["entered_realtime_ns"] - first["entered_realtime_ns"]) /
                       (last["entered_ticks"] - first["entered_ticks"]))
            begun = [call["entered_ticks"] for call in of_rank if call["communicator_name"] == "world"]
            if method == "off":
                moments = begun
            else:
                ends = [[call["gpu_finished_ticks"] for call in of_rank if since <= call["entered_ticks"] < until]
                        for since, until in zip(begun, begun[1:] + [begun[-1] + 1])]
                moments = [max(of_step) for of_step in ends[:-1]]
            durations[rank] = [(later - earlier) * tick_ns for earlier, later in zip(moments, moments[1:])]
            if method != "off":
                durations[rank][-1] += self.clearly_behind(ends, durations[rank][-1] / tick_ns) * tick_ns
        self.check(row, durations)
        self.assertGreater(rows["job", "throughput"]["steps_per_s"], 0)
        left_out = 3 if method == "off" else 2  # the first has no end before it
        self.assertEqual(self.rows("--skip-steps", "3")["step", row["name"]]["count"], row["count"] - 4 * left_out)

    @staticmethod
    def clearly_behind(ends, last_ticks):
        """What the last step lasts behind its calls: by how much longer than usual it takes until the next one's first
        call has ended, as on a loaded machine."""
        behind = [min(later) - max(earlier) for earlier, later in zip(ends, ends[1:])]
        longer = behind[-1] - statistics.median(behind)
        return longer if longer > 0.05 * last_ticks else 0

    def test_calls(self):
        for method in "timing", "writes", "off":
            with self.subTest(method=method):
                self.place = self.new_place()
                self.place.sim("--ranks", "4", "--tp", "2", "--steps", "8", TITANTRACE_DUMP_ON="exit",
                               TITANTRACE_GPU_PROGRESS=method)
                calls = collections.defaultdict(list)
                for call in self.place.show(self.place.dumps):
                    if call["op"] in ("all_reduce", "all_gather", "reduce_scatter"):
                        kind = "GPU" if call["gpu_finished_ticks"] is not None else "host"
                        calls[kind, f"{call['op']} on {call['communicator_name']}"].append(call)
                rows = self.rows()
                self.assertEqual({kind for kind, _ in calls}, {"host" if method == "off" else "GPU"})
                for key, of in calls.items():
                    timed = [call for call in of if method == "off" or
                             0 < (call["gpu_started_ticks"] or 0) < call["gpu_finished_ticks"]]
                    self.assertEqual((rows[key]["calls"], rows[key]["count"]), (len(of), len(timed)))
                    self.assertEqual(rows[key]["bytes"], sum(call["count"] * 4 for call in of))
                    self.assertEqual(rows[key]["bus_gb_per_s"] is not None, method != "off")


if __name__ == "__main__":
    harness.main()
