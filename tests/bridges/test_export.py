"""Metrics of three ranks, joined by titan-analyze, in TensorBoard and Weights & Biases (python/titantrace/export.py).

    test_export.py --library LIB [--real]      --real: with both packages, whose own readers, or formats, tell what was
                                               written; else with the stand-ins beside this file
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import bridge_case
from bridge_case import REAL, ROOT, STAND_INS, package_case, real_python

# One of three ranks. It waits for the others: what they mark is in all dumps.
JOB = r"""
import os, pathlib, sys, time
import titantrace
rank, meet = int(os.environ["RANK"]), pathlib.Path(sys.argv[1])
titantrace.label("dp", rank)
titantrace.label("model", "llama 7b")
if sys.argv[2] == "metrics":
    titantrace.metric("before", 1.0)
for step in (5, 6, 7) if sys.argv[2] == "metrics" else ():
    titantrace.step(step)
    titantrace.metric("lm loss", 2.0 + rank, reduce="mean", weight=rank + 1)
    titantrace.metric("nan", float("nan") if step == 6 and rank == 1 else 0.5, reduce="mean")
    titantrace.metric("inf", float("inf") if step == 6 else 0.5, reduce="sum")
    titantrace.metric("highest", float("nan") if step == 6 and rank == 1 else rank, reduce="max")
    titantrace.metric("apart", rank, reduce="none")
    if rank != 2 or step == 5:
        titantrace.metric("some", step, reduce="sum")
(meet / f"marked.{rank}").touch()
while len(list(meet.glob("marked.*"))) < 3:
    time.sleep(0.01)
assert titantrace.dump()
(meet / f"dumped.{rank}").touch()
while len(list(meet.glob("dumped.*"))) < 3:
    time.sleep(0.01)
"""

# One of two ranks, until it is told to stop.
STEADY = r"""
import pathlib, sys, time
import titantrace
titantrace.label("model", "llama 7b")
stop, step = pathlib.Path(sys.argv[1], "stop"), 0
while not stop.exists():
    titantrace.step(step)
    titantrace.metric("loss", step, reduce="mean")
    step += 1
    time.sleep(0.05)
"""

MEAN = 10 / 3  # of 2, 3 and 4, weighted 1, 2 and 3: 20 / 6
SCALARS = {"lm loss": [(5, MEAN), (6, MEAN), (7, MEAN)], "nan": [(5, 0.5), (6, "nan"), (7, 0.5)],
           "inf": [(5, 1.5), (6, "inf"), (7, 1.5)], "highest": [(5, 2), (6, "nan"), (7, 2)],
           "apart (lowest)": [(5, 0), (6, 0), (7, 0)], "apart (highest)": [(5, 2), (6, 2), (7, 2)],
           "some": [(5, 15), (6, 12), (7, 14)], "ranks reported/some": [(5, 3), (6, 2), (7, 2)]}

READ_TENSORBOARD = r"""
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1])
read.Reload()
if hasattr(read, "hparams"):  # the stand-in's
    labels, = read.hparams()
else:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
    told = HParamsPluginData.FromString(read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
    labels = {name: value.string_value for name, value in told.session_start_info.hparams.items()}
print(json.dumps([{tag: [(told.step, told.value) for told in read.Scalars(tag)] for tag in read.Tags()["scalars"]},
                  labels]))
"""

# The real file is a log of LevelDB's kind behind 7 bytes: blocks of 32 KiB of records, each of which is whole (1), or
# the first (2), a middle (3) or the last (4) part of one.
READ_WANDB = r"""
import json, pathlib, struct
def records(data):
    at, parts = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts, at = parts + data[at + 7:at + 7 + length], at + 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""

if pathlib.Path("wandb/run.json").exists():  # the stand-in's
    told = json.loads(pathlib.Path("wandb/run.json").read_text())
else:
    from wandb.proto.wandb_internal_pb2 import Record
    file, = pathlib.Path("wandb").glob("offline-run-*/*.wandb")
    told = {"history": [], "summary": {}, "config": {}}
    def values_of(items):
        return {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items}
    for data in records(file.read_bytes()):
        record = Record.FromString(data)
        if record.HasField("history"):
            told["history"].append([record.history.step.num, values_of(record.history.item)])
        elif record.HasField("run"):
            told["project"] = record.run.project
            told["config"].update(values_of(record.run.config.update))
        elif record.HasField("summary"):
            told["summary"].update(values_of(record.summary.update))
        assert not record.HasField("stats")
print(json.dumps(told))
"""


class Export(bridge_case.Case):
    jobs = {}

    def setUp(self):
        super().setUp()
        self.python = [real_python()] if REAL else list(self.each_python())[-1].command
        build = pathlib.Path(package_case.options.library).resolve().parents[1]
        self.analyzer = build / "analyzer" / "titan-analyze"
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("TITANTRACE", "PYTHON", "WANDB"))}
        path = [str(ROOT / "python")] + ([] if REAL else [str(STAND_INS / "export")])
        self.environment.update({"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1",
                                 "WANDB_ERROR_REPORTING": "false"})

    def dumps_of_job(self, what="metrics"):
        """Of one job for all tests."""
        if what not in self.jobs:
            holder = tempfile.TemporaryDirectory()
            self.addClassCleanup(holder.cleanup)
            self.jobs[what] = self.run_job(pathlib.Path(holder.name), what)
        return self.jobs[what]

    def run_job(self, place, what):
        tracer = {"LD_PRELOAD": package_case.options.library, "TITANTRACE_DIR": str(place / "dumps"),
                  "TITANTRACE_RING_DIR": str(place), "WORLD_SIZE": "3"}
        ranks = [subprocess.Popen([*self.python, "-c", JOB, place, what], cwd=place, stderr=subprocess.PIPE, text=True,
                                  env={**self.environment, **tracer, "RANK": str(rank)}) for rank in range(3)]
        for rank in ranks:
            _, errors = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 0, errors)
        return place / "dumps"

    def export(self, *arguments, **variables):
        return subprocess.run([*self.python, "-m", "titantrace.export", "--titan-analyze", self.analyzer, *arguments],
                              env={**self.environment, **variables}, cwd=self.place, capture_output=True, text=True,
                              timeout=120, check=False)

    def read(self, program, *arguments):
        done = subprocess.run([*self.python, "-c", program, *arguments], env=self.environment, cwd=self.place,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, found, wanted):
        self.assertEqual(set(found), set(wanted))
        for name, points in wanted.items():
            self.assertEqual([step for step, _ in found[name]], [step for step, _ in points])
            for (_, value), (_, wanted_value) in zip(found[name], points):
                if isinstance(wanted_value, str):
                    self.assertEqual(str(float(value)), wanted_value, name)
                else:
                    self.assertAlmostEqual(value, wanted_value, places=5, msg=name)

    def test_tensorboard(self):
        dumps = self.dumps_of_job()
        done = self.export("--tensorboard", "board", dumps)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "9 scalars of 4 steps and 1 labels are written: board\n")
        scalars, labels = self.read(READ_TENSORBOARD, "board")
        self.check(scalars, {"before": [(-1, 1)], **SCALARS})
        self.assertEqual(labels, {"model": "llama 7b"})
        again = self.export("--tensorboard", "board", dumps)
        self.assertEqual((again.returncode, again.stdout), (2, ""))
        self.assertIn("board already holds a run", again.stderr)

    def test_wandb_offline(self):
        done = self.export("--wandb", "proj", "--offline", self.dumps_of_job())
        self.assertEqual(done.returncode, 0, done.stderr)
        told = self.read(READ_WANDB)
        self.assertEqual((told["project"], told["config"]["model"]), ("proj", "llama 7b"))
        self.assertNotIn("dp", told["config"])
        self.assertEqual(told["summary"]["before"], 1)
        found = {name: [(step, values[name]) for step, values in told["history"] if name in values]
                 for name in {name for _, values in told["history"] for name in values if not name.startswith("_")}}
        self.check(found, SCALARS)

    def test_wandb_without_a_login_says_what_to_do(self):
        done = self.export("--wandb", "proj", self.dumps_of_job(), HOME=str(self.place), NETRC="/dev/null")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("try --offline", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def wait_for(self, condition, what):
        ends = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), ends, f"{what} does not come")
            time.sleep(0.1)

    def test_while_the_job_runs(self):
        """All three are asked for before the job has begun. Each step is told once, when no rank is in it any more."""
        place = self.place / "steady"
        place.mkdir()
        # Between two questions of each, nothing is to be read once.
        analyzer = self.place / "titan-analyze"
        analyzer.write_text(f"#!/bin/sh\ncase $1 in summary|metrics) mkdir \"$0.$PPID\" 2>/dev/null && exit 2;; esac\n"
                            f"exec '{self.analyzer}' \"$@\"\n")
        analyzer.chmod(0o755)
        followers = [self.start("-m", "titantrace.export", "--titan-analyze", analyzer, *to, "--follow", "0.3",
                                place / "dumps")
                     for to in (("--tensorboard", "board"), ("--openmetrics", "job.prom"),
                                ("--wandb", "proj", "--offline"))]
        tracer = {"LD_PRELOAD": package_case.options.library, "TITANTRACE_DIR": str(place / "dumps"),
                  "TITANTRACE_JOURNAL_S": "1", "WORLD_SIZE": "2"}
        ranks = [self.start("-c", STEADY, place, RANK=str(rank), **tracer) for rank in range(2)]
        self.wait_for(lambda: self.steps_on_board() > 3, "the board")
        before = self.steps_on_board()
        self.wait_for(lambda: self.steps_on_board() > before, "more on the board")
        self.wait_for((self.place / "job.prom").exists, "the file of metrics")
        self.assertEqual([rank.poll() for rank in ranks], [None, None])
        (place / "stop").touch()
        for process in (*ranks, *followers):
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, errors)
        scalars, _ = self.read(READ_TENSORBOARD, "board")
        steps = list(range(len(scalars["loss"])))
        self.assertGreater(len(steps), before)
        self.check(scalars, {"loss": [(step, step) for step in steps]})
        told = self.read(READ_WANDB)["history"]
        self.assertEqual([(step, values["loss"]) for step, values in told], [(step, step) for step in steps])
        self.assertIn("titantrace_step_seconds_count ", (self.place / "job.prom").read_text())

    def start(self, *words, **variables):
        variables["TITANTRACE_RING_DIR"] = str(self.place / "steady")
        return subprocess.Popen([*self.python, *words], cwd=self.place, env={**self.environment, **variables},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def steps_on_board(self):
        if not list(self.place.glob("board/*tfevents*")):
            return 0
        try:
            return len(self.read(READ_TENSORBOARD, "board")[0].get("loss", []))
        except AssertionError:  # the labels are still to be written
            return 0

    def test_where_nothing_is_written(self):
        dumps = self.dumps_of_job()
        without = self.dumps_of_job("no metrics")
        board = ("--tensorboard", "board")
        for arguments, status, words in (
                ((*board, without), 1, "no metrics are on record"),
                ((*board, "no such"), 2, "no such file or directory"),
                (("--tensorboard", "/proc/no/such", dumps), 2, "/proc/no/such: "),
                (board, 2, "DUMPS"), ((dumps,), 2, "--tensorboard"),
                (("--jsonl", "lines", "--follow", "1", dumps), 2, "--follow goes with --tensorboard"),
                ((*board, dumps, "--follow", "0"), 2, "wants seconds, more than 0"),
                ((*board, "--offline", dumps), 2, "--offline goes with --wandb"),
                ((*board, "--titan-analyze", "/no/such/program", dumps), 2, "titan-analyze does not start"),
                ((*board, "--run", "no such run", dumps), 2, "no such run")):
            done = self.export(*arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertFalse((self.place / "board").exists())

    def test_what_is_missing_is_named(self):
        dumps = self.dumps_of_job()
        for to, analyzer, words in ((("--tensorboard", "board"), self.analyzer, "pip install tensorboard"),
                                    (("--wandb", "proj"), self.analyzer, "pip install wandb"),
                                    (("--wandb", "proj"), None, "titan-analyze is neither beside this Python")):
            which = [] if analyzer is None else ["--titan-analyze", analyzer]
            done = subprocess.run([sys.executable, "-S", "-m", "titantrace.export", *which, *to, dumps],
                                  env={**self.environment, "PYTHONPATH": str(ROOT / "python"), "PATH": "/nowhere"},
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    bridge_case.main()
