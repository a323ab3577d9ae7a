"""What read_perfetto.py finds in a timeline, for tests."""

import json
import subprocess
import unittest

import harness

PYTHON = harness.ROOT / ".venv" / "bin" / "python"


def read(path):
    """The slices, instants and values of a trace, each with the names of its track and process. AssertionError: the
    trace breaks Perfetto's rules."""
    done = subprocess.run([PYTHON, harness.ROOT / "tests/e2e/read_perfetto.py", path], capture_output=True, text=True,
                          check=False) if PYTHON.exists() else None
    if done is None or done.returncode == 77:
        raise unittest.SkipTest("Perfetto's definitions are not installed (scripts/setup installs them)")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    trace = json.loads(done.stdout)
    if trace["problems"]:
        raise AssertionError(trace["problems"])
    for kind in ("slices", "instants", "values"):
        for one in trace[kind]:
            track = trace["tracks"][str(one["track"])]
            one["track"] = track["name"]
            one["process"] = trace["tracks"][str(track["process"])]["name"]
    return trace
