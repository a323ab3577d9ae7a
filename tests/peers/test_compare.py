#!/usr/bin/env python3
"""How answers are measured and judged, and a few cases put to the tools that are here.

    test_compare.py --build DIR [--python PYTHON]
"""

import argparse
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "scenarios")]

import compare  # noqa: E402
import table  # noqa: E402
from truth import ABSENT, STUCK, Cause, Truth, hang, healthy  # noqa: E402
from verdict import verdict  # noqa: E402

BROKEN = """
import os, time
def start(): pass
def version(): return "1"
def ask(directory):
    if directory == "late": time.sleep(60)
    if directory == "dead": os.kill(os.getpid(), 9)
    if directory == "exit": raise SystemExit(3)
    return {"named": [[int(directory)]]}
"""
ONE = hang(ABSENT, [1])
TWO = Truth("hang", [Cause(ABSENT, [1]), Cause(ABSENT, [2])])
STORY = hang(STUCK, [1], weaker=[Cause(STUCK, [4])], among=[0, 1])


class Verdicts(unittest.TestCase):
    def test_answers(self):
        for truth, named, absent, expected in (
                (ONE, [[1]], [], "right"), (ONE, [[1], [0]], [], "right"), (ONE, [[0], [1]], [], "among"),
                (ONE, [[0, 1]], [], "among"),
                (ONE, [[0]], [], "wrong"), (ONE, [], [], "nobody"), (ONE, [], [1], "right"), (ONE, [[0]], [1], "wrong"),
                (TWO, [[1]], [], "wrong"), (TWO, [[1], [2]], [], "right"), (TWO, [[1, 2]], [], "right"),
                (TWO, [[2], [1, 3]], [], "right"),
                (STORY, [[4]], [], "right"), (STORY, [[0, 1]], [], "right"), (STORY, [[0, 1, 2]], [], "among"),
                (healthy(), [], [], "right"), (healthy(), [], [3], "right"), (healthy(), [[3]], [], "wrong"),
                (hang(ABSENT, [1], silent_is_right=True), [], [], "right")):
            with self.subTest(truth=truth.describe(), named=named, absent=absent):
                self.assertEqual(verdict(truth, {"named": named, "absent": absent, "failed": ""}), expected)
        self.assertEqual(verdict(healthy(), {"named": [], "absent": [], "failed": "crashed"}), "failed")


class Workers(unittest.TestCase):
    def test_whatever_a_tool_does_the_next_question_is_answered(self):
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "broken.py").write_text(BROKEN)
            os.environ["PYTHONPATH"] = directory
            tool = compare.Tool("broken", sys.executable, [])
            os.environ.pop("PYTHONPATH")
            for place, said in (("late", "no answer within"), ("dead", "status -9"), ("exit", "SystemExit: 3"),
                                ("word", "ValueError")):
                with self.subTest(place):
                    self.assertIn(said, tool.ask(place, 0.3)["failed"])
            answer = tool.ask("7", 20)
            tool.end()
        self.assertEqual((answer["named"], answer["failed"]), ([[7]], ""))
        self.assertGreater(answer["peak_bytes"], 1_000_000)

    def test_a_tool_that_does_not_start_says_why(self):
        with self.assertRaisesRegex(RuntimeError, "nvrx does not start: .*has neither"):
            compare.Tool("nvrx", sys.executable, ["/nonexistent"])


class Cases(unittest.TestCase):
    build = python = None

    def test_a_few(self):
        tools = {compare.OURS: (sys.executable, [str(self.build / "analyzer" / "titan-analyze")])}
        with_torch = any(self.python.parents[1].glob("lib/python3*/site-packages/torch/distributed/flight_recorder"))
        if with_torch:
            tools["fr_trace"] = (str(self.python), [])
        rows = compare.all_cases(tools, range(3), range(3), 30, 1)
        self.assertEqual([row["number"] for row in rows], list(range(3)))
        for row in rows:
            self.assertEqual(row["tools"][compare.OURS]["failed"], "")
        self.assertEqual(rows[0]["tools"][compare.OURS]["result"], "right", rows[0])
        text = "\n".join(table.in_sum(rows, list(tools)) + table.by_class(rows, list(tools)))
        self.assertIn("**3 hangs**: right", text)
        self.assertIn("stuck in code before a call | 1 of 1", text)
        if not with_torch:
            reason = f"no PyTorch with a Flight Recorder analyzer for {self.python} (scripts/setup installs it)"
            print(f"fr_trace is not asked: {reason}", file=sys.stderr)
            self.skipTest(reason)
        self.assertEqual([row["tools"]["fr_trace"]["result"] for row in rows[:1]], ["right"], rows[0])
        self.assertTrue(all(row["tools"]["fr_trace"]["peak_bytes"] > 20_000_000 for row in rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".venv" / "bin" / "python")
    options, rest = parser.parse_known_args()
    Cases.build, Cases.python = options.build.resolve(), options.python
    unittest.main(argv=["test_compare", *rest])
