#!/usr/bin/env python3
"""PyTorch's own process groups under the preload: programs of users under real torchrun, each with mistakes on one rank, and the
verdict. See README.md; `scripts/setup --pytorch` installs what this needs."""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
import job  # noqa: E402
from job import CULPRIT, RANKS  # noqa: E402

MISSING = "rank_not_arrived"

# program, mistake, kinds that say so, words of the summary. The culprit is named in each. See also beside_flight_recorder.py.
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
    ("ddp", "oom", {"size_mismatch"}, "skipped"),
    ("ddp", "destroy", {MISSING, "rank_dead"}, "closed the communicator"),  # it may have ended by then, or not
    ("fsdp2", "skip", {"op_mismatch"}, "where ranks 0,2-3 called all_gather"),
    ("mesh", "skip", {MISSING}, "skipped all_reduce"),
    ("pipeline", "skip", {"p2p_unmatched"}, "and went on to all_reduce"),
    ("groups", "skip", {"p2p_unmatched"}, "skipped send"),
    ("groups", "order", {"order_inversion"}, "which waits in all_reduce"),
    ("groups", "peer", {"p2p_unmatched"}, "where it always sent to rank 2"),
    ("accelerate_ddp", "skip", {"size_mismatch"}, "skipped all_reduce"),
    ("accelerate_ddp", "loader", {MISSING}, "hanging_loader at mistakes.py"),
)

# How PyTorch's watchdog ends a job: nccl2 aborts the communicators and then the process; ProcessGroupNCCL throws in a thread of its
# own (asked to say which ranks are desynchronized, too).
LEGACY = {"TORCH_DIST_USE_NCCL2": 0, "TORCH_NCCL_DESYNC_DEBUG": 1}
WATCHDOGS = {
    "nccl2": {},
    "legacy": LEGACY,
}


@unittest.skipUnless(job.TORCHRUN.exists(), f"no PyTorch for CUDA: {job.TORCHRUN} is missing (scripts/setup --pytorch installs it)")
class PyTorch(harness.Case):
    def start(self, program, *arguments, **settings):
        return job.start(self.place, program, *arguments, **settings)

    def check_healthy(self, program):
        """It ends by itself, leaves no dump, and prints what it prints without us."""
        ran = self.start(program)
        self.assertEqual(ran.wait(240), 0, "the program ends as without the preload")
        self.assertEqual(self.place.dump_files(), [])

    def check_mistake(self, program, fault, kinds, words):
        ran = self.start(program, "--fault", fault, "--rank", CULPRIT, TITANTRACE_TIMEOUT_S=5 * harness.SLOW)
        alive = set(range(RANKS)) - ({CULPRIT} if "rank_dead" in kinds else set())
        harness.wait_for(lambda: alive <= self.place.dumped_ranks() or ran.status is not None, 200, "the others dump")
        verdict = self.place.analyze(self.place.dumps).json["verdict"]
        self.assertIn(verdict["kind"], kinds, verdict)
        self.assertEqual(verdict["ranks"], [CULPRIT], verdict)
        self.assertIn(words, verdict["summary"], verdict)

    def check_watchdog(self, settings):
        """PyTorch's watchdog has ended the job its own way: the verdict after that is on the hang, not on how it ended."""
        ran = self.start("ddp", "--fault", "skip", "--rank", CULPRIT, DIST_TIMEOUT_S=12 * harness.SLOW,
                         TITANTRACE_TIMEOUT_S=6 * harness.SLOW, **settings)
        self.assertNotEqual(ran.wait(200), 0)
        self.assertEqual(self.place.dumped_ranks(), set(range(RANKS)))
        verdict = self.place.analyze(self.place.dumps).json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("size_mismatch", [CULPRIT]), verdict)
        self.assertIn("skipped all_reduce", verdict["summary"])

    def test_demo(self):
        """A skipped collective: the verdict, and the line that the others called it at."""
        demo = self.place.run([harness.ROOT / "scripts" / "demo", "--pytorch", "--no-setup", "--build-dir", harness.BUILD],
                              self.place.env(preload=False), 300)
        self.assertEqual(demo.status, 0)
        self.assertIn(f"rank {CULPRIT} skipped all_reduce", demo.stdout)
        line = 1 + (job.PROGRAMS / "ddp.py").read_text().splitlines().index("            dist.all_reduce(stop)")
        self.assertIn(f"called at ddp.py:{line} in main", " ".join(demo.stdout.split()))


def add_cases():
    for program in sorted(path.stem for path in job.PROGRAMS.glob("*.py") if path.stem not in ("common", "mistakes")):
        setattr(PyTorch, f"test_healthy_{program}", lambda self, program=program: self.check_healthy(program))
    for row in MISTAKES:
        setattr(PyTorch, f"test_{row[0]}_{row[1]}", lambda self, row=row: self.check_mistake(*row))
    for name, settings in WATCHDOGS.items():
        setattr(PyTorch, f"test_watchdog_{name}", lambda self, settings=settings: self.check_watchdog(settings))


add_cases()

if __name__ == "__main__":
    harness.main(at_once=2)  # they compute while they import PyTorch, and wait for a hang to be seen afterwards
