#!/usr/bin/env python3
"""The aarch64 build, by the compiler and the libraries of its wheel: unit tests, formats, and simulated jobs, under
qemu-user.

    test_aarch64.py --build DIR [--cross DIR]       DIR: a build for aarch64 that is there already

Programs of aarch64 run as if they were this machine's: in a user namespace of the test, the kernel starts qemu for them
(binfmt_misc).
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

CROSS = harness.take_option("--cross", None, pathlib.Path)
MESON = harness.ROOT / "build-wheel-tools" / "bin" / "meson"  # the wheel's own
QEMU = "/usr/bin/qemu-aarch64-static"
MAGIC = (r":qemu-aarch64:M::\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00:"
         + r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff:")
ENTER = f"""
set -e
mount -t binfmt_misc binfmt /proc/sys/fs/binfmt_misc
printf '%s' '{MAGIC}{QEMU}:FP' >/proc/sys/fs/binfmt_misc/register
exec "$@"
"""
FOREIGN = ["unshare", "--user", "--map-root-user", "--mount", "--fork", "sh", "-c", ENTER, "sh"]

# What qemu-user 7.2 cannot do, by test: the program and its arguments, the cases that are left out, and why. All else
# runs. It has no ptrace either ("tracer killed" says so itself), so that no stack is taken from outside.
START = "a process is told another start time of its own than others see of it: peers take each other for dead"
JOB_PARTS = {1: ["--last=3"], 2: ["--first=4", "--last=6"], 3: ["--first=7", "--last=9"], 4: ["--first=10"]}
LIMITS = {
    "analyzer": ("unit/analyzer/analyzer-test", [], ["a directory of another user is said to be one*"],
                 "the user namespace has root alone"),
    "gpu progress writes": ("unit/tracer/gpu/test_tracer_gpu", ["--order-by=file"],
                            ["marks are made in the stream's own context",
                             "what one context has queued survives the end of another",
                             "rows of contexts that have ended are used again"], "mremap with an old size of zero"),
    "tracer cold": ("unit/tracer/cold/unit_tracer_cold", ["--source-file-exclude=*job_test.cpp,*watch_test.cpp"],
                    ["dead rings go when they are old or too many*"], START),
    **{f"tracer cold job {part}": (
        "unit/tracer/cold/unit_tracer_cold", ["--source-file=*job_test.cpp", *cases_of_part],
        ["one rank of the node is asked*", "a job that ends in order leaves nothing",
         "a rank that is killed is noticed*",
         "a crash of one rank dumps all*", "the page of an earlier run of the same name does not speak",
         "another node hears of a dump through the dump directory"], START)
       for part, cases_of_part in JOB_PARTS.items()},
    "tracer python": ("unit/tracer/python/unit_tracer_python", [], ["where process_vm_readv is refused*"],
                      "seccomp filters"),
}
OF_THIS_MACHINE = {"tracer python layouts": "compiles with this machine's Python headers, which are not aarch64's"}


def missing():
    """Why nothing of aarch64 can run here; empty: it can."""
    if not os.path.exists(QEMU):
        return "no qemu-aarch64-static (scripts/setup --wheel installs it)"
    tried = subprocess.run([*FOREIGN, "true"], capture_output=True, text=True)
    return f"no binfmt_misc of a namespace's own: {tried.stderr.strip()}" if tried.returncode != 0 else ""


@unittest.skipIf(missing(), missing())
class Aarch64(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = (CROSS or harness.ROOT / "build-aarch64").resolve()
        if CROSS is None:
            cls.make()

    @classmethod
    def make(cls):
        cls.run_command(harness.ROOT / "scripts" / "wheel", "--arch", "aarch64", "--prepare")
        sources = harness.ROOT / "build-wheel-sources"
        arguments = (sources / "aarch64.arguments").read_text().split("\n")[:-1]
        runs_here = sources / "runs-here.ini"
        runs_here.write_text("[properties]\nneeds_exe_wrapper = false\n")
        if not (cls.build / "build.ninja").exists():
            cls.run_command(*FOREIGN, MESON, "setup", cls.build, harness.ROOT, *arguments, f"--cross-file={runs_here}",
                            "-Dbenchmarks=false")

    @staticmethod
    def run_command(*command, status=0, env=None):
        done = subprocess.run([str(word) for word in command], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=5400)
        if status is not None and done.returncode != status:
            raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-6000:]}")
        return done.stdout

    def meson_test(self, *arguments):
        return self.run_command(*FOREIGN, MESON, "test", "-C", self.build, "--no-rebuild", "--timeout-multiplier",
                                "10", *arguments, status=None)

    def introspect(self, what):
        return json.loads((self.build / "meson-info" / f"intro-{what}.json").read_text())

    def make_targets(self, *targets):
        """By the ninja of that meson: those of two versions do not know each other's work."""
        self.run_command(*FOREIGN, MESON.with_name("ninja"), "-C", self.build,
                         *(os.path.relpath(target, self.build) for target in targets))

    def test_unit_and_formats(self):
        tests = self.introspect("tests")
        names = [test["name"] for test in tests if {"titantrace:unit", "titantrace:formats"} & set(test["suite"])]
        self.assertLessEqual({*LIMITS, *OF_THIS_MACHINE}, set(names))
        files = {target["id"]: target["filename"] for target in self.introspect("targets")}
        self.make_targets(*{file for test in tests if test["name"] in names for target in test["depends"]
                            for file in files[target]})
        for name, why in OF_THIS_MACHINE.items():
            print(f"skipped here: {name}: {why}", flush=True)
        said = self.meson_test("--print-errorlogs",
                               *(name for name in names if name not in LIMITS and name not in OF_THIS_MACHINE))
        results = re.findall(r"titantrace:(.*?) +(OK|FAIL|SKIP|TIMEOUT|ERROR)\b", said)
        self.assertEqual(len({name for name, _ in results}), len(names) - len(LIMITS) - len(OF_THIS_MACHINE),
                         said[-6000:])
        self.assertEqual([(name, result) for name, result in results if result not in ("OK", "SKIP")], [], said[-6000:])
        for name, (program, options, cases, why) in LIMITS.items():
            with self.subTest(name):
                print(f"skipped here: {name}: {', '.join(cases)}: {why}", flush=True)
                method = {"TITANTRACE_GPU_PROGRESS": "writes"} if name.startswith("gpu") else {}
                self.run_command(*FOREIGN, self.build / "tests" / program, *options,
                                 "--test-case-exclude=" + ",".join(cases), env={**os.environ, **method})

    def test_simulated_job(self):
        """Two hosts of one rank: titan-run, the preload, the request from host to host, the dumps and the verdict are
        aarch64's."""
        self.make_targets(*(self.build / target
                            for target in ("interpose/libtitantrace.so", "tools/titan-run", "analyzer/titan-analyze",
                                           "tests/simgpu/titan-sim", "tests/simgpu/libcuda.so.1")))
        place = harness.Place()
        self.addCleanup(place.close)
        for host in "01":
            (place.rings / f"host-{host}").mkdir()
        env = place.env(preload=False, LD_LIBRARY_PATH=self.build / "tests" / "simgpu",
                        TITANTRACE_RING_DIR=place.rings / "host-%h",
                        SIMGPU_FAULTS="spin rank=1 step=20")
        job = place.run([*FOREIGN, self.build / "tools" / "titan-run", "--timeout", 4, "--",
                         self.build / "tests" / "simgpu" / "titan-sim", "--ranks", 2,
                         "--tp", 2, "--hosts", 2, "--steps", 100000, "--step-ms", 2, "--timeout-s", 20], env, 60)
        self.assertEqual(job.status, 124, job.report())
        self.assertEqual(place.dumped_ranks(), {0, 1}, job.report())
        self.assertRegex(job.stderr, r"VERDICT  rank_not_arrived[\s\S]*rank 1 ")


if __name__ == "__main__":
    harness.main()
