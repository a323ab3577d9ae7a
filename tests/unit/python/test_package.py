"""The Python package of the tree, on every CPython of this machine: its markers are in the dump, and it does nothing
and never raises where the tracer is not loaded."""
import os
import subprocess
import sys

import package_case
from package_case import ROOT

# Prints whether the tracer is there, whether it dumped, and its calls of NCCL: none. Values of a wrong type and numbers
# too large are ignored.
PROGRAM = r"""
import json, threading
import titantrace
titantrace.label("dp", 3)
titantrace.step(7)
titantrace.step("seven")
titantrace.metric("loss", 2.5)
titantrace.metric("tokens", 1024)
titantrace.metric("loss", None)
titantrace.metric("big", 10 ** 400)
titantrace.event("saved \udcff")
with titantrace.span("forward"), titantrace.span("inner"):
    pass

@titantrace.span("decorated")
def twice(x):
    return 2 * x

def beside():
    with titantrace.span("load"):
        titantrace.event("read")

assert twice(4) == 8
try:
    with titantrace.span("fails"):
        raise KeyError("the program's own")
except KeyError:
    pass
thread = threading.Thread(target=beside)
thread.start()
thread.join()
print(json.dumps([titantrace.active(), titantrace.dump("from the test"), titantrace.record()]))
"""

# Waits, once the record has begun, until the thread that looks for the commit is through, unless it never will be.
# Prints whether there is a dump, and whether that thread still looks.
COMMIT = r"""
import json, pathlib, time
import titantrace
def name_of(comm):
    try:
        return comm.read_text()
    except OSError:  # a thread that has ended since it was listed
        return ""
def looks():
    return "titan-commit\n" in map(name_of, pathlib.Path("/proc/self/task").glob("*/comm"))
titantrace.step(1)
until = time.monotonic() + 30
while looks() and not pathlib.Path(".git/packed-refs").is_fifo() and time.monotonic() < until:
    time.sleep(0.01)
print(json.dumps([titantrace.dump(), looks()]))
"""

MADE = [("label", "dp", "3"), ("step", "", 7), ("metric", "loss", 2.5), ("metric", "tokens", 1024.0),
        ("event", "saved ?", None), ("span_begin", "forward", 0), ("span_begin", "inner", 1), ("span_end", "inner", 1),
        ("span_end", "forward", 0), ("span_begin", "decorated", 0), ("span_end", "decorated", 0),
        ("span_begin", "fails", 0), ("error", "", 0), ("span_end", "fails", 0)]
MADE_BESIDE = [("span_begin", "load", 0), ("event", "read", None), ("span_end", "load", 0)]


def told(marker):
    """Its kind, its name and what else counts for that kind: a label's text, a number, the depth of a span."""
    kind = marker["marker"]
    more = {"label": marker["text"], "step": marker["value"], "metric": marker["value"], "event": None}
    return kind, marker["name"], more.get(kind, marker["depth"])


class Package(package_case.Case):
    def test_markers_of_a_rank_are_in_its_dump(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertEqual(self.run_program(python, name, True, PROGRAM, RANK="3", WORLD_SIZE="8"), [True, True, []])
            markers = self.markers_in(self.dump_of_rank(name))
            first = markers[0]["thread"]
            self.assertEqual([told(marker) for marker in markers if marker["thread"] == first], MADE)
            self.assertEqual([told(marker) for marker in markers if marker["thread"] != first], MADE_BESIDE)
            self.assertEqual({marker["step"] for marker in markers[2:]}, {7})

    def test_a_process_that_is_no_rank_records_nothing(self):
        for python in self.each_python():
            self.assertEqual(self.run_program(python, "no-rank", True, PROGRAM), [True, False, []])
            self.assertEqual(list(self.place.iterdir()), [])

    def test_without_the_tracer_nothing_happens(self):
        for python in self.each_python():
            self.assertEqual(self.run_program(python, "no-tracer", False, PROGRAM, RANK="3", WORLD_SIZE="8"),
                             [False, False, []])
            self.assertEqual(list(self.place.iterdir()), [])

    def module(self, *arguments, preload=False, **variables):
        return subprocess.run([sys.executable, "-m", "titantrace", *arguments], cwd=self.place, capture_output=True,
                              env=self.environment_of("module", preload, **variables), text=True, timeout=60)

    def test_the_module_says_what_it_offers(self):
        told = self.module()
        self.assertEqual(told.returncode, 0)
        for command in ("status", "export", "library", "include", "--bridges"):
            self.assertIn(f"python -m titantrace {command}", told.stdout.replace("-m titantrace --bridges profiler",
                                                                                "-m titantrace --bridges"))
        self.assertEqual(self.module("help").stdout, told.stdout)
        package = package_case.options.package / "titantrace"
        self.assertEqual(self.module("library").stdout.strip(), str(package / "libtitantrace.so"))
        self.assertEqual(self.module("include").stdout.strip(), str(package / "include"))
        self.assertIn("--parquet", self.module("export", "--help").stdout)
        wrong = self.module("statsu")
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        self.assertIn("did you mean status?", wrong.stderr)

    def test_the_module_tells_whether_this_process_is_recorded(self):
        without = self.module("status", RANK="0", WORLD_SIZE="1")
        self.assertEqual(without.returncode, 1)
        self.assertIn("does not record this process\nwhy: libtitantrace.so is not loaded", without.stdout)
        recorded = self.module("status", preload=True, RANK="0", WORLD_SIZE="1")
        self.assertEqual(recorded.returncode, 0, recorded.stdout + recorded.stderr)
        self.assertRegex(recorded.stdout, r"records this process\nring: .*\.ring\ngpu: not yet, or not at all\ndumps: ")

    def test_the_module_runs_a_program_behind_bridges(self):
        (self.place / "program.py").write_text("import sys; print(sys.argv[1:], __name__); sys.exit(5)")
        ran = self.module("--bridges", "profiler", "program.py", "-x", "status")
        self.assertEqual((ran.returncode, ran.stdout), (5, "['-x', 'status'] __main__\n"))

    def test_the_commit_of_the_program(self):
        """It is looked for beside the program: one that cannot be had holds nobody up."""
        def commit_on_record(name, still_looks):
            self.assertEqual(self.run_program(python, name, True, COMMIT, RANK="3", WORLD_SIZE="8"),
                             [True, still_looks])
            return self.ring_in(self.dump_of_rank(name)).labels().get("git_sha")

        (self.place / ".git").mkdir()
        head = self.place / ".git" / "HEAD"
        for python in list(self.each_python())[:1]:
            head.write_text("0123456789abcdef0123456789abcdef01234567\n")
            self.assertEqual(commit_on_record("commit", False), "0123456789abcdef0123456789abcdef01234567")
            head.write_text("ref: refs/heads/main\n")
            os.mkfifo(head.with_name("packed-refs"))  # whoever opens it waits
            self.assertIsNone(commit_on_record("no answer", True))

    def test_importing_brings_nothing_heavy(self):
        """Bridges to other packages are loaded when they are asked for, never with the markers."""
        program = "import sys, titantrace; print('torch' in sys.modules, titantrace.__version__)"
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["False", "0+source"])


if __name__ == "__main__":
    package_case.main()
