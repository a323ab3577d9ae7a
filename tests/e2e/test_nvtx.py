#!/usr/bin/env python3
"""NVTX ranges that programs emit anyway become spans, unless the user has given NVTX to another tool, within a
limit."""

import re

import harness

VARIABLE = "NVTX_INJECTION64_PATH"
HELPER_SAYS = ["push 0", "pop 0"]


class Nvtx(harness.Case):
    def spans(self, **settings):
        """{count of the collective: the span it was called in}, and what the program said."""
        run = self.place.start_rank("e2e-nvtx-use", "ranges", TITANTRACE_DUMP_ON="exit", **settings)
        run.wait_says("done")
        self.place.go()
        self.assertEqual(run.wait(), 0)
        return {call["count"]: call["span"] for call in self.place.show(self.place.dumps, "--op", "all_reduce")}, run

    def test_ranges_become_spans(self):
        spans, run = self.spans()
        self.assertEqual(spans, {1: "attention", 2: "forward", 3: ""})
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)  # the dump it was asked for

    def test_ranges_that_overlap(self):
        run = self.place.run_rank("e2e-nvtx-use", "overlapping", TITANTRACE_DUMP_ON="exit")
        self.assertEqual((run.status, run.stdout), (0, "done 1\n"))
        markers = self.place.show(self.place.dumps, "--markers")
        begun = {marker["name"]: marker for marker in markers if marker["marker"] == "span_begin"}
        ended = {marker["name"]: marker for marker in markers if marker["marker"] == "span_end"}
        self.assertEqual((list(begun), list(ended)), (["prefetch", "copy", "open"], ["prefetch", "copy"]))
        for name, marker in ended.items():
            self.assertEqual((marker["span"], marker["begun_ticks"]), (begun[name]["span"], begun[name]["ticks"]))
        self.assertEqual(len({marker["task"] for marker in begun.values()} - {0}), 3)
        self.assertNotEqual(ended["copy"]["thread"], begun["copy"]["thread"])
        self.assertEqual([call["span"] for call in self.place.show(self.place.dumps, "--op", "all_reduce")], [""])
        self.assertIn("1 ends of spans that were not open", self.place.analyze(self.place.dumps).stdout)

    def test_off(self):
        self.assertEqual(self.spans(TITANTRACE_NVTX="0")[0], {1: "", 2: "", 3: ""})

    def test_volume_is_limited_and_counted(self):
        spans, _ = self.spans(TITANTRACE_NVTX="2", MANY="5000")
        self.assertEqual(spans, {1: "attention", 2: "forward", 3: ""})
        said = self.place.analyze(self.place.dumps).stdout
        lost = re.search(r"([0-9,]+) NVTX ranges and marks above the limit", said)
        self.assertIsNotNone(lost, said[-2000:])
        self.assertGreaterEqual(int(lost.group(1).replace(",", "")), 4000)

    def test_the_user_comes_first(self):
        spans, run = self.spans(NVTX_INJECTION64_PATH="/nowhere/tool.so")
        self.assertEqual(spans, {1: "", 2: "", 3: ""})
        self.assertEqual(run.stderr.count(VARIABLE), 1, run.stderr)

    def test_the_variable(self):
        def value(**settings):
            done = self.place.run(["env"], self.place.env(**settings))
            return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line).get(VARIABLE)
        self.assertEqual(value(), str(harness.tracer()))
        self.assertEqual(value(NVTX_INJECTION64_PATH="/mine.so"), "/mine.so")
        self.assertIsNone(value(TITANTRACE_NVTX="0"))
        self.assertIsNone(value(TITANTRACE="off"))

    def test_a_process_that_is_no_rank_stays_asleep(self):
        run = self.place.run([harness.client("e2e-nvtx-use"), "helper"], self.place.env())
        self.assertEqual((run.status, run.stderr, self.place.traces()), (0, "", []))
        # Without us NVTX answers -2 (nobody listens); with us a depth, as with any tool.
        self.assertEqual(run.stdout.split("\n")[:2], HELPER_SAYS)

    def test_a_rank_that_only_uses_nvtx_is_recorded(self):
        run = self.place.run_rank("e2e-nvtx-use", "helper", TITANTRACE_DUMP_ON="exit")
        self.assertEqual(run.status, 0)
        self.assertEqual(len(self.place.dump_files()), 1)


if __name__ == "__main__":
    harness.main()
