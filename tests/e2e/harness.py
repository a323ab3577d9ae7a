"""What all end-to-end tests share: a directory of their own, the preload, jobs that end with the test, and the
analyzer.

    test_x.py --build DIR [unittest arguments]       run by hand, e.g. with -v or a test's name

A test that fails prints every command that it ran, its status and what it said.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import nightly  # noqa: E402
from nightly import at_night  # noqa: E402, F401

BUILD = None
SLOW = 1  # what times are multiplied by: sanitizers take their time
PATIENCE = 3  # multiplies every limit: tests give the limits of an idle machine, and this one may be busy

RINGS = {}  # settings of their sizes
# Half of the default ones, for files whose jobs make a few thousand calls at most: each process makes its ring, each
# dump and each report reads it.
SMALL_RINGS = {"TITANTRACE_COLLECTIVES": "4096", "TITANTRACE_STREAM_WORK": "2048", "TITANTRACE_CUDA_CALLS": "1024"}

HEALTHY, FINDINGS, UNUSABLE = 0, 1, 2
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID",
                  "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "TORCHELASTIC_RUN_ID", "LD_PRELOAD",
                  "LD_LIBRARY_PATH")


def tracer():
    return BUILD / "interpose" / "libtitantrace.so"


def stand_ins():
    return BUILD / "tests" / "simgpu"


def client(name):
    return BUILD / "tests" / "e2e" / name


def wait_for(condition, limit_s, what):
    """Polls until condition() is true and returns that; fails the test otherwise."""
    limit_s *= SLOW * PATIENCE
    deadline = time.monotonic() + limit_s
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}")
        # A condition may run programs, beside a job that needs the processors itself.
        time.sleep(max(0.02, 3 * (time.monotonic() - asked)))


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # gone, or gone between open and read
        return False


def threads_of(pid):
    """Names of a process' threads."""
    names = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return sorted(names)


class Ran:
    """A command that was started; its output goes to files, so that no pipe can fill up."""

    def __init__(self, place, argv, env, cwd, **options):
        self.argv = [str(word) for word in argv]
        self.changed = {k: v for k, v in env.items() if os.environ.get(k) != v}
        number = len(list(place.glob("ran-*.out")))
        self._out, self._err = place / f"ran-{number}.out", place / f"ran-{number}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            start = options.pop("by", subprocess.Popen)
            self.process = start(self.argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 start_new_session=True, **options)
        self.pid = self.process.pid

    @property
    def stdout(self):
        return self._out.read_text(errors="replace")

    @property
    def stderr(self):
        return self._err.read_text(errors="replace")

    @property
    def status(self):
        return self.process.poll()

    def wait(self, limit_s=30):
        limit_s *= SLOW * PATIENCE
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit_s} s: {shlex.join(self.argv)}") from None

    def wait_says(self, text, limit_s=20):
        wait_for(lambda: text in self.stdout or self.status is not None, limit_s,
                 f"'{text}' from {shlex.join(self.argv)}")
        if text not in self.stdout:
            raise AssertionError(f"ended with {self.status} before it said '{text}'")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """Softly first, so that titan-sim cleans up; then everything in the process group."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.pid, signal.SIGKILL)  # the group is ours: start_new_session
        except (ProcessLookupError, PermissionError):
            pass
        self.process.wait()

    def report(self):
        settings = " ".join(f"{k}={shlex.quote(v)}" for k, v in sorted(self.changed.items()))
        return (f"$ {settings} {shlex.join(self.argv)}\nstatus {self.process.poll()}\n"
                f"--- stdout\n{self.stdout[-6000:]}\n--- stderr\n{self.stderr[-6000:]}")


Analysis = collections.namedtuple("Analysis", "status json stdout stderr")


class Place:
    """A directory with rings, dumps and temporary files, and what runs in it."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="titan-e2e-"))
        self.rings = pathlib.Path(tempfile.mkdtemp(prefix="titan-e2e-", dir="/dev/shm"))  # memory, as in real jobs
        self.dumps, self.tmp, self.meet = (self.path / name for name in ("dumps", "tmp", "meet"))
        for directory in (self.dumps, self.tmp, self.meet):
            directory.mkdir()
        self.ran = []

    def env(self, preload=True, **settings):
        """Only what a test says reaches the program. A setting of None is removed."""
        env = {k: v for k, v in os.environ.items()
               if k not in RANK_VARIABLES and not k.startswith(("TITANTRACE", "SIMGPU_"))}
        env.update(LD_LIBRARY_PATH=str(stand_ins()), TMPDIR=str(self.tmp), TITANTRACE_DIR=str(self.dumps),
                   TITANTRACE_RING_DIR=str(self.rings), TITANTRACE_RUN_ID="e2e", E2E_MEET=str(self.meet),
                   PYTHONDONTWRITEBYTECODE="1")
        if preload:
            env["LD_PRELOAD"] = str(tracer())
        env.update(RINGS)
        env.update({k: str(v) for k, v in settings.items() if v is not None})
        for name in [k for k, v in settings.items() if v is None]:
            env.pop(name, None)
        return env

    def start(self, argv, env=None, **options):
        started = Ran(self.path, argv, env or self.env(), options.pop("cwd", self.path), **options)
        self.ran.append(started)
        return started

    def run(self, argv, env=None, limit_s=30, **options):
        started = self.start(argv, env, **options)
        started.wait(limit_s)
        return started

    def tool(self, name, *arguments, status=None):
        """One of our own programs, without the preload; `status` is the one that it must end with."""
        room = "analyzer" if name == "titan-analyze" else "tools"
        done = self.run([BUILD / room / name, *arguments], self.env(preload=False))
        if status not in (None, done.status):
            raise AssertionError(f"status {done.status}, not {status}: {done.stdout}{done.stderr}")
        return done

    def sim(self, *options, **settings):
        """A simulated job with the preload that ends well."""
        done = self.run([stand_ins() / "titan-sim", *options], self.env(**settings))
        if done.status != 0:
            raise AssertionError(f"titan-sim ended with {done.status}: {done.stderr}")
        return done

    def start_rank(self, program, scenario, rank=0, size=1, **settings):
        """A program of clients/ as one rank of a job."""
        identity = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        return self.start([client(program), scenario], self.env(**{**identity, **settings}))

    def run_rank(self, program, scenario, **settings):
        started = self.start_rank(program, scenario, **settings)
        started.wait()
        return started

    def start_ranks(self, program, scenario, size, **settings):
        return [self.start_rank(program, scenario, rank, size, **settings) for rank in range(size)]

    def go(self, name="go"):
        """What the programs of clients/ wait for."""
        (self.meet / name).touch()

    def analyze(self, *arguments, limit_s=60):
        """titan-analyze --json, with this place's rings as those of the node. On a busy machine simulated GPUs are
        slow: that is no finding here."""
        done = self.run([BUILD / "analyzer" / "titan-analyze", *arguments, "--json", "--ring-dir", self.rings,
                         "--slow-percent", "100"], self.env(preload=False), limit_s)
        parsed = json.loads(done.stdout) if done.stdout.startswith("{") else None
        return Analysis(done.status, parsed, done.stdout, done.stderr)

    def show(self, *arguments, starting=False):
        """Recorded calls as dictionaries. Of a job that is starting: none while its rings are there but not yet to be
        read."""
        done = self.tool("titan-analyze", "show", *arguments, "--json", "--ring-dir", self.rings)
        if done.status != 0 and not (starting and done.status in (FINDINGS, UNUSABLE)):
            raise AssertionError(f"titan-analyze show: status {done.status}: {done.stderr}")
        if done.status == UNUSABLE:
            return []
        return [json.loads(line) for line in done.stdout.splitlines()]

    def settings(self):
        """{name: [(value, ranks)]}, as the dumps tell."""
        done = self.tool("titan-analyze", "layout", self.dumps, "--config", "--json", "--no-rings")
        told = {}
        for row in json.loads(done.stdout)["settings"]:
            told.setdefault(row["name"], []).append((row["value"], row["ranks"]))
        return told

    def stacks(self, *arguments):
        """Processes with the stacks of their threads, by rank."""
        done = self.tool("titan-analyze", "stacks", self.dumps, "--json", "--no-rings", *arguments)
        if done.status != 0:
            raise AssertionError(f"titan-analyze stacks: status {done.status}: {done.stderr}")
        return json.loads(done.stdout)["processes"]

    def dump_files(self, run="e2e", attempt=0):
        return sorted((self.dumps / run / str(attempt)).glob("*.titan"))

    def dumped_ranks(self, run="e2e"):
        return {int(path.name[4:9]) for path in self.dump_files(run) if path.name.startswith("rank")}

    def export(self, into, *options, dumps=None):
        """What titantrace.export writes as files of PyTorch's Flight Recorder."""
        return self.run([sys.executable, "-m", "titantrace.export", "--titan-analyze",
                         BUILD / "analyzer" / "titan-analyze", "--flight-recorder", into, *options,
                         dumps or self.dumps], self.env(preload=False, PYTHONPATH=ROOT / "python"))

    def ring_files(self):
        return sorted(self.rings.glob("titantrace-*/*.ring"))

    def traces(self):
        """Everything that the tracer left in this place."""
        tops = {"rings": self.rings, "dumps": self.dumps, "tmp": self.tmp}
        return sorted(f"{name}/{path.relative_to(top)}" for name, top in tops.items() for path in top.rglob("*"))

    def close(self):
        for started in self.ran:
            started.end()
        for name in os.listdir("/dev/shm"):
            # What a launcher that was killed could not clean up.
            if any(name.startswith(f"simgpu-{os.getuid()}-{started.pid}-") for started in self.ran):
                os.unlink(f"/dev/shm/{name}")
        for directory in (self.path, self.rings):
            shutil.rmtree(directory, ignore_errors=True)


class Case(unittest.TestCase):
    maxDiff = None

    def run(self, result=None):
        """Each test has a place; the commands of a failed one are its story."""
        result = result if result is not None else self.defaultTestResult()
        failed = lambda: any(getattr(test, "test_case", test) is self for test, _ in result.failures + result.errors)
        self.places = []
        self.place = self.new_place()
        try:
            super().run(result)
            if failed():
                self.tell_story()
        finally:
            for place in self.places:
                place.close()
        return result

    def new_place(self):
        self.places.append(Place())
        return self.places[-1]

    def tell_story(self):
        print(f"\n===== {self.id()} failed; it ran:", file=sys.stderr)
        for place in self.places:
            for started in place.ran:
                print(started.report(), file=sys.stderr)
            print("files:", *place.traces(), sep="\n  ", file=sys.stderr)

    def assert_healthy(self, analysis):
        """Nothing was found in a job that steps in earnest. Where processes want more processors than there are, one of
        its ranks may be late by chance: that may be said, and not for certain."""
        findings = analysis.json["findings"]
        if max(os.getloadavg()[0], len(analysis.json["run"]["ranks"])) > os.cpu_count():
            findings = [finding for finding in findings
                        if finding["kind"] != "straggler" or finding["confidence"] == "certain"]
        self.assertEqual(findings, [], analysis.stdout)
        self.assertEqual(analysis.status, FINDINGS if analysis.json["findings"] else HEALTHY)

    def paste_what_is_next(self, place, report, env, **options):
        """Runs each line under "What next" of a report, as it stands, in a shell: a command shows something, advice
        nothing. Returns what they printed, by line. whatif says with its status what the verdict said of its replay."""
        section = report.partition("What next\n")[2].partition("\n\n")[0]
        lines = re.findall(r"(?m)^  \S.*", section)
        commands = [line for line in lines if not line.startswith("  # ")]
        self.assertTrue(commands, report)
        still_waits = "would still wait" in " ".join(report.split())
        printed = {}
        for line in lines:
            pasted = place.run(["bash", "-c", line], env, **options)
            status = FINDINGS if still_waits and "titan-analyze whatif" in line else HEALTHY
            # What crashes may do so in the moment in which it creates its journal.
            said = re.sub(r"(?m)^titan-analyze: \S+\.journal: empty file: .*\n", "", pasted.stderr)
            self.assertEqual((pasted.status, said), (status, ""), line)
            self.assertEqual(bool(pasted.stdout), line in commands, line)
            printed[line] = pasted.stdout
        return printed

    def same_but_for_the_tracer(self, argv, **settings):
        """Runs a program with and without the preload: same status, same stdout. Returns the traced one."""
        plain = self.place.run(argv, self.place.env(preload=False, **settings))
        traced = self.place.run(argv, self.place.env(**settings))
        self.assertNotEqual(plain.stdout, "")
        self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout))
        return traced


class AtOnce(unittest.TestSuite):
    """Some tests of a file at the same time, for those that mostly wait."""

    workers = 1

    def run(self, result, debug=False):
        cases = [case for group in self for case in (group if isinstance(group, unittest.TestSuite) else [group])]
        from concurrent.futures import ThreadPoolExecutor  # dear to import
        with ThreadPoolExecutor(self.workers) as pool:
            for done in [pool.submit(case, result) for case in cases]:
                done.result()
        return result


class Loader(unittest.TestLoader):
    """With TITAN_TEST_SEED the tests of a file in the order of that seed (scripts/test-often)."""

    def getTestCaseNames(self, testCaseClass):
        names = list(super().getTestCaseNames(testCaseClass))
        if seed := os.environ.get("TITAN_TEST_SEED"):
            random.Random(seed).shuffle(names)
        return names


SKIPPED = 77  # what meson takes for a skipped test


class Result(unittest.TextTestResult):
    """Says which tests were skipped, and why, in lines that scripts/test-tally looks for."""

    passed = 0
    at_night = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if reason == nightly.REASON:
            self.at_night += 1
            return
        first_line = reason.partition("\n")[0]
        print(f"skipped here: {test.id().removeprefix('__main__.')}: {first_line}", flush=True)


class Runner(unittest.TextTestRunner):
    resultclass = Result


def take_option(option, otherwise, kind=int):
    """A test file's own option, taken off the command line before unittest sees it."""
    if option not in sys.argv:
        return otherwise
    place = sys.argv.index(option)
    value = kind(sys.argv[place + 1])
    del sys.argv[place:place + 2]
    return value


def main(at_once=1, rings=RINGS):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="meson's build directory")
    parser.add_argument("--slow", type=float, default=1, help="what limits of time are multiplied by")
    options, rest = parser.parse_known_args()
    global BUILD, SLOW, RINGS
    BUILD, SLOW, RINGS = pathlib.Path(options.build).resolve(), options.slow, rings
    loader = Loader()
    if at_once > 1:
        AtOnce.workers = at_once
        loader.suiteClass = AtOnce
    result = unittest.main(module="__main__", argv=[sys.argv[0], *rest], testLoader=loader, testRunner=Runner,
                           exit=False).result
    if result.at_night:
        print(f"skipped here: {result.at_night} of {result.testsRun} tests: {nightly.REASON}", flush=True)
    if result.wasSuccessful() and result.skipped and result.passed == 0:
        print(result.skipped[0][1], file=sys.stderr)  # scripts/test-tally takes the last line for the reason
        sys.exit(SKIPPED)
    sys.exit(0 if result.wasSuccessful() else 1)
