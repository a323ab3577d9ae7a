"""scripts/test-tally: the closing line is what CI reads, so it must never call a bad run good."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest


class Tally(unittest.TestCase):
    root = None

    def tally(self, results, status=0, *options):
        lines = [json.dumps({"name": f"t{i}", "result": result, "stdout": out, "duration": 10.0 * i,
                             "stderr": f"processor: {i}.5 0.25\n"})
                 for i, (result, out) in enumerate(results)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            log.write("\n".join(lines))
            log.flush()
            ran = subprocess.run([str(self.root / "scripts" / "test-tally"), *options, str(status),
                                  log.name, "/no/log"],
                                 capture_output=True, text=True)
        return ran.returncode, ran.stdout.splitlines()

    def test_all_good(self):
        status, lines = self.tally([("OK", ""), ("EXPECTEDFAIL", "")])
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed"))

    def test_skips_say_why(self):
        status, lines = self.tally([("OK", ""), ("SKIP", "x\nno torch in .venv\n")])
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: t1: no torch in .venv", lines)

    def test_skips_inside_a_file_that_passed(self):
        status, lines = self.tally([("OK", "skipped here: A.test_b: not root\n")])
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))
        self.assertIn("skipped in t0: A.test_b: not root", lines)

    def test_a_file_in_which_nothing_ran_is_skipped(self):
        for body, status, said in (('self.skipTest("no GPU")', 77, "skipped here: A.test_b: no GPU"), ("pass", 0, ""),
                                   ("self.fail()", 1, "")):
            with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
                file.write(f"import sys; sys.path.insert(0, {str(self.root / 'tests' / 'e2e')!r})\nimport unittest, "
                           f"harness\n"
                           f"class A(unittest.TestCase):\n    def test_b(self): {body}\nharness.main()\n")
                file.flush()
                ran = subprocess.run([sys.executable, file.name, "--build", "/"], capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stdout.strip()), (status, said), ran.stderr)

    def test_failures(self):
        for result in ("FAIL", "TIMEOUT", "ERROR", "UNEXPECTEDPASS", "INTERRUPT", "SOMETHING_NEW"):
            status, lines = self.tally([("OK", ""), (result, "")], 1)
            self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"), result)

    def test_a_status_without_a_failed_test(self):
        status, lines = self.tally([("OK", "")], 130)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))

    def test_times_come_longest_first(self):
        status, lines = self.tally([("OK", ""), ("OK", "")], 0, "--times")
        self.assertEqual((status, [line.split() for line in lines[-4:-1]]),
                         (0, [["10.0", "s", "1.8", "s", "t1"], ["0.0", "s", "0.8", "s", "t0"],
                              ["10.0", "s", "2.5", "s", "all"]]))
        self.assertEqual(lines[-1], "2 passed, 0 failed")

    def test_times_say_what_a_test_counted(self):
        printed = "seed 4\ncounted: 1000 kills, seed 4: 999 right\n"
        self.assertIn("1000 kills, seed 4: 999 right",
                      [line.strip() for line in self.tally([("OK", printed)], 0, "--times")[1]])
        self.assertNotIn("kills", "".join(self.tally([("OK", printed)])[1]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    Tally.root = pathlib.Path(options.root)
    unittest.main(argv=["test_tally", *rest])
