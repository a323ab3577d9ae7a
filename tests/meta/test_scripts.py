"""Every script in scripts/ explains itself, refuses what it does not know, and parses."""
import argparse
import pathlib
import subprocess
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
                           for word in line.split(")")[0].replace("|", " ").split() if word.startswith("--") and word != "--"}
                shown = self.run_script(path, "--help").stdout
                self.assertEqual([option for option in sorted(options) if option not in shown], [])

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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    Scripts.root = pathlib.Path(options.root)
    unittest.main(argv=["test_scripts", *rest])
