#!/usr/bin/env python3
"""scripts/demo with each of its faults: it ends with a verdict, of which each line under "What next" can be pasted."""

import re
import shutil
import subprocess

import harness

DEMO = harness.ROOT / "scripts" / "demo"


def faults():
    listed = subprocess.run([DEMO, "--list"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?m)^  (\S+)", listed)


class Demo(harness.Case):
    def check(self, fault):
        env = self.place.env(preload=False, COLUMNS=60, TITANTRACE_DIR=None, TITANTRACE_RING_DIR=None,
                             TITANTRACE_RUN_ID=None, LD_LIBRARY_PATH=None)
        ran = self.place.run([DEMO, "--no-setup", "--build-dir", harness.BUILD, "--fault", fault, "--keep"], env, 120)
        self.assertEqual(ran.status, 0, ran.stderr)
        self.assertIn("VERDICT", ran.stdout)
        kept, rings = re.search(r"kept: (\S+) and (\S+)", ran.stdout + ran.stderr).groups()
        self.addCleanup(shutil.rmtree, rings, ignore_errors=True)
        env["PATH"] = f"{harness.BUILD / 'analyzer'}:{env['PATH']}"
        for line, printed in self.paste_what_is_next(self.place, ran.stdout, env, cwd=kept).items():
            if fault == "stop" and " show " in line:  # rank 5 left a ring alone, where only the demo's shell looks
                self.assertRegex(printed, r"(?m)^ +5 ", line)

    def test_there_are_seventeen(self):
        self.assertEqual(len(faults()), 17)


def add_test(fault):
    setattr(Demo, f"test_{fault.replace('-', '_')}", lambda self: self.check(fault))


for one in faults():
    add_test(one)

if __name__ == "__main__":
    harness.main(at_once=2)
