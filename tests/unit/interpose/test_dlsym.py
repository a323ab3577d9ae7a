"""dlsym and dlvsym with the preload: wrappers for our names in libraries opened by handle, and nothing else changed."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()
HANDED_OUT = ("our name by handle", "our name of the whole program", "our name next, from the program",
              "wrapper of copy")


class Dlsym(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        place = pathlib.Path(cls.directory.name)
        cls.copies = [place / f"libcopy{number}.so" for number in range(4)]
        for number, copy in enumerate(cls.copies):
            shutil.copy(options.copies[number % len(options.copies)], copy)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def answers(self, preload, *copies, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TITANTRACE") and k != "LD_PRELOAD"}
        env.update(LD_LIBRARY_PATH=str(pathlib.Path(options.nccl).parent), TITANTRACE_RING_DIR=self.directory.name,
                   TITANTRACE_DIR=self.directory.name, **variables)
        if preload:
            env["LD_PRELOAD"] = ":".join(map(str, preload))
        ran = subprocess.run([options.program, options.nccl, *copies], env=env, capture_output=True, text=True,
                             check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        return dict(line.split(": ", 1) for line in ran.stdout.splitlines())

    def test_nothing_else_is_changed(self):
        for tools in ([], [options.tool]):
            with self.subTest(tools=tools):
                plain, traced = self.answers(tools), self.answers([options.library, *tools])
                unchanged = lambda answers: {k: v for k, v in answers.items() if not k.startswith(HANDED_OUT)}
                self.assertEqual(unchanged(traced), unchanged(plain))
                self.assertIn("undefined symbol: ncclAllReduce", traced["our name missing there"])
                self.assertEqual("tool next, foreign name" in traced, bool(tools))

    def test_the_tool_may_stand_in_front(self):
        plain, traced = self.answers([options.tool]), self.answers([options.tool, options.library])
        self.assertEqual(traced["tool next, foreign name"], plain["tool next, foreign name"])
        self.assertEqual(traced["tool next, version"], plain["tool next, version"])
        self.assertEqual(traced["tool next, our name"], "libtitantrace.so", "as the dynamic linker has it: we are next")

    def test_wrappers_are_handed_out(self):
        plain, traced = self.answers([]), self.answers([options.library])
        self.assertEqual(plain["our name by handle"], pathlib.Path(options.nccl).name)
        self.assertEqual(traced["our name by handle"], "libtitantrace.so")
        self.assertEqual(traced["our name of the whole program"], "libtitantrace.so")
        self.assertEqual(traced["profiling name"], plain["profiling name"])
        self.assertEqual(traced["same again"], "yes")

    def test_copies_have_thunks_of_their_own_and_the_last_is_left_alone(self):
        plain, traced = self.answers([], *self.copies), self.answers([options.library], *self.copies, RANK="0")
        of_copies = lambda answers: {k: v for k, v in answers.items() if k.startswith("copy")}
        self.assertEqual(of_copies(traced), of_copies(plain))
        self.assertEqual(len(of_copies(plain)), 4)
        # The stand-in NCCL was asked for the function first, so it has the first of three thunks.
        self.assertEqual([traced[f"wrapper of copy {number}"] for number in (1, 2, 3, 4)],
                         ["ours", "ours", "none", "none"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--program", "--library", "--tool", "--nccl"):
        parser.add_argument(name, required=True)
    parser.add_argument("--copies", nargs="+", required=True)
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=2)
