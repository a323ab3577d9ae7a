"""A row that scripts/bench could not measure is named with its reason (a record_cost without LTTng's tracepoints stands
in), and each part is printed when it is measured."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

import machine_costs

PROGRAM = """#!/bin/sh
echo '{"benchmarks": ['
for name in NAMES; do
    echo "{\\"run_name\\": \\"$name\\", \\"aggregate_name\\": \\"median\\", \\"cpu_time\\": 20.0},"
done
echo '{"run_name": "last"}]}'
"""
OURS = "all_reduce step span_begin_and_end metric"
OF_LTTNG = ["two LTTng-UST tracepoints", "LTTng pair / our record"]


class Rows(unittest.TestCase):
    def rows(self, names, lttng, why):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "record_cost"
            program.write_text(PROGRAM.replace("NAMES", names))
            program.chmod(0o755)
            return machine_costs.record_costs(program, "", lttng, why)

    def missing(self, *arguments):
        rows = self.rows(*arguments)
        self.assertEqual([entry["name"] for entry in rows if entry["name"] in OF_LTTNG], OF_LTTNG)
        return {entry["why"] for entry in rows if entry["measured"] is None}

    def test_a_build_without_lttng(self):
        why, = self.missing(OURS, {}, "")
        self.assertIn("was built without LTTng-UST", why)

    def test_a_machine_without_lttng(self):
        self.assertEqual(self.missing(f"{OURS} lttng_enter_and_leave", None, "there is no daemon"),
                         {"there is no daemon"})

    def test_both_there(self):
        self.assertEqual(self.missing(f"{OURS} lttng_enter_and_leave", {}, ""), set())


class Parts(unittest.TestCase):
    def test_each_part_is_printed_before_the_next(self):
        script = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench"
        loader = importlib.machinery.SourceFileLoader("bench_script", str(script))
        bench = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(bench)

        class Stub:
            def first(self):
                return [machine_costs.row("one thing", 1, 2, "ms")]

            def second(self):
                self.printed = said.getvalue()
                raise bench.NotMeasured("no such machine")

        stub = Stub()
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
            parts = [bench.measure(lambda: stub, part) for part in ("first", "second")]
        self.assertIn("one thing", stub.printed)
        self.assertIn("not measured: second: no such machine", said.getvalue())
        self.assertEqual([(len(rows), missing) for rows, missing in parts],
                         [(1, {}), (0, {"second": "no such machine"})])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
