#!/usr/bin/env python3
"""titan-analyze summary --goodput, against what the program itself says of its time."""

import json
import sys
import time

import harness

# Each part lasts as long as it is told; what it took is written down.
PROGRAM = """
import json, os, pathlib, sys, time, titantrace
rank = int(os.environ["RANK"])
plan = json.loads(sys.argv[1])
taken = {"start": 0, "compile": 0, "checkpoint": 0, "data": 0, "validation": 0, "training": 0, "lost": 0, "end": 0}
def spend(part, span, seconds):
    began = time.time()
    if span:
        with titantrace.span(span):
            with titantrace.span("data_loading"):  # lies in another phase: it belongs to that
                pass
            time.sleep(seconds)
    else:
        time.sleep(seconds)
    taken[part] += time.time() - began
titantrace.event("begun")
if "SESSION" in os.environ:
    titantrace.label("session_tag", os.environ["SESSION"])
spend("start", None, plan["start"])
spend("compile", "compile", 0.05)
for step in range(plan["first"], plan["last"] + 1):
    titantrace.step(step)
    before = taken["training"]
    spend("data", "data_loading", 0.01)
    spend("training", None, 0.03 * (1 + rank))
    if step % 4 == 3:
        spend("checkpoint", "checkpoint_save_sync", 0.04)
    if step % 5 == 0:
        spend("validation", "validation_loop", 0.02)
    if step >= plan["again_from"]:
        taken["lost"] += taken["training"] - before
ends = time.time()
time.sleep(plan["end"])
taken["end"] = time.time() - ends
titantrace.dump()
taken["dumped"] = time.time() - ends  # the record ends somewhere in its dump
pathlib.Path(plan["told"] + str(rank)).write_text(json.dumps(taken))
"""
NEVER = 10**9
PLANS = [{"start": 0.1, "first": 0, "last": 9, "again_from": 8, "end": 0.4, "told": "attempt0."},
         {"start": 0.2, "first": 8, "last": 16, "again_from": 12, "end": 0.02, "told": "attempt1."},
         {"start": 0.05, "first": 12, "last": 20, "again_from": NEVER, "end": 0.02, "told": "attempt2."}]


class Goodput(harness.Case):
    def run_attempt(self, number, plan, ranks=2, **settings):
        jobs = [self.place.start([sys.executable, "-c", PROGRAM, json.dumps({**plan, "told": str(self.place.path /
                                                                                                plan["told"])})],
                                 self.place.env(RANK=rank, WORLD_SIZE=ranks, PYTHONPATH=harness.ROOT / "python",
                                                TORCHELASTIC_RESTART_COUNT=number, **settings))
                for rank in range(ranks)]
        for job in jobs:
            self.assertEqual(job.wait(), 0, job.stderr)
        told = [json.loads((self.place.path / f"{plan['told']}{rank}").read_text()) for rank in range(ranks)]
        return {part: sum(one[part] for one in told) / ranks * 1e9 for part in told[0]}

    def goodput(self, *options, status=harness.HEALTHY):
        done = self.place.tool("titan-analyze", "summary", self.place.dumps, "--no-rings", "--goodput", *options)
        self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def test_three_attempts(self):
        told = []
        for number, plan in enumerate(PLANS):
            told.append(self.run_attempt(number, plan))
            time.sleep(0.3)
        *attempts, all_of_them = map(json.loads, self.goodput("--json").stdout.splitlines())
        self.assertEqual([(one["kind"], one["attempt"], one["ranks"]) for one in attempts],
                         [("attempt", number, 2) for number in range(3)])
        for one, plan, parts in zip(attempts, PLANS, told):
            self.assertEqual((one["first_step"], one["newest_step"]), (plan["first"], plan["last"]))
            self.assertEqual(one["lost_steps"], max(0, plan["last"] - plan["again_from"] + 1))
            # What Python does between the parts is nobody's; the newest step lasts as long as the mean of steps.
            mean_step_ns = sum(parts[part] for part in ("data", "training", "checkpoint", "validation")) / (
                plan["last"] - plan["first"] + 1)
            for key, part, near_ns in (("initialization_ns", "start", 0), ("compile_ns", "compile", 0),
                                       ("checkpoint_ns", "checkpoint", 0), ("data_ns", "data", 0),
                                       ("validation_ns", "validation", 0),
                                       ("training_ns", "training", mean_step_ns),
                                       ("lost_ns", "lost", mean_step_ns),
                                       ("end_ns", "end", mean_step_ns + parts["dumped"] - parts["end"])):
                with self.subTest(attempt=one["attempt"], part=part):
                    self.assertAlmostEqual(one[key], parts[part],
                                           delta=near_ns + 0.15 * parts[part] + 25e6 * harness.SLOW)
            self.assertAlmostEqual(one["took_ns"], sum(one[key] for key in one if key.endswith("_ns") and key not in (
                "took_ns", "lost_ns", "pause_ns", "began_realtime_ns", "ended_realtime_ns")), delta=10)
        self.assertEqual([one["pause_ns"] > 0.3e9 for one in attempts], [True, True, False])
        kept_ns = sum(one["training_ns"] - one["lost_ns"] for one in attempts)
        took_ns = sum(one["took_ns"] + one["pause_ns"] for one in attempts)
        self.assertAlmostEqual(all_of_them["kept_ns"] / kept_ns, 1)
        self.assertAlmostEqual(all_of_them["share"] / (kept_ns / took_ns), 1)
        text = self.goodput().stdout
        self.assertRegex(text, r"\n +0 +2 +20.* 0-9 .* \(2 steps\) ")
        self.assertRegex(text, r"\n\ngoodput [0-9.]+%: ")
        self.assertEqual(len(self.goodput("--json", "--attempt", "1").stdout.splitlines()), 2)
        self.assertEqual(json.loads(self.goodput("--json", "--rank", "1").stdout.splitlines()[0])["ranks"], 1)
        self.goodput("--rank", "77", status=harness.FINDINGS)

    def test_a_session_of_two_runs(self):
        """They are attempts of one job, and a run of another session is none of it."""
        for number, (run, session) in enumerate((("first", "s"), ("other", "t"), ("second", "s"))):
            self.run_attempt(0, PLANS[number if number == 0 else 1], ranks=1, SESSION=session, TITANTRACE_RUN_ID=run)
        first, second, all_of_them = map(json.loads, self.goodput("--session", "s", "--json").stdout.splitlines())
        self.assertEqual([first["run"], second["run"]], ["first", "second"])
        self.assertEqual((first["lost_steps"], second["lost_steps"], all_of_them["attempts"]), (2, 0, 2))
        self.assertGreater(first["pause_ns"], 0)
        self.assertRegex(self.goodput("--session", "s").stdout, r"run +attempt .*\nfirst +0 [\s\S]*\nsecond +0 ")
        self.assertIn("says this session_tag", self.goodput("--session", "u", status=harness.FINDINGS).stderr)

    def test_without_steps(self):
        program = "import titantrace\ntitantrace.event('begun')\ntitantrace.dump()\n"
        job = self.place.start([sys.executable, "-c", program],
                               self.place.env(RANK=0, WORLD_SIZE=1, PYTHONPATH=harness.ROOT / "python"))
        self.assertEqual(job.wait(), 0, job.stderr)
        self.assertIsNone(json.loads(self.goodput("--json").stdout.splitlines()[-1])["share"])
        self.assertIn("goodput unknown: the program marks no steps", self.goodput().stdout)

    def test_overwritten_markers(self):
        plan = {**PLANS[0], "last": 40, "end": 0}
        self.run_attempt(0, plan, ranks=1, TITANTRACE_MARKERS=64, TITANTRACE_JOURNAL_MIB=0)
        one = json.loads(self.goodput("--json").stdout.splitlines()[0])
        self.assertGreater(one["first_step"], 20)
        self.assertGreater(one["not_on_record_ns"], 0.5e9)
        self.assertEqual(one["initialization_ns"], 0)
        self.assertIn("not on record", self.goodput().stdout)


if __name__ == "__main__":
    harness.main()
