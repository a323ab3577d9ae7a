"""All records of a simulated job as tables, and its summary for Prometheus (python/titantrace/tables.py and
openmetrics.py), against what titan-analyze itself lists.

    test_tables.py --library LIB [--real]      --real: with pyarrow, DuckDB and Prometheus' own parsers, too
"""
import json
import math
import os
import pathlib
import re
import shutil
import sqlite3
import stat
import subprocess
import tempfile

import bridge_case
from bridge_case import REAL, ROOT, package_case, real_python

OPTIONS = {"calls": [], "cuda_calls": ["--cuda-calls"], "work": ["--work"], "markers": ["--markers"],
           "labels": ["--labels"], "health": ["--health"], "step_sums": ["--step-sums"],
           "step_calls": ["--step-calls"], "health_extremes": ["--health-extremes"]}
SAMPLE = re.compile(r'([a-z_]+?)(_sum|_count)?(?:\{(.*)\})? (\S+)')

READ_WITH_DUCKDB = r"""
import duckdb, json, sys
found = duckdb.sql(f"SELECT * FROM '{sys.argv[1]}'")
print(json.dumps([dict(zip(found.columns, row)) for row in found.fetchall()]))
"""
# The question of docs/reference/records.md.
SLOWEST = r"""
import duckdb, json, sys
print(json.dumps(duckdb.sql(open(sys.argv[2]).read().replace("records/", sys.argv[1] + "/")).fetchall()))
"""
READ_WITH_PROMETHEUS = r"""
import json, sys
from prometheus_client.openmetrics import parser as of_openmetrics
from prometheus_client import parser as of_prometheus
text = open(sys.argv[1]).read()
names = [[family.name for family in parser.text_string_to_metric_families(text)] for parser in (of_openmetrics,
                                                                                               of_prometheus)]
print(json.dumps(names))
"""

READ_WITH_ARROW = r"""
import json, pyarrow, sys
print(json.dumps(pyarrow.ipc.open_file(sys.argv[1]).read_all().to_pylist()))
"""
# Their JSON has identifiers in hexadecimal, which protobuf's takes for base64: that the names of all fields are right
# it tells.
READ_WITH_OTLP = r"""
import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
for line in open(sys.argv[1]):
    assert json_format.Parse(line, ExportTraceServiceRequest()).resource_spans
"""

HAS_TORCHTITAN = "import importlib.util; print(importlib.util.find_spec('torchtitan') is not None)"
GANTT = r"""
import json, sys
from torchtitan.observability.structured_logger.gantt_generator import generate_gantt_trace
print(json.dumps(generate_gantt_trace(sys.argv[1], sys.argv[2])["traceEvents"]))
"""

ODD_ANALYZER = """#!/usr/bin/env python3
import sys
if sys.argv[1] == "fields":
    for key, kind in ("number", "number or null"), ("real", "real number, text or null"), ("list", "list"):
        print('{"table":"markers","option":"--markers","key":"%s","type":"%s","unit":"","meaning":""}' % (key, kind))
else:
    print('{"number":1,"real":null}')
    print('{"number":18446744073709551615,"real":"inf","list":["a","b"]}')
    print('{"number":-5,"real":0.5}')
"""


class Tables(bridge_case.Case):
    job = None  # the directory of its dumps

    def setUp(self):
        super().setUp()
        self.python = [real_python()] if REAL else list(self.each_python())[-1].command
        self.build = pathlib.Path(package_case.options.library).resolve().parents[1]
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("TITANTRACE", "PYTHON"))}
        self.environment.update({"PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"})
        if Tables.job is None:
            Tables.job = tempfile.TemporaryDirectory()
            self.addClassCleanup(Tables.job.cleanup)
            stand_ins = self.build / "tests" / "simgpu"
            self.run_well([stand_ins / "titan-sim", "--ranks", "4", "--tp", "2", "--steps", "6"], **{
                "LD_PRELOAD": package_case.options.library, "LD_LIBRARY_PATH": str(stand_ins),
                "TITANTRACE_DIR": Tables.job.name, "TITANTRACE_RING_DIR": str(self.place),
                "TITANTRACE_LABELS": "note=a \"b\" \u00e9", "TITANTRACE_HEALTH_S": "1", "TITANTRACE_DUMP_ON": "exit"})
        shutil.copytree(Tables.job.name, self.place / "dumps")

    def run_well(self, words, status=0, **variables):
        done = subprocess.run([*map(str, words)], env={**self.environment, **variables}, cwd=self.place,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def export(self, *arguments, status=0):
        return self.run_well([*self.python, "-m", "titantrace.export", "--titan-analyze",
                              self.build / "analyzer" / "titan-analyze", *arguments], status)

    def listed(self, command, *options):
        done = self.run_well([self.build / "analyzer" / "titan-analyze", command, "--json", *options,
                              *([] if command == "fields" else [self.place / "dumps"])])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def expected(self):
        """Rows by table, with a value for each field: lists as JSON, real numbers as such."""
        kinds = {}
        for field in self.listed("fields"):
            kinds.setdefault(field["table"], {})[field["key"]] = field["type"]
        tables = {}
        for name, options in OPTIONS.items():
            tables[name] = [{key: self.cell(kind, row.get(key)) for key, kind in kinds[name].items()}
                            for row in self.listed("show", *options)]
            self.assertTrue(tables[name], name)
        return tables

    @staticmethod
    def cell(kind, value):
        if value is not None and kind.startswith("real"):
            return float(value)
        return json.dumps(value) if kind.startswith("list") and value is not None else value

    def test_json_lines(self):
        done = self.export("--jsonl", "records", "dumps")
        self.assertIn("markers", done.stdout)
        self.assertEqual({path.stem for path in (self.place / "records").iterdir()}, set(OPTIONS))
        for name, options in OPTIONS.items():
            lines = (self.place / "records" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
            self.assertEqual([json.loads(line) for line in lines], self.listed("show", *options), name)
        self.assertIn("nothing is overwritten", self.export("--jsonl", "records", "dumps", status=2).stderr)

    def test_sqlite(self):
        self.export("--sqlite", "records.db", "dumps")
        self.assertEqual(stat.S_IMODE((self.place / "records.db").stat().st_mode), 0o600)
        base = sqlite3.connect(self.place / "records.db")
        base.row_factory = sqlite3.Row
        expected = self.expected()
        found = {row["name"] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self.assertEqual(found, {*expected, "fields"})
        for name, rows in expected.items():
            self.assertEqual([dict(row) for row in base.execute(f'SELECT * FROM "{name}"')], rows, name)
        unit, = base.execute("""SELECT unit FROM fields WHERE "table" = 'step_sums' AND "key" = 'gpu_ns'""").fetchone()
        self.assertEqual(unit, "ns")
        base.close()
        self.assertIn("exists already", self.export("--sqlite", "records.db", "dumps", status=2).stderr)
        # A link leads nowhere.
        (self.place / "link.db").symlink_to(self.place / "elsewhere")
        self.assertIn("exists already", self.export("--sqlite", "link.db", "dumps", status=2).stderr)
        self.assertFalse((self.place / "elsewhere").exists())

    def test_parquet(self):
        if not REAL:
            self.assertIn("pip install pyarrow", self.export("--parquet", "records", "dumps", status=2).stderr)
            return
        self.export("--parquet", "records", "dumps")
        for name, rows in self.expected().items():
            done = self.run_well([*self.python, "-c", READ_WITH_DUCKDB, f"records/{name}.parquet"])
            self.assertEqual(json.loads(done.stdout), rows, name)
        page = (ROOT / "docs" / "reference" / "records.md").read_text(encoding="utf-8")
        questions = re.findall(r"```sql\n(.*?)```", page, re.S)
        self.assertGreater(len(questions), 1)
        for question in questions:
            with self.subTest(question):
                (self.place / "question.sql").write_text(question, encoding="utf-8")
                done = self.run_well([*self.python, "-c", SLOWEST, "records", "question.sql"])
                self.assertTrue(json.loads(done.stdout))

    def test_arrow(self):
        if not REAL:
            self.assertIn("pip install pyarrow", self.export("--arrow", "records", "dumps", status=2).stderr)
            return
        self.export("--arrow", "records", "dumps")
        for name, rows in self.expected().items():
            done = self.run_well([*self.python, "-c", READ_WITH_ARROW, f"records/{name}.arrow"])
            self.assertEqual(json.loads(done.stdout), rows, name)

    def test_otlp(self):
        self.export("--otlp", "spans.json", "dumps")
        file = self.place / "spans.json"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        ranks, spans, traces = set(), {}, {}
        for line in file.read_text(encoding="utf-8").splitlines():
            of_resource, = json.loads(line)["resourceSpans"]
            attributes = {one["key"]: one["value"] for one in of_resource["resource"]["attributes"]}
            self.assertEqual(attributes["titantrace.label.note"], {"stringValue": 'a "b" \u00e9'})
            rank = int(attributes["titantrace.rank"]["intValue"])
            ranks.add(rank)
            for span in of_resource["scopeSpans"][0]["spans"]:
                self.assertRegex(span["traceId"] + span["spanId"], r"^[0-9a-f]{48}$")
                traces.setdefault(rank, set()).add(span["traceId"])
                spans[span["spanId"]] = (rank, span)
        self.assertEqual([len(of_rank) for of_rank in traces.values()], [1] * 4)
        self.assertEqual(len(set.union(*traces.values())), 4)
        markers = self.listed("show", "--markers")
        begun = {(marker["rank"], marker["span"]): marker for marker in markers if marker["marker"] == "span_begin"}
        expected = sorted((marker["rank"], marker["name"],
                           str(begun[marker["rank"], marker["span"]]["realtime_ns"]), str(marker["realtime_ns"]))
                          for marker in markers if marker["marker"] == "span_end")
        written = sorted((rank, span["name"], span["startTimeUnixNano"], span["endTimeUnixNano"])
                         for rank, span in spans.values())
        self.assertEqual([span for span in written if span[1] != "step"], expected)
        self.assertEqual(sum(1 for span in written if span[1] == "step"),
                         sum(1 for marker in markers if marker["marker"] == "step"))
        for rank, span in spans.values():
            if "parentSpanId" in span:
                of_parent, parent = spans[span["parentSpanId"]]
                self.assertEqual(of_parent, rank)
                self.assertLessEqual(int(parent["startTimeUnixNano"]), int(span["startTimeUnixNano"]))
        self.assertIn("exists already", self.export("--otlp", "spans.json", "dumps", status=2).stderr)
        if REAL:
            self.run_well([*self.python, "-c", READ_WITH_OTLP, file])

    def test_openmetrics(self):
        self.export("--openmetrics", "titantrace.prom", "dumps")
        file = self.place / "titantrace.prom"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o644)
        *lines, end = file.read_text(encoding="utf-8").splitlines()
        self.assertEqual(end, "# EOF")
        values, family = {}, None
        for line in lines:
            if line.startswith("# HELP "):
                family = line.split()[2]
                self.assertNotIn(family, [key[0] for key in values], "the samples of a family stand together")
            elif not line.startswith("# TYPE "):
                name, suffix, labels, value = SAMPLE.fullmatch(line).groups()
                self.assertEqual(name, family)
                values[name, suffix, labels] = float(value)
        rows = self.listed("summary", "--top", "0")
        step, = [row for row in rows if row["kind"] == "step"]
        self.assertEqual(values["titantrace_step_seconds", "_count", None], step["count"])
        self.assertEqual(values["titantrace_step_seconds", None, 'quantile="0.95"'], step["p95_ns"] / 1e9)
        for row in rows:
            if row["kind"] in ("GPU", "host"):
                key = f"titantrace_{row['kind'].lower()}_call_seconds", "_sum", f'call="{row["name"]}"'
                self.assertTrue(math.isclose(values[key], (row["sum_ns"] or 0) / 1e9), row["name"])
        job, = [row for row in rows if row["kind"] == "job"]
        self.assertEqual(values["titantrace_steps_per_second", None, None], job["steps_per_s"])
        self.export("--openmetrics", "titantrace.prom", "dumps")  # replaced
        self.assertEqual([path.name for path in self.place.glob("titantrace.prom*")], ["titantrace.prom"])
        if REAL:
            done = self.run_well([*self.python, "-c", READ_WITH_PROMETHEUS, file])
            for names in json.loads(done.stdout):
                self.assertEqual(set(names), {key[0] for key in values})

    def test_torchtitan_logs(self):
        self.export("--torchtitan", "structured_logs", "dumps")
        markers = self.listed("show", "--markers")
        lines = {}
        for file in sorted((self.place / "structured_logs").iterdir()):
            self.assertRegex(file.name, r"^training\.global_rank_\d\.\d{8}-\d{6}-[A-Z0-9]{6}\.jsonl$")
            lines[int(file.name.split(".")[1].rsplit("_", 1)[1])] = [json.loads(line) for line in
                                                                     file.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(set(lines), {0, 1, 2, 3})
        for rank, of_rank in lines.items():
            own = [marker for marker in markers if marker["rank"] == rank]
            begun = {marker["span"]: marker for marker in own if marker["marker"] == "span_begin"}
            ended = [(marker["name"], (marker["realtime_ns"] - begun[marker["span"]]["realtime_ns"]) / 1e6)
                     for marker in own if marker["marker"] == "span_end"]
            self.assertEqual([(line["event_name"], line["value"]) for line in of_rank
                              if line["log_type_name"].endswith("_end")], ended)
            self.assertEqual([(line["step"], line["event_name"], line["value"]) for line in of_rank
                              if line["log_type_name"] == "metric_value"],
                             [(marker["step"], marker["name"], marker["value"]) for marker in own
                              if marker["marker"] == "metric"])
            self.assertEqual([line["seq_id"] for line in of_rank], list(range(len(of_rank))))
        if REAL and self.run_well([*self.python, "-c", HAS_TORCHTITAN]).stdout.strip() == "True":
            done = self.run_well([*self.python, "-c", GANTT, "structured_logs", "gantt.json"])
            drawn = [event for event in json.loads(done.stdout.splitlines()[-1]) if event["ph"] == "X"]
            self.assertEqual(len(drawn), sum(marker["marker"] == "span_end" for marker in markers))

    def test_numbers_of_damaged_records(self):
        """What fits in no 64 bits is null; NaN and lists are kept."""
        analyzer = self.place / "analyzer"
        analyzer.write_text(ODD_ANALYZER, encoding="utf-8")
        analyzer.chmod(0o755)
        expected = [(1, None, None), (None, math.inf, '["a", "b"]'), (-5, 0.5, None)]
        self.export("--sqlite", "odd.db", "--titan-analyze", analyzer, "dumps")
        base = sqlite3.connect(self.place / "odd.db")
        self.assertEqual(base.execute("SELECT * FROM markers").fetchall(), expected)
        base.close()
        if REAL:
            self.export("--parquet", "odd", "--titan-analyze", analyzer, "dumps")
            done = self.run_well([*self.python, "-c", READ_WITH_DUCKDB, "odd/markers.parquet"])
            self.assertEqual([tuple(row.values()) for row in json.loads(done.stdout)], expected)

    def test_nothing_on_record(self):
        (self.place / "empty").mkdir()
        for option in "--jsonl", "--sqlite", "--openmetrics":
            self.assertIn("failed", self.export(option, f"none{option}", "empty", status=2).stderr)


if __name__ == "__main__":
    bridge_case.main()
