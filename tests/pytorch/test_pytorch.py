#!/usr/bin/env python3
"""PyTorch's own process groups under the preload: programs of users under real torchrun, each with mistakes on one
rank, and the verdict. See README.md; `scripts/setup --pytorch` installs what this needs.

    test_pytorch.py --build DIR [unittest arguments]
    test_pytorch.py --build DIR --write [--only NAME]... [--repeat N] [--keep DIR]

The second form runs the cases of cases.py, or those named, and writes their rows of the table in
docs/evidence/compatibility.md; --keep keeps dumps, rings and output of each.
"""
import argparse
import json
import pathlib
import shutil
import signal
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
import job  # noqa: E402
import outcomes  # noqa: E402
import page  # noqa: E402
from cases import CASES  # noqa: E402
from job import CULPRIT, RANKS  # noqa: E402

MISSING = "rank_not_arrived"
TITAN_LOG = "torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler"

# program, mistake, kinds that say so, words of the summary. The culprit is named in each. See also
# beside_flight_recorder.py.
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
    ("groups", "peer", {"p2p_unmatched"}, "in earlier steps it sent to rank 2"),
    ("accelerate_ddp", "skip", {"size_mismatch"}, "skipped all_reduce"),
    ("accelerate_ddp", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("graphed", "skip", {MISSING}, "never launched replay 8 of graph"),
    ("deepspeed_zero3", "skip", {"op_mismatch"}, "where ranks 0,2-3 called all_gather"),
    ("megatron_pipeline", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("vllm_pynccl", "skip", {"op_mismatch"}, "skipped all_reduce"),
    ("objects", "skip", {"op_mismatch"}, "rank 1"),
    ("objects", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("torchtitan_llama3", "loader", {MISSING}, "hanging_loader at mistakes.py"),
    ("torchtitan_llama3", "skip", {MISSING, "op_mismatch"}, "rank 1"),
)

# Programs for packages that scripts/setup --pytorch does not install; see README.md.
ON_REQUEST = {"deepspeed_zero3": "deepspeed", "megatron_pipeline": "megatron", "vllm_pynccl": "vllm",
              "torchtitan_llama3": "torchtitan"}


def is_installed(program):
    package = ON_REQUEST.get(program)
    return package is None or any(job.TORCHRUN.parents[1].glob(f"lib/python3*/site-packages/{package}"))


# How PyTorch ends a job that hangs. nccl2's watchdog aborts the communicators and then the process; ProcessGroupNCCL's
# throws in a thread of its own (asked to say which ranks are desynchronized, too), or is told to leave errors alone
# (0), or the communicators as they are (3); then its heartbeat monitor ends the process.
LEGACY = {"TORCH_DIST_USE_NCCL2": 0}
MONITOR = {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": 2, "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC": 1000}
WATCHDOGS = {
    "nccl2": {},
    "legacy": {**LEGACY, "TORCH_NCCL_DESYNC_DEBUG": 1},
    "legacy_monitor": {**LEGACY, **MONITOR, "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1},
    "legacy_no_handling": {**LEGACY, **MONITOR, "TORCH_NCCL_ASYNC_ERROR_HANDLING": 0},
    "legacy_no_cleanup": {**LEGACY, **MONITOR, "TORCH_NCCL_ASYNC_ERROR_HANDLING": 3},
}
# With these nobody but the user ends a job that hangs.
LEFT_ALONE = {
    "nccl2": {"TORCH_NCCL_ASYNC_ERROR_HANDLING": 0},
    "legacy": {**LEGACY, "TORCH_NCCL_ASYNC_ERROR_HANDLING": 0},
}


installed = unittest.skipUnless(
    job.TORCHRUN.exists(), f"no PyTorch for CUDA: {job.TORCHRUN} is missing (scripts/setup --pytorch installs it)")


@installed
class PyTorch(harness.Case):
    def start(self, program, *arguments, **settings):
        if not is_installed(program):
            self.skipTest(f"no {ON_REQUEST[program]} in .venv-pytorch (tests/pytorch/README.md says how to install it)")
        return job.start(self.place, program, *arguments, **settings)

    def verdict(self):
        return self.place.analyze(self.place.dumps).json["verdict"]

    def wait_for_verdict(self, ran, dumping):
        """Or for the end. Ranks that pause for too long while they start dump, too: those dumps have no verdict."""
        analyzed = []

        def is_found():
            files = self.place.dump_files()
            if ran.status is not None:
                return True
            if files == analyzed or not dumping <= self.place.dumped_ranks():
                return False
            analyzed[:] = files
            return self.verdict() is not None

        harness.wait_for(is_found, 200, "dumps with a verdict")

    def check_healthy(self, program):
        """It ends by itself, leaves no dump, and prints what it prints without us."""
        ran = self.start(program)
        self.assertEqual(ran.wait(240), 0, "the program ends as without the preload")
        self.assertEqual(self.place.dump_files(), [])

    def check_mistake(self, program, fault, kinds, words):
        timeout_s = 10 if program in ON_REQUEST else 5  # large programs make long pauses of their own while they start
        ran = self.start(program, "--fault", fault, "--rank", CULPRIT, TITANTRACE_TIMEOUT_S=timeout_s * harness.SLOW)
        if kinds == {"rank_dead"}:
            ran.wait(200)  # a process may take seconds to end, and is not dead before
        else:
            self.wait_for_verdict(ran, set(range(RANKS)) - ({CULPRIT} if "rank_dead" in kinds else set()))
        verdict = self.verdict()
        self.assertIsNotNone(verdict, self.place.dump_files())
        self.assertIn(verdict["kind"], kinds, verdict)
        self.assertEqual(verdict["ranks"], [CULPRIT], verdict)
        self.assertIn(words, verdict["summary"], verdict)

    def check_verdict_on_skip(self):
        """On the hang, not on how it ended."""
        self.assertEqual(self.place.dumped_ranks(), set(range(RANKS)))
        self.check_skip_in(self.place.dumps)

    def check_skip_in(self, records):
        verdict = self.place.analyze(records).json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("size_mismatch", [CULPRIT]), verdict)
        self.assertIn("skipped all_reduce", verdict["summary"])

    def check_watchdog(self, settings):
        """PyTorch's watchdog, or its monitor, has ended the job its own way."""
        ran = self.start("ddp", "--fault", "skip", "--rank", CULPRIT, DIST_TIMEOUT_S=12 * harness.SLOW,
                         TITANTRACE_TIMEOUT_S=6 * harness.SLOW, **settings)
        self.assertNotEqual(ran.wait(200), 0)
        self.check_verdict_on_skip()
        stack = self.place.analyze(self.place.dumps).json["findings"][0]["stacks"][str(CULPRIT)]
        self.assertTrue(any(" at ddp.py:" in str(frame) for frame in stack),
                        "where the program hung, not how PyTorch ended it")

    def check_left_alone(self, settings):
        """PyTorch's watchdog saw the timeout and did nothing; then torchrun is told to end, and tells the ranks."""
        ran = self.start("ddp", "--fault", "skip", "--rank", CULPRIT, DIST_TIMEOUT_S=8 * harness.SLOW,
                         TITANTRACE_TIMEOUT_S=4 * harness.SLOW, **settings)
        harness.wait_for(lambda: "timed out" in ran.stderr or "collective timeout" in ran.stderr, 100,
                         "PyTorch's timeout")
        self.assertIsNone(ran.status)
        ran.signal(signal.SIGTERM)
        self.assertNotEqual(ran.wait(60), 0)
        self.check_verdict_on_skip()

    def test_terminated_before_any_timeout(self):
        """The user ends a job that hangs, by torchrun, before it counts as hung: no dump, and what the rings hold is
        enough."""
        ran = self.start("ddp", "--fault", "skip", "--rank", CULPRIT)
        ran.wait_says("makes a mistake", 100)
        time.sleep(2 * harness.SLOW)  # of a hang
        ran.signal(signal.SIGTERM)
        self.assertNotEqual(ran.wait(60), 0)
        self.assertEqual(self.place.dump_files(), [])
        self.check_skip_in(self.place.rings)

    def test_debug_detail(self):
        """PyTorch compares the calls before it makes them, and raises on every rank: no hang. All dump, and none when
        nothing is wrong."""
        healthy = self.start("ddp", TORCH_DISTRIBUTED_DEBUG="DETAIL")
        self.assertEqual(healthy.wait(120), 0)
        self.assertEqual(self.place.dump_files(), [])
        ran = self.start("ddp", "--fault", "skip", "--rank", CULPRIT, TORCH_DISTRIBUTED_DEBUG="DETAIL")
        self.assertNotEqual(ran.wait(120), 0)
        self.assertIn("Detected mismatch between collectives", ran.stderr)
        self.assertEqual(self.place.dumped_ranks(), set(range(RANKS)))
        verdict = self.verdict()
        self.assertEqual(verdict["kind"], "rank_dead", verdict)
        self.assertIn(verdict["confidence"], ("likely", "possible"),
                      verdict)  # whether others were exiting, too, is chance

    def test_debug_server(self):
        """torch.distributed.debug's server, a process that rank 0 forks, fetches stacks and Flight Recorder from all
        ranks each second."""
        files = self.place.path / "debug-server"
        healthy = self.start("ddp", DEBUG_SERVER_FILES=files)
        # In 2.15.0 a thread of the server may ask for the GIL of an interpreter that ends, and then ends the process
        # (glibc's "exception not rethrown"): without titantrace 3 of 20 jobs of a busy machine ended so.
        if healthy.wait(120) == 0 or "FATAL: exception not rethrown" not in healthy.stderr:
            self.assertEqual(healthy.status, 0)
            self.assertEqual(self.place.dump_files(), [])
        for dump in self.place.dump_files():
            dump.unlink()
        self.check_watchdog({"DEBUG_SERVER_FILES": files})
        self.assertNotEqual(list(files.glob("stacks*")), [], "the server has asked")

    def test_restart(self):
        """The second attempt has no dump, and the first one's are about the exception. Without the setting, torchrun of
        2.15 keeps its store over a restart: ranks then read the first attempt's ncclUniqueId, and wait for ever (with
        either backend)."""
        ran = job.start(self.place, "ddp", "--fault", "exception", "--rank", CULPRIT, torchrun=("--max-restarts=1",),
                        TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)
        self.assertEqual(ran.wait(120), 0)
        self.assertEqual(len(self.place.dump_files(attempt=0)), RANKS)
        self.assertEqual(self.place.dump_files(attempt=1), [])
        verdict = self.place.analyze(self.place.dumps).json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_dead", [CULPRIT]), verdict)

    def markers(self):
        """Of each rank, oldest first."""
        told = self.place.show(self.place.dumps, "--markers", "--no-rings")
        return {rank: [marker for marker in told if marker["rank"] == rank] for rank in range(RANKS)}

    def test_gpu_spans(self):
        """What the GPU took for each forward pass is its attribute, and lies between what CUDA events of the program
        say that stand inside the span and around it."""
        ran = self.start("marked", TITANTRACE_DUMP_ON="exit")
        self.assertEqual(ran.wait(240), 0)
        for markers in self.markers().values():
            forward = {marker["span"] for marker in markers
                       if (marker["marker"], marker["name"]) == ("span_begin", "forward")}
            took_ms = [marker["value"] for marker in markers
                       if marker["name"] == "gpu_ms" and marker["span"] in forward]
            inside, around = ([marker["value"] for marker in markers if marker["name"] == name]
                              for name in ("inside_ms", "around_ms"))
            self.assertEqual((len(took_ms), len(inside)), (8, 8))
            for least, took, most in zip(inside, took_ms, around):
                self.assertLessEqual(least, took)
                self.assertLessEqual(took, most)
                self.assertGreater(took, 0)

    def test_torchtitan_log(self):
        """torchtitan's trainer with its own structured log and ours beside it: both tell the same spans, in the same
        order, and the same steps."""
        logs = self.place.path / "log"
        ran = self.start("torchtitan_llama3", TITANTRACE_DUMP_ON="exit", LOG_FOLDER=logs,
                         TITAN_STRUCT_LOGGER_HANDLERS=f"{TITAN_LOG},titantrace.torchtitan.handler")
        self.assertEqual(ran.wait(240), 0)
        for rank, markers in self.markers().items():
            log, = logs.glob(f"structured_logs/*global_rank_{rank}.*")
            records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            told = [(record.get("step"), record["log_type_name"]) for record in records
                    if record["log_type"] == "event"]
            ours = [(marker["step"] if marker["step"] >= 0 else None,
                     f"{marker['name']}_{'start' if marker['marker'] == 'span_begin' else 'end'}")
                    for marker in markers if marker["marker"] in ("span_begin", "span_end")]
            self.assertIn((8, "fwd_bwd_end"), ours)
            self.assertEqual(ours, told)

    def test_torchtitan_hang(self):
        """Where the trainer hangs in its step, the verdict names the step and the span of torchtitan's."""
        ran = self.start("torchtitan_llama3", "--fault", "loader", "--rank", CULPRIT,
                         TITANTRACE_TIMEOUT_S=10 * harness.SLOW,
                         TITAN_STRUCT_LOGGER_HANDLERS="titantrace.torchtitan.replace")
        self.wait_for_verdict(ran, set(range(RANKS)))
        finding = self.place.analyze(self.place.dumps).json["findings"][0]
        self.assertEqual(finding["ranks"], [CULPRIT], finding)
        self.assertIn("span step, step 5", finding["rank_state"][str(CULPRIT)])
        self.assertTrue(any('"training_start" at trainer.py:' in line for line in finding["evidence"]),
                        finding["evidence"])

    def test_demo(self):
        """A skipped collective: the verdict, and the line that the others called it at."""
        demo = self.place.run([harness.ROOT / "scripts" / "demo", "--pytorch", "--no-setup", "--build-dir",
                               harness.BUILD],
                              self.place.env(preload=False), 300)
        self.assertEqual(demo.status, 0)
        self.assertIn(f"rank {CULPRIT} skipped all_reduce", demo.stdout)
        line = 1 + (job.PROGRAMS / "ddp.py").read_text().splitlines().index("            dist.all_reduce(stop)")
        self.assertIn(f"called at ddp.py:{line} in main", " ".join(demo.stdout.split()))


@installed
class Cases(harness.Case):
    """Those of cases.py: each outcome is the one of the table in docs/evidence/compatibility.md."""

    def check(self, name):
        written = page.marks(name)
        if not written:
            self.skipTest("the table in docs/evidence/compatibility.md has no outcome of it")
        evidence = harness.BUILD / "meson-logs" / "pytorch-cases" / name.replace("/", "-")
        shutil.rmtree(evidence, ignore_errors=True)
        for view, outcome in outcomes.Run(self.place, CASES[name], evidence).run().items():
            self.assertIn(outcome.mark, written.get(view, ()),
                          f"{name}, {view}: {outcome.summary} (its files are in {evidence})")
        shutil.rmtree(evidence, ignore_errors=True)  # of a case that failed it stays


def write_table():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", action="append", choices=CASES, default=[])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    harness.BUILD = options.build.resolve()
    page.write(page.run_all(options.only or list(CASES), options.repeat, options.keep, options.at_once))


def add_cases():
    for program in sorted(path.stem for path in job.PROGRAMS.glob("*.py") if path.stem not in ("common", "mistakes")):
        setattr(PyTorch, f"test_healthy_{program}", lambda self, program=program: self.check_healthy(program))
    for row in MISTAKES:
        setattr(PyTorch, f"test_{row[0]}_{row[1]}", lambda self, row=row: self.check_mistake(*row))
    for name, settings in WATCHDOGS.items():
        setattr(PyTorch, f"test_watchdog_{name}", lambda self, settings=settings: self.check_watchdog(settings))
    for name, settings in LEFT_ALONE.items():
        setattr(PyTorch, f"test_left_alone_{name}", lambda self, settings=settings: self.check_left_alone(settings))
    for name in CASES:
        setattr(Cases, f"test_{name.replace('/', '_')}", lambda self, name=name: self.check(name))


add_cases()

AT_ONCE = 2  # they compute while they import PyTorch, and wait for a hang to be seen afterwards

if __name__ == "__main__":
    if "--write" in sys.argv:
        write_table()
    else:
        harness.main(AT_ONCE)
