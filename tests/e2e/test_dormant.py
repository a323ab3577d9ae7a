#!/usr/bin/env python3
"""Processes that inherit the preload and are no ranks: no thread, no file, no word."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import harness

NOBODY = 65534


class Dormant(harness.Case):
    def expect_nothing(self):
        self.assertEqual(self.place.traces(), [])

    def unchanged(self, *argv, **settings):
        run = self.same_but_for_the_tracer(list(argv), **settings)
        self.assertEqual((run.status, run.stderr), (0, ""))
        self.expect_nothing()

    def test_shell(self):
        self.unchanged("sh", "-c", "echo out; ls / | wc -l; exit 0")

    def test_shell_as_a_rank(self):
        self.unchanged("sh", "-c", "echo out; cat /dev/null; exit 0", RANK="0", WORLD_SIZE="8")

    def test_compiler(self):
        source = self.place.path / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        self.unchanged("sh", "-c", f"gcc -c {source} -o {self.place.path}/empty.o && echo compiled")

    def test_python(self):
        self.unchanged(sys.executable, "-c", "import os, subprocess; print(len(os.listdir('/proc/self/task')));"
                       "print(subprocess.run(['echo', 'x'], capture_output=True).stdout)", RANK="0", WORLD_SIZE="2")

    def test_program_linked_against_nccl(self):
        """Linked is not used."""
        run = self.place.start_rank("e2e-processes", "nothing")
        run.wait_says("done")
        self.assertEqual(harness.threads_of(run.pid), ["e2e-processes"])
        self.expect_nothing()
        self.place.go()
        self.assertEqual(run.wait(), 0)

    def test_markers_without_a_launcher(self):
        run = self.place.start([harness.client("e2e-processes"), "markers-only"])
        run.wait_says("done")
        self.assertEqual(harness.threads_of(run.pid), ["e2e-processes"])
        self.expect_nothing()
        self.place.go()
        self.assertEqual(run.wait(), 0)

    def test_cuda_without_a_launcher(self):
        run = self.place.start([harness.client("e2e-processes"), "cuda-only"])
        run.wait_says("done")
        self.assertNotIn("titan", " ".join(harness.threads_of(run.pid)))
        self.expect_nothing()
        self.place.go()
        self.assertEqual(run.wait(), 0)

    def test_signal_keeps_its_default(self):
        """A dormant process dies of SIGUSR1 as it always did."""
        run = self.place.start_rank("e2e-processes", "nothing")
        run.wait_says("done")
        run.signal(signal.SIGUSR1)
        self.assertEqual(run.wait(), -signal.SIGUSR1)
        self.expect_nothing()

    def test_switched_off(self):
        run = self.place.start_rank("e2e-processes", "linger", TITANTRACE="0")
        run.wait_says("done")
        self.assertNotIn("titan", " ".join(harness.threads_of(run.pid)))
        self.expect_nothing()
        self.place.go()
        self.assertEqual((run.wait(), run.stderr), (0, ""))

    @unittest.skipUnless(os.geteuid() == 0, "needs root: a program is made set-uid, and run by another user")
    def test_set_uid_program(self):
        """Linked to the library, since the loader preloads nothing into such a program: it takes no word of its user's
        environment."""
        with tempfile.TemporaryDirectory(prefix="titan-e2e-", dir="/var/tmp") as directory:
            place = pathlib.Path(directory)
            place.chmod(0o755)
            shutil.copy(harness.tracer(), place)
            (place / "main.c").write_text('#include <stdio.h>\n#include "titantrace.h"\n'
                                          'int main(void) { titan_step(1); return puts("ran") == EOF; }\n')
            program = place / "program"
            subprocess.run(["cc", "-I", str(harness.ROOT / "tracer" / "include"), str(place / "main.c"), "-o",
                            str(program), "-Wl,--no-as-needed",
                            f"-Wl,-rpath,{directory}", f"-L{directory}", "-ltitantrace"], check=True)
            rings = place / "rings"
            rings.mkdir()
            os.chown(rings, NOBODY, NOBODY)
            for mode, recorded in ((0o755, True), (0o4755, False)):
                program.chmod(mode)
                done = subprocess.run([str(program)], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True,
                                      text=True,
                                      env={"TITANTRACE_RING_DIR": str(rings), "RANK": "0", "WORLD_SIZE": "1"})
                self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)
                self.assertEqual(any(path.is_dir() for path in rings.iterdir()), recorded, done.stderr)
                for path in rings.iterdir():
                    shutil.rmtree(path)

    def test_without_the_stand_ins(self):
        """A machine without any CUDA: the preload still loads."""
        run = self.place.run(["sh", "-c", "echo works"], self.place.env(LD_LIBRARY_PATH=None))
        self.assertEqual((run.stdout, run.stderr), ("works\n", ""))


if __name__ == "__main__":
    harness.main()
