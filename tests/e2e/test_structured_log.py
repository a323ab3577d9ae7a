#!/usr/bin/env python3
"""Logs of torchtitan's structured logger (0.3.0) in timeline and summary: a checkpoint in a thread of its own, NaN,
several starts in one directory, roles, lines that are none, and a file that is cut."""

import json
import sys

import harness
import perfetto_trace

sys.path.insert(0, str(harness.ROOT / "python"))
from titantrace import export as exported  # noqa: E402

START_US = 1_790_000_000_000_000


class Log:
    """Lines as torchtitan's handler writes them."""

    def __init__(self, directory, source="trainer", rank=0, start_us=START_US, stamp="20261126-120000-ABC123"):
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{source}.global_rank_{rank}.{stamp}.jsonl"
        self.common = {"rank": rank, "global_rank": rank, "local_rank": rank, "source": source, "host_name": "node-1",
                       "pid": 1000 + rank}
        self.start_us, self.lines, self.step, self.tags = start_us, [], None, []

    def line(self, at_ms, kind, name, tid=None, task=None, **fields):
        at_us = self.start_us + int(at_ms * 1000)
        line = {"delta_ms": 0.1, "tid": tid or self.common["pid"], **self.common}
        if self.step is not None:
            line |= {"step": self.step, "relative_step": self.step}
        if self.tags:
            line["step_tags"] = self.tags
        line |= {"time": at_us // 10**6, "time_ms": at_us // 1000, "time_us": at_us, "log_type": kind,
                 "log_type_name": name, "event_name": None, **fields}
        if task is not None:
            line["task_name"] = task
        line |= {"caller": "torchtitan/trainer.py:40:train", "log_file": "trainer.py", "log_function": "train",
                 "log_level": "INFO", "logger_name": "torchtitan.structured_logger", "seq_id": len(self.lines)}
        self.lines.append(json.dumps({"message": "", **line}))

    def span(self, name, from_ms, to_ms, **where):
        self.line(from_ms, "event", f"{name}_start", **where)
        return lambda: self.line(to_ms, "event", f"{name}_end", value=float(to_ms - from_ms), **where)

    def metric(self, at_ms, name, value):
        self.line(at_ms, "instant", "metric_value", event_name=name, value=value)

    def write(self, end="\n"):
        self.path.write_text("\n".join(self.lines) + end)


def trainer(directory, rank=0, steps=4, **options):
    """Steps of 100 ms; in step 1 a checkpoint is saved by another thread, for 300 ms."""
    log = Log(directory, rank=rank, **options)
    log.span("torch_distributed_init", 0, 50)()
    for step in range(steps):
        log.step, log.tags = step, []
        end_of_step = log.span("step", 100 + 100 * step, 195 + 100 * step)
        log.span("fwd_bwd", 110 + 100 * step, 150 + 100 * step)()
        if step == 1:
            log.tags = ["checkpoint_save"]
            end_of_save = log.span("step", 260, 560, tid=77)  # of the same name, as it may be
        log.metric(190 + 100 * step, "loss", float("nan") if step == 2 else 2.5 - step)
        end_of_step()
        if step == 3:
            end_of_save()
    return log


class StructuredLog(harness.Case):
    def run_tool(self, *arguments, status=harness.HEALTHY):
        done = self.place.tool("titan-analyze", *arguments, "--no-rings")
        self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def rows(self, *arguments):
        lines = self.run_tool("summary", *arguments, "--json").stdout.splitlines()
        return {(row["kind"], row["name"]): row for row in map(json.loads, lines)}

    def timeline(self, *arguments):
        path = self.place.path / "timeline.perfetto-trace"
        done = self.run_tool("timeline", *arguments, "-o", path)
        return perfetto_trace.read(path), done

    def test_threads_and_values(self):
        logs = self.place.path / "structured_logs"
        for rank in range(2):
            trainer(logs, rank).write()
        rows = self.rows(self.place.path)
        step, save = rows["step", "step"], rows["span", "step"]
        self.assertEqual((step["count"], step["mean_ns"], step["ranks"]), (2 * 3, 100e6, [0, 1]))
        self.assertEqual(save["count"], 2 * 5)
        self.assertEqual((save["min_ns"], save["max_ns"]), (95e6, 300e6))  # the step and the save kept their own
        self.assertEqual(rows["span", "fwd_bwd"]["p50_ns"], 40e6)
        self.assertEqual(rows["span", "torch_distributed_init"]["phase"], "distributed_code_initialization")
        loss = rows["metric", "loss"]
        self.assertEqual((loss["count"], loss["not_finite"], loss["max"]), (2 * 3, 2, 2.5))
        trace, done = self.timeline(logs)
        self.assertIn("of 2 ranks", done.stdout)
        slices = [(one["name"], round((one["end_ns"] - one["begin_ns"]) / 1e6)) for one in trace["slices"]]
        self.assertEqual(slices.count(("step", 300)), 2)
        self.assertEqual(slices.count(("step", 95)), 8)
        self.assertEqual(slices.count(("step 1", 100)), 2)
        told = {one["name"]: one["arguments"] for one in trace["slices"] if one["name"].startswith("step ")}
        self.assertEqual(told["step 1"], {"relative_step": 1})
        newest = told[max(told)]
        self.assertEqual(newest["state"], "newest: no step ends it")
        names = {track["name"] for track in trace["tracks"].values()}
        self.assertLessEqual({"rank 0 on node-1, pid 1000", "rank 1 on node-1, pid 1001", "main thread", "thread 77"},
                             names)
        self.assertTrue(any(one["name"] == "checkpoint_save" for one in trace["slices"] + trace["instants"]))

    def test_what_is_lost(self):
        log = trainer(self.place.path / "logs")
        log.span("never_ends", 550, 600)
        log.line(560, "event", "never_begun_end")
        log.line(580, "event", "begun_before_end", value=70.0)
        log.lines[3:3] = ["W1126 12:00:00 trainer.py:12] a line of another logger", '{"some": "JSON"}', "",
                           '{"log_type_name": "' + "x" * (3 << 20)]
        log.line(590, "event", "cut_off_start")
        log.lines[-1] = log.lines[-1][:100]
        log.write(end="")
        rows = self.rows(log.path)
        self.assertEqual(rows["span", "begun_before"]["mean_ns"], 70e6)
        self.assertNotIn(("span", "never_ends"), rows)
        self.assertEqual(rows["step", "step"]["count"], 3)
        said = (f"{log.path.name}: 3 lines are not of the structured logger (line 4 is the first), left out; its last "
                "line is cut off; 1 span end without a begin and a duration left out\n")
        self.assertIn(said, self.run_tool("summary", log.path).stderr)
        trace, done = self.timeline(log.path)
        self.assertIn(said, done.stderr)
        open_spans = [one for one in trace["slices"] if one["arguments"].get("state") == "open"]
        self.assertEqual([one["name"] for one in open_spans], ["never_ends"])

    def test_errors_and_tasks(self):
        log = Log(self.place.path / "logs", source="controller")
        log.step = 1
        names = ["Task-7", "rollout-1", "rollout-2"]  # the first is asyncio's own
        ends = [log.span("rollout", 10 * i, 100 - 10 * i, task=name) for i, name in enumerate(names)]
        log.line(60, "event", "rollout_error", task="rollout-1",
                 message="[step 1] rollout_error: ValueError: no reward")
        for end in ends:
            end()
        log.write()
        self.assertEqual((self.rows(log.path)["span", "rollout"]["min_ns"],
                          self.rows(log.path)["span", "rollout"]["max_ns"]), (60e6, 100e6))
        trace, _ = self.timeline(log.path)
        self.assertIn("ValueError: no reward", [one["arguments"].get("error") for one in trace["slices"]])
        told = [one["arguments"].get("task_name", "") for one in trace["slices"] if one["name"] == "rollout"]
        self.assertEqual(sorted(told), ["", "rollout-1", "rollout-2"])

    def test_starts_and_roles(self):
        logs = self.place.path / "logs"
        for rank in range(2):
            trainer(logs, rank, steps=3).write()
            trainer(logs, rank, steps=5, start_us=START_US + 10**9, stamp="20261126-121640-ABC124").write()
        self.assertEqual(self.rows(logs)["step", "step"]["count"], 2 * 4)
        self.assertEqual(self.rows(logs, "--attempt", "0")["step", "step"]["count"], 2 * 2)
        goodput = self.run_tool("summary", logs, "--goodput", "--json").stdout.splitlines()
        self.assertEqual([row["attempt"] for row in map(json.loads, goodput) if "attempt" in row], [0, 1])
        self.assertIn("no attempt 2", self.run_tool("summary", logs, "--attempt", "2", status=harness.UNUSABLE).stderr)
        other = Log(logs, source="generator", start_us=START_US + 10**9, stamp="20261126-121640-ABC125")
        other.step = 0
        other.span("generate", 0, 30)()
        other.metric(190, "loss", 70.0)
        other.write()
        first = [row for row in map(json.loads, self.run_tool("metrics", logs, "--json").stdout.splitlines())
                 if row["step"] == 0]
        self.assertEqual([(row["role"], row["metric"], row["value"], row["ranks_reported"], row["ranks_missing"])
                          for row in first], [("generator", "loss", 70, 1, []), ("trainer", "loss", 2.5, 2, [])])
        rows = self.rows(logs)
        self.assertEqual(rows["step", "trainer: step"]["ranks"], [0, 1])
        self.assertEqual(rows["span", "generator: generate"]["mean_ns"], 30e6)
        self.assertAlmostEqual(rows["span", "trainer: fwd_bwd"]["share_of_steps"], 5 * 40 / 400)
        trace, _ = self.timeline(logs)
        names = {track["name"] for track in trace["tracks"].values()}
        self.assertLessEqual({"trainer rank 0 on node-1, pid 1000", "generator rank 0 on node-1, pid 1000"}, names)

    def test_roles_in_tables_and_exports(self):
        """Rank 0 of one role is never taken for rank 0 of the other."""
        logs = self.place.path / "logs"
        for rank in range(2):
            trainer(logs, rank, steps=3).write()
        other = Log(logs, source="generator")
        other.step = 0
        other.span("generate", 0, 30)()
        other.metric(190, "loss", 70.0)
        other.write()
        joined = self.run_tool("sql", logs, "--csv", "SELECT role, name, value, ranks FROM step_metrics "
                               "WHERE step = 0 ORDER BY role").stdout
        self.assertEqual(joined, "role,name,value,ranks\ngenerator,loss,70,1\ntrainer,loss,2.5,2\n")

        def export(option, name):
            into = self.place.path / name
            done = self.place.run([sys.executable, "-m", "titantrace.export", "--titan-analyze",
                                   harness.BUILD / "analyzer" / "titan-analyze", option, into, logs],
                                  self.place.env(preload=False, PYTHONPATH=harness.ROOT / "python"))
            self.assertEqual(done.status, 0, done.stderr)
            return into

        self.assertIn('titantrace_step_seconds_count{role="trainer"} 4.0\n',
                      export("--openmetrics", "prom").read_text())
        resources = [message["resourceSpans"][0]["resource"]["attributes"]
                     for message in map(json.loads, export("--otlp", "spans").read_text().splitlines())]
        self.assertEqual(sorted(told[0]["value"]["stringValue"] for told in resources),
                         ["generator", "trainer", "trainer"])
        lines = export("--torchtitan", "again")
        self.assertEqual(sorted(file.name.partition("_")[0].partition(".2")[0] for file in lines.iterdir()),
                         ["generator.global", "trainer.global", "trainer.global"])
        self.assertEqual(self.rows(logs)["step", "trainer: step"]["ranks_on_record"], 2)
        self.assertEqual(self.rows(logs, "--role", "trainer")["step", "step"]["ranks"], [0, 1])
        self.assertIn("no role critic; found: generator (1 rank), trainer (2 ranks)",
                      self.run_tool("metrics", logs, "--role", "critic", status=harness.UNUSABLE).stderr)
        self.assertIn("ranks count within roles (generator, trainer): choose one by --role",
                      self.run_tool("compare", logs, logs, status=harness.UNUSABLE).stderr)
        self.run_tool("compare", logs, logs, "--role", "generator")
        self.assertIn("all roles (generator, trainer)", self.run_tool("summary", logs, "--goodput").stderr)
        self.assertIn("trainer: 2 steps of 100 ms on average", self.run_tool("summary", logs, "--brief").stdout)
        rows = [json.loads(line) for line in self.run_tool("metrics", logs, "--json").stdout.splitlines()]
        _, _, values = exported.points_of(rows)[0]
        self.assertEqual((values["generator/loss"], values["trainer/loss"]), (70, 2.5))

    def test_other_commands(self):
        log = trainer(self.place.path / "logs")
        log.write()
        self.assertIn("summary, metrics, timeline, compare, sql, report and show --markers of titan-analyze read them",
                      self.run_tool(log.path, status=harness.UNUSABLE).stderr)
        values = [json.loads(line) for line in self.run_tool("metrics", log.path, "--json").stdout.splitlines()]
        self.assertEqual([(row["step"], row["value"]) for row in values],
                         [(0, 2.5), (1, 1.5), (2, "nan"), (3, -0.5)])
        page = json.loads(self.run_tool("report", log.path, "--json").stdout)
        self.assertEqual(page["document"]["about"], ["logs of torchtitan's structured logger, 1 rank"])
        self.assertIn("4 steps of 100 ms on average", json.dumps(page["document"]["sections"][0]))
        self.assertNotIn("marks no steps", json.dumps(page["steps"]))
        empty = self.place.path / "empty.jsonl"
        empty.write_text('{"log_type_name": "time_us"}\n{"time_us": "log_type_name", "log_type_name": 3}\n')
        self.assertIn("no line of torchtitan's structured logger is in it",
                      self.run_tool("summary", empty, status=harness.UNUSABLE).stderr)


if __name__ == "__main__":
    harness.main()
