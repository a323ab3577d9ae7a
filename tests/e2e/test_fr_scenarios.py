#!/usr/bin/env python3
"""The scenarios of PyTorch's tests of its Flight Recorder analyzer, as files, put to fr_trace and to titan-analyze.

    test_fr_scenarios.py --build DIR --table     writes both outcomes into benchmarks/analyzers.md, from a real run
"""

import re
import sys
import unittest

import fr_scenarios
import fr_trace
import harness

PYTHON = harness.ROOT / ".venv" / "bin" / "python"
TABLE = harness.ROOT / "benchmarks" / "analyzers.md"
MARKS = ("<!-- begin: written by tests/e2e/test_fr_scenarios.py --table -->", "<!-- end -->")
WRITE = "--table" in sys.argv
FR_TRACE = fr_trace.FrTrace(PYTHON)


def write(scenario, directory):
    fr_scenarios.job_of(scenario).write(directory)
    return directory


def brief(said):
    """Who is blamed for what, of fr_trace's many lines."""
    missing = re.findall(r"missing ranks: (.*)", said)
    errors = re.findall(r"Culprit (rank \d+); Error type: (\w+)", said)
    return "; ".join([f"missing ranks {ranks}" for ranks in missing]
                     + [f"{rank}: {error}" for rank, error in sorted(errors)]) or "nothing"


class Scenarios(harness.Case):
    def ours(self, scenario, directory):
        analysis = self.place.analyze(directory)
        self.assertIn(analysis.status, (harness.HEALTHY, harness.FINDINGS), analysis.stderr)
        digest = directory.with_suffix(".digest")
        self.place.tool("titan-analyze", "digest", directory, "--no-rings", "--output", digest)
        self.assertEqual(self.place.analyze(digest).json, analysis.json)
        return analysis.json["verdict"]

    def test_ours_from_dumps_and_from_digests(self):
        for number, scenario in enumerate(fr_scenarios.SCENARIOS):
            with self.subTest(scenario.name):
                verdict = self.ours(scenario, write(scenario, self.place.path / str(number)))
                self.assertEqual(verdict and verdict["kind"], scenario.kind, verdict)
                if scenario.culprits is not None:
                    self.assertEqual(tuple(verdict["ranks"]), scenario.culprits, verdict)

    def test_fr_trace(self):
        if not PYTHON.exists() or not list(PYTHON.parents[1].glob("lib/python3*/site-packages/torch")):
            reason = f"no PyTorch in {PYTHON.parents[1]} (scripts/setup installs it)"
            print(f"fr_trace is not asked: {reason}", file=sys.stderr)
            self.skipTest(reason)
        for scenario, said in zip(fr_scenarios.SCENARIOS, self.fr_trace_says()):
            with self.subTest(scenario.name):
                self.assertNotIn("fr_trace failed", said)
                if scenario.fr_trace:
                    self.assertIn(scenario.fr_trace, said)
                else:
                    self.assertNotIn("error msg", said)
                    self.assertNotIn("missing ranks", said)

    def test_where_outcomes_differ_the_table_says_why(self):
        table = TABLE.read_text()
        for scenario in fr_scenarios.SCENARIOS:
            with self.subTest(scenario.name):
                self.assertIn(f"| {scenario.name} |", table)
                self.assertIn(scenario.better, table)
                self.assertTrue(scenario.better or bool(scenario.fr_trace) == (scenario.kind is not None))

    @unittest.skipUnless(WRITE, "only with --table")
    def test_write_table(self):
        """Not a test: writes what both say of each scenario between the marks of benchmarks/analyzers.md."""
        rows = ["| scenario | fr_trace says | titan-analyze says | |", "|---|---|---|---|"]
        for number, (scenario, said) in enumerate(zip(fr_scenarios.SCENARIOS, self.fr_trace_says())):
            verdict = self.ours(scenario, write(scenario, self.place.path / str(number)))
            ours = (f"`{verdict['kind']}` ({verdict['confidence']}): {verdict['summary']}" if verdict
                    else "nothing wrong")
            rows.append(f"| {scenario.name} | {brief(said)} | {ours.replace('|', '/')} | "
                        f"{scenario.better or 'the same'} |")
        before, _, rest = TABLE.read_text().partition(MARKS[0])
        TABLE.write_text(before + MARKS[0] + "\n" + "\n".join(rows) + "\n" + MARKS[1] + rest.partition(MARKS[1])[2])

    def fr_trace_says(self):
        for number, scenario in enumerate(fr_scenarios.SCENARIOS):
            try:
                yield FR_TRACE.ask(write(scenario, self.place.path / f"fr{number}"), "nccl_trace_rank_")[0]
            except AssertionError as error:
                yield f"fr_trace failed: {error}"


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "--table"] + (["-k", "test_write_table"] if WRITE
                                                                               else [])
    harness.main()
