"""The markers' header: programs built with it run without the tracer, and are recorded with it."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "synth")]
import titan_decode  # noqa: E402

options = argparse.Namespace()

# By the start of a program's name: kind, name, value (of a label its text) and the step of each marker that it makes.
MADE = {
    "markers_c99": [("step", "", 1, 1), ("span_begin", "outer", None, 1), ("span_begin", "", None, 1),
                    ("span_end", "", None, 1), ("span_end", "outer", None, 1), ("event", "event", None, 1),
                    ("metric", "loss", 0.5, 1), ("label", "dp", "0", 1)],
    "markers_cpp": [("step", "", 2, 2), ("event", "in an if", None, 2)],
}


def run(program, directory, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TITANTRACE") and k != "RANK"}
    environment.update(TITANTRACE_DIR=f"{directory}/dumps", TITANTRACE_RING_DIR=str(directory), **variables)
    # In no repository, whose commit would become a marker.
    return subprocess.run([pathlib.Path(program).resolve()], capture_output=True, text=True, env=environment,
                          cwd=directory, check=True, timeout=60).stdout.strip()


def markers_in(dump):
    """As the second reader finds them."""
    markers = map(json.loads, titan_decode.lines("--markers", [dump]))
    return [(marker["marker"], marker["name"], marker["text"] if marker["marker"] == "label" else marker["value"],
             marker["step"]) for marker in markers]


class Markers(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.directory = pathlib.Path(holder.name)

    def each_program(self):
        for program in options.programs:
            with self.subTest(program=pathlib.Path(program).name):
                yield program

    def test_without_the_tracer_nothing_happens(self):
        for program in self.each_program():
            self.assertEqual(run(program, self.directory), "-1")
            self.assertEqual(list(self.directory.rglob("*")), [])

    def test_in_a_rank_they_are_recorded_and_dumped(self):
        for program in self.each_program():
            name = pathlib.Path(program).name
            ran = run(program, self.directory, LD_PRELOAD=options.library, RANK="3", WORLD_SIZE="8",
                      TITANTRACE_RUN_ID=name)
            self.assertEqual(ran, "0")
            dump, = (self.directory / "dumps" / name).rglob("rank00003.*.titan")
            self.assertEqual(markers_in(dump), MADE[name.rpartition("_")[0]])

    def test_in_a_process_that_is_no_rank_they_do_not_wake_the_tracer(self):
        for program in self.each_program():
            self.assertEqual(run(program, self.directory, LD_PRELOAD=options.library), "-1")
            self.assertEqual(list(self.directory.rglob("*")), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--programs", required=True, nargs="+")
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=2)
