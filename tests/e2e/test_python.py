#!/usr/bin/env python3
"""Python stacks in dumps of real programs, by every CPython that is found: each is printed as tested or missing."""

import json
import re
import signal
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from pythons import KNOWN, interpreters, missing, some  # noqa: E402

PROGRAM = harness.ROOT / "tests" / "e2e" / "clients" / "python_places.py"
SOURCE = PROGRAM.read_text().splitlines()
VENV = harness.ROOT / ".venv" / "bin" / "python"


def library():
    return harness.client("libpython_calls.so")


def lines_of(function):
    """The lines of a function of the program, from `def` to its end."""
    first = next(i for i, text in enumerate(SOURCE) if re.match(rf" *def {function}\(", text))
    indent = len(SOURCE[first]) - len(SOURCE[first].lstrip())
    last = first
    while last + 1 < len(SOURCE) and (not SOURCE[last + 1].strip()
                                      or len(SOURCE[last + 1]) - len(SOURCE[last + 1].lstrip()) > indent):
        last += 1
    return range(first + 1, last + 2)


class OwnRecord(harness.Case):
    """titantrace.record() of the Python package: the process' newest calls, without a file."""

    def run_client(self, **settings):
        program = harness.ROOT / "tests" / "e2e" / "clients" / "own_record.py"
        done = self.place.run([sys.executable, program], self.place.env(PYTHONPATH=harness.ROOT / "python", **settings))
        self.assertEqual(done.status, 0, done.stderr)
        return json.loads(done.stdout)

    def test_its_newest_calls_also_while_threads_call(self):
        told = self.run_client(RANK="0", WORLD_SIZE="1", TITANTRACE_DUMP_ON="timeout")
        self.assertEqual(told["nothing_yet"], [])
        self.assertEqual([call["count"] for call in told["newest"]], [7, 8, 9, 10])
        self.assertEqual([call["seq"] for call in told["newest"]], [6, 7, 8, 9])
        for call in told["newest"]:
            wanted = {"op": "all_reduce", "datatype": "float32", "reduction": "sum", "result": 0, "step": 5,
                      "span": "forward", "comm_rank": 0, "peer": -1}
            self.assertEqual({key: call[key] for key in wanted}, wanted)
            self.assertLessEqual(told["before_ns"] - 1_000_000, call["entered_realtime_ns"])
            self.assertLessEqual(call["entered_realtime_ns"], call["returned_realtime_ns"])
            self.assertLessEqual(call["returned_realtime_ns"], told["after_ns"] + 1_000_000)
        self.assertTrue(told["tickets_rise"])
        self.assertLessEqual(told["most"], 200)
        self.assertGreater(told["fewest"], 0)
        self.assertLessEqual(set(told["ops"]), {"all_reduce", "comm_init"})
        self.assertEqual(told["whole"], [True, [], [], []])
        self.assertEqual(self.place.dump_files(), [])

    def test_without_the_tracer_it_is_empty(self):
        told = self.run_client(preload=False)
        self.assertEqual((told["newest"], told["most"], told["whole"]), ([], 0, [False, [], [], []]))


class Python(harness.Case):
    """Of each CPython a test per scenario is added below."""

    def argv(self, command, scenario):
        return [*command, PROGRAM, library(), self.place.meet, scenario]

    def environment(self):
        return self.place.env(RANK="0", WORLD_SIZE="1", LD_LIBRARY_PATH=None, PYTHONFAULTHANDLER=None)

    def dumped(self, command, scenario):
        """The process in a dump that was asked for while it stood in that scenario; afterwards it ends well."""
        job = self.place.start(self.argv(command, scenario), self.environment())
        harness.wait_for((self.place.meet / "is_here").exists, 20, "its threads are in their places")
        job.signal(signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 20, "it dumps")
        process, = self.place.stacks()
        self.place.go()
        self.assertEqual((job.wait(), job.stdout), (0, "done\n"), job.stderr)
        return process

    def frames(self, process, function):
        """Of the thread that stands in a Python function: functions, innermost first."""
        found = [thread for thread in process["threads"]
                 if any(frame["function"].endswith(function) for frame in thread["python_frames"])]
        self.assertEqual(len(found), 1, function)
        for frame in found[0]["python_frames"]:
            if frame["function"].endswith(function):
                self.assertTrue(frame["file"].endswith("python_places.py"), frame)
                self.assertIn(frame["line"], lines_of(function))
        self.assertFalse(found[0]["python_cut"])
        return found[0]

    def check_places(self, python):
        process = self.dumped(python.command, "places")
        self.assertTrue(process["python"].startswith("CPython " + python.minor.rstrip("t")), process["python"])
        self.assertEqual("free-threaded" in process["python"], python.minor.endswith("t"))
        self.assertEqual(process["notes"], [])
        for function in ("waits_for_lock", "computes", "in_generator"):
            self.frames(process, function)
        deep = self.frames(process, "recurses")
        self.assertEqual(sum(frame["function"].endswith("recurses") for frame in deep["python_frames"]), 31)
        self.assertEqual(self.frames(process, "numbers")["tid"], self.frames(process, "in_generator")["tid"])
        holders = [] if python.minor.endswith("t") else [self.frames(process, "holds_the_gil")["tid"]]
        self.assertEqual([thread["tid"] for thread in process["threads"] if thread["held_gil"]], holders)
        for function in ("is_in_cpp", "holds_the_gil"):
            merged = self.frames(process, function)["merged"]
            inside = next(i for i, text in enumerate(merged) if f"{function} at python_places.py" in text)
            waits = [i for i, text in enumerate(merged) if "wait_for_file" in text]
            self.assertEqual(len(waits), 1, merged)
            self.assertLess(waits[0], inside, "C++ stands inside of the Python function that called it")

    def check_subinterpreter(self, python):
        process = self.dumped(python.command, "subinterpreter")
        inside, = [thread for thread in process["threads"] if thread["name"] != "titan-watch" and
                   any(frame["function"] == "inside" for frame in thread["python_frames"])]
        self.assertTrue(any("wait_for_file" in text for text in inside["merged"]), inside["merged"])

    def check_crash(self, python):
        plain = self.place.run(self.argv(python.command, "crash"), self.place.env(preload=False, LD_LIBRARY_PATH=None))
        self.assertEqual(plain.status, -signal.SIGSEGV)
        self.assertIn("Fatal Python error: Segmentation fault", plain.stderr)
        run = self.place.run(self.argv(python.command, "crash"), self.environment())
        self.assertEqual(run.status, plain.status)
        self.assertIn("Fatal Python error: Segmentation fault", run.stderr, "Python's own handler has run")
        process, = self.place.stacks()
        merged = self.frames(process, "crashes")["merged"]
        order = [next(i for i, text in enumerate(merged) if name in text)
                 for name in ("read_through", "crash_in_cpp", "crashes at", "<module>")]
        self.assertEqual(order, sorted(order), merged)
        verdict = self.place.analyze(self.place.dumps).json["findings"][0]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_dead", [0]))
        self.assertRegex(verdict["rank_state"]["0"],
                         r"SIGSEGV.*it was in crashes at python_places\.py:\d+, inside places::read_through")

    def check_overflow(self, python):
        """The handler runs on faulthandler's stack, and no room is left on the other."""
        run = self.place.run(self.argv(python.command, "overflow"), self.environment())
        self.assertEqual(run.status, -signal.SIGSEGV)
        process, = self.place.stacks()
        thread = self.frames(process, "overflows")
        self.assertGreater(sum("recurse_without_end" in text for text in thread["merged"]), 100)
        self.assertEqual(thread["outcome"], "cut")

    def test_names_without_the_file(self):
        """What the library exports has kept its name; what it keeps to itself had to be in the file."""
        copy = self.place.path / library().name
        copy.write_bytes(library().read_bytes())
        run = self.place.run([sys.executable, PROGRAM, copy, self.place.meet, "crash"], self.environment())
        self.assertEqual(run.status, -signal.SIGSEGV)
        here = self.frames(self.place.stacks()[0], "crashes")["merged"]
        copy.unlink()
        elsewhere = self.frames(self.place.stacks()[0], "crashes")["merged"]
        self.assertTrue(here[0].startswith("places::read_through(int const*) at python_calls.cpp"), here)
        self.assertTrue(here[1].startswith("crash_in_cpp at python_calls.cpp"), here)
        self.assertRegex(elsewhere[0], r"^0x[0-9a-f]+ \(libpython_calls\.so\)$")
        self.assertEqual(elsewhere[1], "crash_in_cpp (libpython_calls.so)")
        self.assertEqual(elsewhere[2:], here[2:])

    def check_unknown(self, python):
        """A version that nobody has described: said, and the rest of the dump is there."""
        process = self.dumped(python.command, "places")
        self.assertIn("Python stacks are missing", process["python"])
        self.assertEqual(process["notes"], [process["python"]])
        self.assertTrue(any("wait_for_file" in text for thread in process["threads"] for text in thread["merged"]))

    @unittest.skipUnless(VENV.exists(), f"no greenlets: {VENV} is missing (scripts/setup)")
    def test_greenlet(self):
        installed = self.place.run([VENV, "-c", "import greenlet"], self.place.env(preload=False))
        if installed.status != 0:
            self.skipTest("greenlet is not in .venv")
        self.frames(self.dumped([VENV], "greenlet"), "inner")


def add(python):
    known = python.minor in KNOWN
    for name in ("places", "subinterpreter", "crash", "overflow") if known else ("unknown",):
        def test(self, name=name):
            getattr(self, "check_" + name)(python)
            print(f"CPython {python.version} ({python.shape}): {name}: tested", flush=True)
        setattr(Python, f"test_{name}_{python.version.replace('.', '_')}_{python.shape}", test)


PYTHONS = interpreters()
for one in some(PYTHONS):
    add(one)

if __name__ == "__main__":
    for minor in missing(PYTHONS):
        print(f"CPython {minor}: missing on this machine, not tested (TITAN_PYTHONS names more)")
    harness.main()
