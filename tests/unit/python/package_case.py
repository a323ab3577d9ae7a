"""Programs that use the package of the tree, with and without the tracer, and what their dumps hold, as the second
reader (tests/synth/titan_decode.py) finds it."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "synth")]
import nightly  # noqa: E402
import python_package  # noqa: E402
import pythons  # noqa: E402
import titan_decode  # noqa: E402

OLDEST = (3, 9)  # requires-python in pyproject.toml
# Before a program: its spans are made in Python, as where the extension module is missing.
IN_PYTHON = "import sys; sys.modules['titantrace._spans'] = None\n"
options = argparse.Namespace()


def name_of(python):
    return re.sub(r"\W", "-", f"{python.version}-{python.shape}")


class Case(unittest.TestCase):
    preamble = ""
    newest_by_day = False  # the newest CPython stands for the others

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.place = pathlib.Path(holder.name)

    def each_python(self):
        found = [python for python in pythons.interpreters()
                 if tuple(int(part.rstrip("t")) for part in python.minor.split(".")) >= OLDEST]
        self.assertTrue(found)
        chosen = pythons.some(found)
        for python in chosen[-1:] if self.newest_by_day and not nightly.IS_ON else chosen:
            with self.subTest(python=python.version):
                yield python

    def environment_of(self, name, preload, **variables):
        """Of a program whose dumps lie below that name."""
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("RANK", "WORLD_SIZE") and not key.startswith(("TITANTRACE", "PYTHON"))}
        environment.update({"PYTHONPATH": str(options.package),
                            "PYTHONDONTWRITEBYTECODE": "1", "TITANTRACE_DIR": str(self.place / name),
                            "TITANTRACE_RING_DIR": str(self.place), **variables})
        if preload:
            environment["LD_PRELOAD"] = options.library
        return environment

    def run_program(self, python, name, preload, program, **variables):
        # Not in this checkout: its commit would be a label.
        done = subprocess.run([*python.command, "-c", self.preamble + program],
                              env=self.environment_of(name, preload, **variables), cwd=self.place,
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def markers_in(self, dump):
        return list(map(json.loads, titan_decode.lines("--markers", [dump])))

    @staticmethod
    def ring_in(dump):
        return titan_decode.Ring(titan_decode.read_dump(dump.read_bytes()))

    def dump_of_rank(self, name):
        dump, = (self.place / name).rglob("rank00003.*.titan")
        return dump


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--extension", help="_spans.abi3.so; without it spans are made in Python alone")
    parser.parse_args(namespace=options)
    options.library = os.path.abspath(options.library)  # programs that preload it run in other directories
    if not os.path.exists(options.library):
        parser.error(f"{options.library} is not there: ninja -C build interpose/libtitantrace.so")
    with tempfile.TemporaryDirectory() as place:
        options.package = python_package.stage(place, options.extension)
        unittest.main(argv=sys.argv[:1], verbosity=2)
