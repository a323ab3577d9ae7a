#!/usr/bin/env python3
"""The wheel: what is in it, what it needs of a machine, and that it installs and works in an empty environment of each
Python and in bare roots of other distributions.

    test_wheel.py --build DIR [--dist DIR]       DIR with a finished wheel; otherwise scripts/wheel builds one
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("e2e", "")]
import bare_roots  # noqa: E402
import harness  # noqa: E402
import pythons  # noqa: E402

DIST = harness.take_option("--dist", None, pathlib.Path)
MOST_BYTES = 15 << 20
OLDEST_GLIBC = (2, 17)
PROGRAMS = ("titan-analyze", "titan-dump", "titan-run", "titan-top")

# With and without the preload. What the markers leave is tested in tests/unit/python.
USE = """
import sys, titantrace
from titantrace import dump, include, library, step
assert titantrace.active() == (sys.argv[1] == "on"), sys.argv
step(7)
assert open(library(), "rb").read(4) == b"\\x7fELF" and "titan_step" in open(include() + "/titantrace.h").read()
assert dump("from the test") == (sys.argv[1] == "on")
spans_in_c = sys.argv[1] == "on" and object.__basicsize__ == 16  # an object is larger without a GIL
assert type(titantrace.span("forward")).__name__ == ("SpanInC" if spans_in_c else "Span")
print(titantrace.__version__)
"""

# The tests' simulated job: four ranks; when one ends, the others are told to end, as torchrun does.
JOB = """
import os, subprocess, sys
command = [sys.executable, "/mnt/train.py", "--tp", "2", "--steps", "100000", "--step-ms", "2"]
start = lambda rank: subprocess.Popen(command, env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                                                    "WORLD_SIZE": "4"})
ranks = [start(rank) for rank in range(4)]
os.wait()
for rank in ranks: rank.terminate()
for rank in ranks: rank.wait()
sys.exit(1)
"""


def run(*command, status=0, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1800, **options)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: status "
                             f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def plain_environment(place, **settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TITANTRACE", "PYTHON", "LD_"))}
    return {**kept, "TITANTRACE_DIR": str(place / "dumps"), "TITANTRACE_RUN_ID": "wheel", **settings}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="titan-wheel-"))
        dist = DIST or cls.place / "dist"
        if DIST is None:
            run(harness.ROOT / "scripts" / "wheel", "--tarball", "--out", dist)
        machine = os.uname().machine
        cls.version = re.search(r"version: '([\d.]+)'", (harness.ROOT / "meson.build").read_text())[1]
        cls.wheel, = dist.glob(f"titantrace-{cls.version}-py3-none-*_{machine}.whl")
        cls.tarball = dist / f"titantrace-{cls.version}-{machine}.tar.gz"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place, ignore_errors=True)

    def new_place(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.place))

    def check_elf(self, path, machine):
        headers = run("readelf", "-hlSW", path).stdout
        self.assertIn(machine, headers)
        self.assertNotIn(".debug_info", headers)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path).stdout)
        if path.name in PROGRAMS:
            self.assertEqual(needed, [], path.name)
            self.assertNotIn("INTERP", headers)
        else:
            self.assertLessEqual(set(needed), {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})
            versions = re.findall(r"\bUND \w+@GLIBC_([\d.]+)", run("readelf", "--dyn-syms", "-W", path).stdout)
            self.assertTrue(versions)
            self.assertLessEqual(max(tuple(map(int, version.split("."))) for version in versions), OLDEST_GLIBC)

    def test_contents(self):
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        self.assertRegex(self.wheel.name,
                         rf"^titantrace-{self.version}-py3-none-manylinux2014_\w+\.manylinux_2_17_\w+\.whl$")
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            wheel.extractall(self.place / "contents")
        programs = sorted(name for name in names if ".data/scripts/" in name)
        self.assertEqual([pathlib.Path(name).name for name in programs], list(PROGRAMS))
        for name in ("__init__.py", "markers.py", "_version.py", "py.typed", "libtitantrace.so",
                     "_spans.abi3.so", "include/titantrace.h"):
            self.assertTrue(any(path.endswith(f"titantrace/{name}") for path in names), (name, names))
        for name in ("man/man1/titan-analyze.1", "bash-completion/completions/titan-run.bash",
                     "zsh/site-functions/_titan-top", "fish/vendor_completions.d/titan-dump.fish",
                     "titantrace/titan-analyze.schema.json"):
            self.assertTrue(any(path.endswith(f".data/data/share/{name}") for path in names), (name, names))
        machine = {"x86_64": "X86-64", "aarch64": "AArch64"}[os.uname().machine]
        for name in [*programs, *(name for name in names if name.endswith(".so"))]:
            self.check_elf(self.place / "contents" / name, machine)

    def use(self, python, programs, environment, place):
        """The package without and with the preload, its dump, and the reader of that."""
        source = place / "use.py"
        source.write_text(USE)
        rings = {"TITANTRACE_RING_DIR": str(place)}
        environment = {**environment, **rings}
        self.assertEqual(run(*python, source, "off", env=environment, cwd=place).stdout.strip(), self.version)
        ran = run(programs / "titan-run", "--", *python, source, "on",
                  env={**environment, "RANK": "0", "WORLD_SIZE": "1"}, cwd=place)
        self.assertEqual(ran.stdout.strip(), self.version)
        self.assertIn("titan-run: recording; dumps will be in ", ran.stderr)
        self.assertRegex(ran.stderr, r"NOTHING WRONG[\s\S]*newest step: 7")
        self.assertIn("NOTHING WRONG",
                      run(programs / "titan-analyze", place / "dumps", "--ring-dir", place, env=environment).stdout)

    def test_every_python(self):
        found = pythons.interpreters()
        for minor in [minor for minor in pythons.missing(found) if not minor.endswith("t")]:
            print(f"skipped here: no CPython {minor}", flush=True)
        seen = set()
        for python in found:
            if tuple(int(part.strip("t")) for part in python.minor.split(".")) < (3, 9) or python.minor in seen:
                continue
            with self.subTest(python=python.version):
                place = self.new_place()
                made = subprocess.run([*python.command, "-m", "venv", place / "venv"], capture_output=True, text=True)
                if made.returncode != 0:
                    print(f"skipped here: {python.version} makes no environment: {made.stdout.strip()[:100]}",
                          flush=True)
                    continue
                seen.add(python.minor)
                programs = place / "venv" / "bin"
                run(programs / "python", "-m", "pip", "install", "--no-index", "--no-deps",
                    "--disable-pip-version-check", self.wheel)
                for name in PROGRAMS:
                    self.assertIn(self.version, run(programs / name, "--version").stdout)
                self.use([programs / "python"], programs, plain_environment(place), place)
        self.assertTrue(seen)

    def test_simulated_job(self):
        """titan-run of the installed wheel around a job that loses a rank ends with the verdict."""
        place = self.new_place()
        run(sys.executable, "-m", "venv", place / "venv")
        run(place / "venv/bin/python", "-m", "pip", "install", "--no-index", "--no-deps",
            "--disable-pip-version-check", self.wheel)
        stand_ins = harness.BUILD / "tests" / "simgpu"
        environment = plain_environment(place, LD_LIBRARY_PATH=str(stand_ins), SIMGPU_FAULTS="kill rank=2 step=40",
                                        TITANTRACE_RING_DIR=str(place))
        ran = subprocess.run([place / "venv/bin/titan-run", "--", stand_ins / "titan-sim", "--ranks", "4", "--tp", "2",
                              "--steps", "60",
                              "--step-ms", "2", "--timeout-s", "20"], env=environment, capture_output=True, text=True,
                             timeout=120)
        self.assertNotEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr, r"VERDICT  rank_dead[\s\S]*rank 2")
        report = place / "run.html"
        run(place / "venv/bin/titan-analyze", "report", place / "dumps", "--ring-dir", place, "-o", report,
            env=environment)
        self.assertIn("rank_dead", report.read_text(encoding="utf-8"))

    def test_bare_roots(self):
        """In roots with nothing but Python, the oldest and the newest: pip install, and a job that loses a rank ends
        with the verdict."""
        if why := bare_roots.missing():
            self.skipTest(why)
        shared = self.new_place()
        for name, text in (("use.py", USE), ("job.py", JOB),
                           ("train.py", (harness.ROOT / "tests/simgpu/train.py").read_text())):
            (shared / name).write_text(text)
        shutil.copy(self.wheel, shared)
        for suite in bare_roots.SUITES:
            with self.subTest(root=suite):
                root = bare_roots.Root(self.new_place() / suite, shared)
                self.addCleanup(shutil.rmtree, root.path, ignore_errors=True)
                if why := root.make(suite):
                    print(f"skipped here: {why}", flush=True)
                    continue
                if not (shared / "libsimtrain.so").exists():
                    headers = run(harness.ROOT / "scripts" / "find-headers").stdout
                    root.build_stand_ins(harness.ROOT,
                                         *(re.search(rf"{kind}_include=(.*)", headers)[1] for kind in ("cuda", "nccl")))
                self.check_root(root)

    def check_root(self, root):
        root.run("python3", "-m", "venv", "/opt/venv")
        root.run("/opt/venv/bin/pip", "install", "--no-index", "--no-deps", f"/mnt/{self.wheel.name}")
        settings = {"TITANTRACE_DIR": f"/mnt/dumps-{root.path.name}", "TITANTRACE_RUN_ID": "wheel"}
        titan_run, python = "/opt/venv/bin/titan-run", "/opt/venv/bin/python"
        self.assertEqual(root.run(python, "/mnt/use.py", "off", **settings).stdout.strip(), self.version)
        self.assertEqual(root.run(titan_run, "--", python, "/mnt/use.py", "on", RANK="0", WORLD_SIZE="1",
                                  **settings).stdout.strip(),
                         self.version)
        job = root.run(titan_run, "--", python, "/mnt/job.py", status=1, LD_LIBRARY_PATH="/mnt", SIMGPU_DIR="/mnt",
                       SIMTRAIN_STORE="/tmp/meet",
                       SIMGPU_FAULTS="kill rank=2 step=40", **settings)
        self.assertRegex(job.stderr, r"titan-run: the job ended[\s\S]*VERDICT  rank_dead[\s\S]*rank 2")
        shown = root.run(python, "-c", "import os, sys; print(sys.version.split()[0], "
                         "os.confstr('CS_GNU_LIBC_VERSION'))").stdout.strip()
        print(f"{root.path.name}: CPython {shown}", flush=True)

    def test_from_source(self):
        """pip install . by itself, from a clean clone into an empty environment."""
        place = self.new_place()
        run("git", "clone", "-q", harness.ROOT, place / "clone")
        run(sys.executable, "-m", "venv", place / "venv")
        programs = place / "venv" / "bin"
        run(programs / "python", "-m", "pip", "install", "--disable-pip-version-check", ".", cwd=place / "clone")
        for name in PROGRAMS:
            self.assertIn(self.version, run(programs / name, "--version").stdout)
        self.use([programs / "python"], programs, plain_environment(place), place)

    def test_tarball(self):
        place = self.new_place()
        run("tar", "-C", place, "-xf", self.tarball)
        inside, = place.iterdir()
        environment = plain_environment(place)
        for name in PROGRAMS:
            self.assertIn(self.version, run(inside / "bin" / name, "--version").stdout)
        shown = run(inside / "bin" / "titan-run", "--print-env", env=environment).stdout
        self.assertIn(f"LD_PRELOAD={inside}/lib/libtitantrace.so", shown)


if __name__ == "__main__":
    harness.main()
