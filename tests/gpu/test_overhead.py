#!/usr/bin/env python3
"""`scripts/gpu-check overhead` on the simulated GPU: all settings and rows are measured, in seconds."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e"), str(pathlib.Path(__file__).resolve().parent)]
import harness  # noqa: E402
import steps  # noqa: E402


class Overhead(unittest.TestCase):
    def test_dry_run(self):
        with tempfile.TemporaryDirectory(prefix="titan-gpu-check-") as directory:
            results = pathlib.Path(directory) / "results.json"
            ran = subprocess.run([harness.ROOT / "scripts" / "gpu-check", "overhead", "--dry-run", "--no-setup",
                                  "--build-dir", harness.BUILD, "--slow", str(harness.SLOW), "--json", results],
                                 capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            figures = json.loads(results.read_text())["checks"][-1]["figures"]
        rows = {"2ms_2calls", "2ms_20calls", "2ms_20calls_graph", "two_ranks_2ms_2calls"}
        self.assertEqual(set(figures["longer"]), rows)
        for row in rows:
            self.assertEqual(set(figures["longer"][row]), set(steps.SETTINGS) - {steps.WITHOUT} | {"noise"})
            self.assertLess(min(figures["samples"][f"{row}_step_us"][steps.WITHOUT]), 1e6)
        self.assertIn("step longer by", ran.stdout)


if __name__ == "__main__":
    harness.main()
