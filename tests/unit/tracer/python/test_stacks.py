"""Python stacks read against what each CPython says of itself, and against programs that never rest.

    test_stacks.py --pystacks PROGRAM [--inside LIBRARY] [unittest arguments]

The oldest and the newest CPython that is found is tested, every one where $TITAN_NIGHTLY is set, and those that are not
are named: pyenv's versions, those on PATH, and the commands in $TITAN_PYTHONS, separated by semicolons (get_pythons.py
brings newer ones and sets it; one built without the GIL must be built by hand).
"""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))
from pythons import KNOWN, interpreters, missing, some  # noqa: E402
PYSTACKS = INSIDE = None
LIBC = ctypes.CDLL(None)
UNMARKED = ("3.9", "3.10", "3.11")
TAIL_CALLS = ("3.14", "3.14t", "3.15")  # may be built so, from 3.14 on


def pystacks(*arguments):
    done = subprocess.run([PYSTACKS, *map(str, arguments)], capture_output=True, timeout=300)
    assert done.returncode == 0, f"pystacks {arguments}: {done.returncode} {done.stderr.decode()}"
    return json.loads(done.stdout.decode("utf-8"))


def let_siblings_read():
    """Yama's ptrace_scope 1 lets only ancestors read a process: this one may be read by any of its user's."""
    PR_SET_PTRACER, ANYONE = 0x59616d61, ctypes.c_ulong(-1)
    LIBC.prctl(PR_SET_PTRACER, ANYONE, 0, 0, 0)


class Program:
    """blocked_program.py under a file name that is not ASCII, with its own word on where its threads stand."""

    def __init__(self, python, *arguments, environment=None):
        self.directory = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.directory.name) / "größe_文件_🐍.py"
        shutil.copy(HERE / "blocked_program.py", path)
        self.process = subprocess.Popen([*python.command, str(path), *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=let_siblings_read,
                                        env={**os.environ, "PYTHONUTF8": "1", **(environment or {})})
        self.pid = self.process.pid

    def __enter__(self):
        line = self.process.stdout.readline()
        assert line, "the program ended before it was ready"
        self.says = json.loads(line)
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.directory.cleanup()


class Stacks(unittest.TestCase):
    """One test per CPython is added below."""

    maxDiff = 4000

    def compare(self, python):
        with Program(python) as program:
            seen = pystacks(program.pid)
            self.assertEqual("found", seen["search"], seen)
            self.assertEqual(python.minor.endswith("t"), bool(seen["free_threaded"]))
            self.assertEqual(python.minor.rstrip("t"), f"{seen['version'] >> 24}.{seen['version'] >> 16 & 255}")
            self.assertTrue(seen["this_thread"])
            self.assertFalse(seen["torn"])
            by_ident = {t["pthread"]: t for t in seen["threads"]}
            for thread in program.says["threads"]:
                with self.subTest(thread=thread["kind"]):
                    self.compare_thread(python, thread, by_ident[thread["ident"]])
            main_ident, main_native = program.says["main"]
            main = by_ident[main_ident]
            self.assertEqual("main", main["frames"][0]["name"])
            self.assertEqual("<module>", main["frames"][-1]["name"])
            self.assertEqual(main_native, main["native"])
            subs = [t for t in seen["threads"] if t["interpreter"] != 0 and t["frames"]]
            if program.says["extra"]["subinterpreter"] == "tested":
                self.assertEqual([["in_sub", 3], ["<module>", 4]], [[f["name"], f["line"]] for f in subs[0]["frames"]])
            self.check_cut(program)
            nameless = pystacks("--unnamed", program.pid)
            self.assertEqual(("found", seen["version"]), (nameless["search"], nameless["version"]), nameless)
            frames = sum(len(t["frames"]) for t in seen["threads"])
            return f"{len(program.says['threads'])} threads, {frames} frames, " \
                   f"found in {seen['find_us']} us; " + ", ".join(f"{k}: {v}" for k, v in program.says["extra"].items())

    def compare_thread(self, python, thread, seen):
        self.assertEqual(thread["native"], seen["native"])
        self.assertEqual(0, seen["cut"])
        said = [{"file": f[0], "name": f[1], "line": f[2], "first": f[3]} for f in thread["frames"]]
        read = [{key: f[key] for key in ("file", "name", "line", "first")} for f in seen["frames"]]
        if not thread["blocked"]:  # it runs on: its line is one of its loop's
            self.assertIn(read[0]["line"] - said[0]["first"], (2, 3, 4))
            read[0]["line"] = said[0]["line"]
        self.assertEqual(said, read)
        self.assertTrue(seen["frames"][-1]["entry"], "the outermost frame ends a native run")
        if python.minor in ("3.9", "3.10"):
            self.assertTrue(all(f["entry"] for f in seen["frames"]))
        elif thread["kind"] == "recursion":
            self.assertFalse(any(f["entry"] for f in seen["frames"] if f["name"] == "recursion"),
                             "all in one native run")

    def check_cut(self, program):
        short = pystacks(program.pid, 5)
        deep = [t for t in short["threads"] if t["cut"] == 1]
        self.assertTrue(deep, "300 frames do not fit into 5")
        self.assertTrue(all(len(t["frames"]) == 5 for t in deep))

    def gil(self, python):
        """A thread in a C call that keeps the GIL, and one in a call that gives it back."""
        for library, holds in (("PyDLL", not python.minor.endswith("t")), ("CDLL", False)):
            program = f"import ctypes; library = ctypes.{library}(None); print(flush=True); library.sleep(60)"
            with subprocess.Popen([*python.command, "-c", program], stdout=subprocess.PIPE,
                                  preexec_fn=let_siblings_read) as process:
                try:
                    process.stdout.readline()
                    for _ in range(100):
                        time.sleep(0.02)
                        seen = pystacks(process.pid)["threads"]
                        if [bool(t["holds_gil"]) for t in seen] == [holds]:
                            break
                    self.assertEqual([holds], [bool(t["holds_gil"]) for t in seen], library)
                finally:
                    process.kill()
        return "the holder of the GIL is known" if not python.minor.endswith("t") else "has no GIL"

    def churn(self, python):
        with Program(python, "churn") as program:
            for _ in range(3):
                seen = pystacks("--loop", program.pid, 250)
                if seen["search"] == "found":
                    break
            self.assertEqual("found", seen["search"], seen)
            self.assertGreater(seen["frames"], seen["times"])
            self.assertIsNone(program.process.poll(), "the program does not notice")
            return (f"{seen['frames']} frames, {seen['torn_walks']} of {seen['threads']} walks torn, "
                    f"{seen['gone']} code objects gone, {seen['torn_lists']} lists torn, longest {seen['longest_us']} "
                    f"us")

    def inside(self, python):
        """The tracer's own way: walks on the calling thread and in its signal handlers, with the native stack as
        witness."""
        asked = subprocess.run([*python.command, str(HERE / "inside_program.py"), INSIDE], capture_output=True,
                               text=True,
                               timeout=120, env={**os.environ, "PYTHONUTF8": "1"})
        if "_ctypes" in asked.stderr:
            return "no ctypes, not tested"
        self.assertEqual(0, asked.returncode, asked.stderr)
        says = json.loads(asked.stdout)
        self.assertNotIn("refused", says)
        for name in ("plain", "through_c"):
            self.assertEqual(says[name]["expected"], says[name]["seen"])
            marked = 0 if python.minor in UNMARKED else says[name]["runs"]
            self.assertEqual((marked, marked), (says[name]["all_marks"], says[name]["marks"]))
            # An interpreter built of tail calls has no frames of _PyEval_EvalFrameDefault to count.
            if python.minor not in TAIL_CALLS or says[name]["native_runs"] != 0:
                self.assertEqual((says[name]["runs"], marked), (says[name]["native_runs"], says[name]["marks_in_runs"]))
        self.assertEqual([], says["signals"]["bad"], says)
        self.assertLessEqual(says["signals"]["torn"], 20, says)  # of 2,000
        return ("20 frames in {direct_ns:.0f} ns, with system calls in {safe_ns:.0f} ns, "
                "page by page in {paged_ns:.0f} ns").format(**says["bench"])

    def refuse(self, python):
        with subprocess.Popen([*python.command, "-c", "import sys; print(flush=True); sys.stdin.read()"],
                              stdin=subprocess.PIPE, preexec_fn=let_siblings_read,
                              stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            seen = pystacks(process.pid)
            process.stdin.close()
        self.assertEqual(("refused", f"CPython {python.minor} is not known"), (seen["search"], seen["reason"]))
        return seen["reason"]

    def test_no_python(self):
        with subprocess.Popen(["sleep", "100"], preexec_fn=let_siblings_read) as process:
            seen = pystacks(process.pid)
            process.kill()
        self.assertEqual(("no python", "no Python in this process"), (seen["search"], seen["reason"]))

    def test_coming_and_going(self):
        """Processes that start Python and end: whatever moment it is, there is an answer."""
        answers, reasons = collections.Counter(), collections.Counter()
        for python in PYTHONS:
            for moment in range(12):
                with subprocess.Popen([*python.command, "-c", "import json, threading"],
                                      preexec_fn=let_siblings_read) as process:
                    time.sleep(moment * 0.004)
                    while process.poll() is None:
                        seen = pystacks(process.pid)
                        answers[seen["search"]] += 1
                        reasons.update([seen["reason"]] if seen["search"] == "refused" else [])
        print(f"coming and going: {dict(answers)} {dict(reasons)}", flush=True)
        self.assertEqual(set(), set(answers) - {"found", "not started", "no python", "refused", "denied"})
        self.assertGreater(answers["found"], 10)
        self.assertLess(answers["refused"], answers["found"])

    def test_no_process(self):
        self.assertEqual("denied", pystacks(2 ** 22 + 1)["search"])

    def test_stopped(self):
        """A stopped process is read like a running one."""
        python = PYTHONS[-1]
        with Program(python) as program:
            os.kill(program.pid, 19)
            seen = pystacks(program.pid)
            os.kill(program.pid, 18)
        self.assertEqual("found", seen["search"], seen)


def add(python):
    for name in ("compare", "churn", "gil") + (("inside",) if INSIDE else ()) if python.minor in KNOWN else ("refuse",):
        def test(self, name=name):
            print(f"{python.version} {python.shape}: {name}: {getattr(self, name)(python) or 'ok'}", flush=True)
        setattr(Stacks, f"test_{name}_{python.version.replace('.', '_')}_{python.shape}", test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pystacks", required=True)
    parser.add_argument("--inside")
    options, rest = parser.parse_known_args()
    PYSTACKS, INSIDE = options.pystacks, options.inside
    found = interpreters()
    PYTHONS = some([python for python in found if python.minor in KNOWN])
    for python in found:
        if python in PYTHONS or python.minor not in KNOWN:
            add(python)
        else:
            print(f"CPython {python.version} {python.shape}: tested at night")
    for wanted in missing(found):
        print(f"CPython {wanted}: missing on this machine, not tested (TITAN_PYTHONS names more)")
    unittest.main(argv=[sys.argv[0], *rest])
