"""Every script in scripts/ explains itself, refuses what it does not know, and parses."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest


class Scripts(unittest.TestCase):
    root = None

    def scripts(self):
        found = [path for path in sorted((self.root / "scripts").iterdir()) if path.is_file() and not path.suffix]
        self.assertGreaterEqual({path.name for path in found}, {"setup", "test", "demo", "bench", "find-headers"})
        return found

    def run_script(self, path, *arguments):
        return subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=60, check=False)

    def test_help(self):
        for path in self.scripts():
            with self.subTest(path.name):
                ran = self.run_script(path, "--help")
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertIn(f"Usage: scripts/{path.name}", ran.stdout)

    def test_unknown_arguments(self):
        for path in self.scripts():
            with self.subTest(path.name):
                ran = self.run_script(path, "--no-such-option")
                self.assertNotEqual(ran.returncode, 0)
                self.assertNotEqual(ran.stderr + ran.stdout, "")

    def test_every_option_is_explained(self):
        for path in self.scripts():
            text = path.read_text(encoding="utf-8")
            if not text.startswith("#!/usr/bin/env bash"):
                continue
            with self.subTest(path.name):
                options = {word for line in text.splitlines() if line.strip().startswith("--") and ")" in line
                           for word in line.split(")")[0].replace("|", " ").split() if word.startswith("--")
                           and word != "--"}
                shown = self.run_script(path, "--help").stdout
                self.assertEqual([option for option in sorted(options) if option not in shown], [],
                                 f"scripts/{path.name} knows these, and the comment at its top does not explain them")

    def test_syntax(self):
        for path in [*self.scripts(), self.root / ".ci" / "run", self.root / "scripts" / "common.sh"]:
            if "bash" in path.read_text(encoding="utf-8").splitlines()[0]:
                with self.subTest(path.name):
                    self.assertEqual(subprocess.run(["bash", "-n", str(path)], check=False).returncode, 0)

    def test_the_demo_lists_its_faults(self):
        demo, first = self.root / "scripts" / "demo", {(): "spin", ("--pytorch",): "skip"}
        for job, name in first.items():
            ran = self.run_script(demo, *job, "--list")
            self.assertEqual(ran.returncode, 0)
            self.assertTrue(all(len(line.split(None, 1)) == 2 for line in ran.stdout.splitlines()), ran.stdout)
            self.assertEqual(ran.stdout.split()[0], name)
            unknown = self.run_script(demo, *job, "--fault", "no-such-fault")
            self.assertEqual(unknown.returncode, 1)
            self.assertIn(name, unknown.stderr)


# A scripts/test for whose tests a file says what becomes of each, run by run.
STAND_IN = """#!/usr/bin/env python3
import json, os, pathlib, sys
root = pathlib.Path(__file__).resolve().parent.parent
names = sys.argv[sys.argv.index("--") + 1:]
if "--list" in sys.argv:
    print(*(names or ["a", "b", "alone"]), sep="\\n")
    sys.exit()
runs = root / "runs"
number = len(runs.read_text().splitlines()) if runs.exists() else 0
with open(runs, "a") as log:
    print(*names, os.environ.get("TITAN_TEST_SEED", "none"), file=log)
bad = json.loads((root / "bad").read_text())[number]
results = [{"name": "x:s / " + name, "result": "FAIL" if name in bad else "OK"} for name in names]
logs = root / "build" / "meson-logs"
for log, tests in ("others", results[:1]), ("timing", results[1:]):
    (logs / f"{log}-timed.json").write_text("\\n".join(map(json.dumps, tests)))
    (logs / f"{log}-timed.txt").write_text(f"{log} of run {number + 1}\\n")
print(f"{len(names) - len(bad)} passed, {len(bad)} failed")
sys.exit(bool(bad))
"""


class TestOften(unittest.TestCase):
    def often(self, bad, *arguments):
        with tempfile.TemporaryDirectory() as place:
            tree = pathlib.Path(place)
            for directory in ("scripts", "build/meson-logs", "build/meson-info"):
                (tree / directory).mkdir(parents=True)
            shutil.copy(Scripts.root / "scripts" / "test-often", tree / "scripts")
            (tree / "scripts" / "test").write_text(STAND_IN)
            (tree / "scripts" / "test").chmod(0o755)
            (tree / "build" / "meson-info" / "intro-tests.json").write_text(
                json.dumps([{"name": name, "is_parallel": name != "alone"} for name in ("a", "b", "alone")]))
            (tree / "bad").write_text(json.dumps(bad))
            with subprocess.Popen([str(tree / "scripts" / "test-often"), "--no-setup", "--runs", str(len(bad)),
                                   *arguments],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  start_new_session=True) as process:
                ran = subprocess.CompletedProcess(process.args, 0, *process.communicate(timeout=60))
            ran.returncode = process.returncode
            with self.assertRaises(ProcessLookupError, msg="no process of it is left"):
                os.killpg(process.pid, 0)
            logs = {path.name: path.read_text() for path in tree.glob("build/test-often/*/*")}
            orders = [line.split() for line in (tree / "runs").read_text().splitlines()]
        return ran, logs, orders

    def test_no_failure(self):
        ran, logs, orders = self.often([[], []])
        self.assertEqual((ran.returncode, logs, orders), (0, {}, [["a", "b", "alone", "none"]] * 2), ran.stderr)
        self.assertIn("2 runs, 0 failures", ran.stdout)

    def test_failures_are_counted_by_test(self):
        ran, logs, _ = self.often([["b"], [], ["a", "b"]], "--keep-going")
        self.assertEqual((ran.returncode, logs), (1, {
            f"run-{number}.txt": f"others of run {number}\ntiming of run {number}\n" for number in (1, 3)}))
        table = [line.split()[:2] for line in ran.stdout.splitlines() if re.match(r" +\d+/3 ", line)]
        self.assertEqual(table, [["2/3", "b"], ["1/3", "a"]])
        self.assertIn("run 2 of 3: 3 passed, 0 failed", ran.stdout)

    def test_it_stops_at_the_first_failure(self):
        ran, _, orders = self.often([["b"], []])
        self.assertEqual((ran.returncode, len(orders)), (1, 1))
        self.assertIn("1 runs, 1 failures", ran.stdout)

    def test_random_orders_come_again_by_their_seed(self):
        first, again = (self.often([[], [], [], []], "--seed", "5")[2] for _ in range(2))
        self.assertEqual(first, again)
        self.assertEqual([order[-1] for order in first], ["5", "6", "7", "8"])
        self.assertEqual({order[-2] for order in first}, {"alone"}, "it runs after those that run side by side")
        self.assertEqual({tuple(order[:2]) for order in first}, {("a", "b"), ("b", "a")})

    def test_busy_processes_end_with_it(self):
        ran, _, _ = self.often([[]], "--busy", "2", "--busy-nice", "19")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("beside 2 busy processes", ran.stdout)

    def test_an_unknown_test(self):
        ran = subprocess.run([str(Scripts.root / "scripts" / "test-often"), "--no-setup", "--", "no such test"],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("no such test", ran.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    Scripts.root = pathlib.Path(options.root)
    unittest.main(argv=["test_scripts", *rest])
