"""The markers' header: programs built with it run without the tracer, and are recorded with it."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()


def run(program, directory, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TITANTRACE") and k != "RANK"}
    environment.update(TITANTRACE_DIR=f"{directory}/dumps", TITANTRACE_RING_DIR=str(directory), **variables)
    return subprocess.run([program], capture_output=True, text=True, env=environment, check=True,
                          timeout=60).stdout.strip()


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
            self.assertEqual(run(program, self.directory, LD_PRELOAD=options.library, RANK="3", WORLD_SIZE="8"), "0")
            self.assertTrue(list(self.directory.rglob("rank00003.*.titan")))

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
