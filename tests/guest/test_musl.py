#!/usr/bin/env python3
"""Programs of another libc inherit the preload from the job that starts them: they run as without it."""
import pathlib
import shlex
import shutil
import subprocess
import tempfile

import guest
import harness

ENDS = ("exit", "_exit", "_Exit", "quick_exit", "abort", "SIGTERM")


class Musl(guest.Case):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("musl-gcc"):
            cls.program = None
            return
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.library = pathlib.Path(place.name) / "libmusl-nccl.so"
        cls.program = pathlib.Path(place.name) / "musl"
        compile_by = ["musl-gcc", "-O1", "-Wall", "-Werror"]
        subprocess.run([*compile_by, "-shared", "-fPIC", "-o", cls.library, guest.script("musl_library.c")], check=True)
        subprocess.run([*compile_by, "-o", cls.program, guest.script("musl.c"), cls.library,
                        f"-Wl,-rpath,{place.name}"], check=True)

    def setUp(self):
        if self.program is None:
            self.skipTest("no musl-gcc (Debian's musl-tools)")

    def alike(self, *arguments):
        """Preloaded, and as a child of a shell that titan-run started."""
        self.both([self.program, *arguments])
        self.assertEqual(self.place.ring_files(), [])
        shell = ["sh", "-c", shlex.join(map(str, [self.program, *arguments])) + '; echo "status $?"']
        plain = self.host(shell, False, 0)
        started = self.host([harness.BUILD / "tools" / "titan-run", "--dir", self.new_place().dumps, "--", *shell],
                            False, 0)
        self.assertEqual((started.status, started.stdout), (plain.status, plain.stdout), started.stderr)
        self.assertEqual(self.place.ring_files(), [])

    def test_signals(self):
        self.alike("signals")

    def test_jumps(self):
        self.alike("jumps")

    def test_threads(self):
        self.alike("threads")

    def test_processes(self):
        self.alike("processes")

    def test_libraries(self):
        self.alike("libraries", self.library)

    def test_calls_that_are_recorded_elsewhere(self):
        self.alike("calls")

    def test_ends(self):
        for way in ENDS:
            with self.subTest(way):
                self.alike("end", way)


if __name__ == "__main__":
    harness.main()
