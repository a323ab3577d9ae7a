#!/usr/bin/env python3
"""PyTorch's own process groups under the preload: programs of users under real torchrun, each with mistakes on one rank, and the
verdict. See README.md; `scripts/setup --pytorch` installs what this needs."""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402

TORCHRUN = harness.ROOT / ".venv-pytorch" / "bin" / "torchrun"
STAND_INS = ("libcudart.so.13", "libcuda.so.1", "libnccl.so.2", "libsimgpu_math.so")
CULPRIT, RANKS = 1, 4
MISSING = "rank_not_arrived"

# program, mistake, kinds that say so, words of the summary. The culprit is named in each.
MISTAKES = (
    ("ddp", "skip", {"size_mismatch"}, "skipped all_reduce"),
    ("ddp", "shape", {"size_mismatch"}, "2 elements"),
    ("ddp", "dtype", {"dtype_mismatch"}, "float64"),
    ("ddp", "exception", {"rank_dead"}, "exited with status 1"),
    ("ddp", "exit", {"rank_dead"}, "exited with status 3"),
    ("ddp", "kill", {"rank_dead"}, "rank 1"),
    ("ddp", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("fsdp2", "kill", {"rank_dead"}, "rank 1"),
    ("fsdp2", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("mesh", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("pipeline", "loader", {MISSING, "p2p_unmatched"}, "hanging_loader at mistakes.py"),
    ("groups", "loader", {MISSING}, "hanging_loader at mistakes.py"),
)


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch for CUDA: {TORCHRUN} is missing (scripts/setup --pytorch installs it)")
class PyTorch(harness.Case):
    def start(self, program, *arguments, preload=True, **settings):
        libraries = [str(harness.tracer())] if preload else []
        libraries += [str(harness.stand_ins() / name) for name in STAND_INS]
        return self.place.start(
            [TORCHRUN, f"--nproc-per-node={RANKS}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
             HERE / "programs" / f"{program}.py", *arguments],
            self.place.env(preload=False, LD_PRELOAD=":".join(libraries), OMP_NUM_THREADS="1", **settings))

    def check_healthy(self, program):
        """It ends by itself, leaves no dump, and prints what it prints without us."""
        job = self.start(program)
        self.assertEqual(job.wait(240), 0, "the program ends as without the preload")
        self.assertEqual(self.place.dump_files(), [])

    def check_mistake(self, program, fault, kinds, words):
        job = self.start(program, "--fault", fault, "--rank", CULPRIT, TITANTRACE_TIMEOUT_S=5 * harness.SLOW)
        alive = set(range(RANKS)) - ({CULPRIT} if kinds == {"rank_dead"} else set())
        harness.wait_for(lambda: alive <= self.place.dumped_ranks() or job.status is not None, 200, "the others dump")
        verdict = self.place.analyze(self.place.dumps).json["verdict"]
        self.assertIn(verdict["kind"], kinds, verdict)
        self.assertEqual(verdict["ranks"], [CULPRIT], verdict)
        self.assertIn(words, verdict["summary"], verdict)

    def test_demo(self):
        """A skipped collective: the verdict, and the line that the others called it at."""
        demo = self.place.run([harness.ROOT / "scripts" / "demo", "--pytorch", "--no-setup", "--build-dir", harness.BUILD],
                              self.place.env(preload=False), 300)
        self.assertEqual(demo.status, 0)
        self.assertIn(f"rank {CULPRIT} skipped all_reduce", demo.stdout)
        line = 1 + (HERE / "programs" / "ddp.py").read_text().splitlines().index("            dist.all_reduce(stop)")
        self.assertIn(f"called at ddp.py:{line} in main", " ".join(demo.stdout.split()))


def add_cases():
    for program in sorted(path.stem for path in (HERE / "programs").glob("*.py") if path.stem not in ("common", "mistakes")):
        setattr(PyTorch, f"test_healthy_{program}", lambda self, program=program: self.check_healthy(program))
    for row in MISTAKES:
        setattr(PyTorch, f"test_{row[0]}_{row[1]}", lambda self, row=row: self.check_mistake(*row))


add_cases()

if __name__ == "__main__":
    harness.main()
