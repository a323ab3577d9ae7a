"""The table of docs/use/seeds.md: each command, on jobs of the real packages (seed_jobs.py) that ended well, hung, were
killed, and were started again in the same directory; each test that stands in the place of a command is there.

    test_seeds.py --library LIB --real
"""
import concurrent.futures
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

import bridge_case
from bridge_case import ROOT, package_case, real_python

JOB = ROOT / "tests" / "bridges" / "seed_jobs.py"
SEEDS = {"T": "torchtitan", "O": "one_logger", "U": "oumi"}
ENDS = "well", "hung", "killed", "resumed"
OWN_LOG = "torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler"
# Rank 1 logs by torchtitan's own handler, too.
HANDLERS = "titantrace.torchtitan.replace", f"{OWN_LOG},titantrace.torchtitan.handler"
ROWS = [[cell.strip() for cell in row.split("|")][1:-1]
        for row in re.findall(r"^\| \d.*", (ROOT / "docs" / "use" / "seeds.md").read_text(encoding="utf-8"), re.M)]
FEATURES = 41
PATIENCE_S = 120


def free_port():
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return listening.getsockname()[1]


class Job:
    """Two ranks under titan-run, in a directory of their own. `output` is what titan-run prints."""

    def __init__(self, place, seed, end):
        self.place, self.seed, self.end = place / f"{seed}-{end}", seed, end
        self.place.mkdir()
        (self.place / "rings").mkdir()
        build = pathlib.Path(package_case.options.library).resolve().parents[1]
        self.titan_run = build / "tools" / "titan-run"
        path = [pathlib.Path(real_python()).parent, build / "analyzer", os.environ["PATH"]]
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("TITANTRACE", "PYTHON", "WANDB"))}
        self.environment.update(
            PATH=os.pathsep.join(map(str, path)), PYTHONPATH=str(package_case.options.package),
            PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1", DO_NOT_TRACK="1", OMP_NUM_THREADS="1",
            TITANTRACE_RING_DIR=str(self.place / "rings"))

    def run(self):
        if self.end == "resumed":
            self.start("first", "killed").wait(PATIENCE_S)
        ranks = self.start("job", self.end)
        if self.end == "hung":
            self.wait_for_dumps(ranks)
            os.killpg(ranks.pid, signal.SIGTERM)
        self.output, _ = ranks.communicate(timeout=PATIENCE_S)
        return self

    def start(self, run, end):
        ranks = [f"RANK={rank} LOCAL_RANK={rank} TITAN_STRUCT_LOGGER_HANDLERS={HANDLERS[rank]} python {JOB} "
                 f"{self.seed} {end} & " for rank in range(2)]
        tracer = {"TITANTRACE_RUN_ID": run, "TITANTRACE_LABELS": "session_tag=session-7", "TITANTRACE_JOURNAL_S": "1",
                  "TITANTRACE_TIMEOUT_S": "5" if end == "hung" else str(PATIENCE_S)}
        ranks_of_node = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
                         "MASTER_PORT": str(free_port())}
        return subprocess.Popen([self.titan_run, "--dir", "dumps", "--", "sh", "-c", "".join(ranks) + "wait"],
                                cwd=self.place, env={**self.environment, **tracer, **ranks_of_node}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def wait_for_dumps(self, ranks):
        """Of the hang itself, which come when both have reached step 12."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends and ranks.poll() is None:
            done = self.ask("titan-analyze sql dumps/ --json 'SELECT step FROM ranks WHERE recorder = \"dump\"'")
            if done.stdout.count("12") == 2:
                return
            time.sleep(0.5)

    def ask(self, command):
        return subprocess.run(["sh", "-c", command], cwd=self.place, env=self.environment, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)


def pattern_of(shown):
    """ "..." stands for anything, a blank for any number of blanks."""
    return r".*?".join(r"\s+".join(map(re.escape, part.split())) for part in shown.split("..."))


def names_in(file):
    return re.findall(r"^ *(?:def|class) (\w+)", (ROOT / file).read_text(encoding="utf-8"), re.M)


class Seeds(bridge_case.Case):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        jobs = [Job(pathlib.Path(holder.name), seed, end) for end in ENDS for seed in SEEDS.values()]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            cls.jobs = list(pool.map(Job.run, jobs))

    def test_each_feature_has_a_row(self):
        self.assertEqual([int(row[0]) for row in ROWS], list(range(1, FEATURES + 1)))

    def test_commands_show_what_they_should(self):
        commands = [(seed, command.strip("`"), shown) for _, seed, _, _, _, command, shown in ROWS
                    if command.startswith("`") and not command.startswith("`tests/")]
        self.assertGreater(len(commands), 25)
        for seed, command, shown in commands:
            for job in self.jobs:
                if job.seed == SEEDS[seed]:
                    with self.subTest(command, end=job.end):
                        done = job.ask(command)
                        self.assertRegex(done.stdout, re.compile(pattern_of(shown.strip("`")), re.S),
                                         done.stderr + job.output[-3000:])

    def test_tests_that_are_named_exist(self):
        named = [name for row in ROWS for name in re.findall("`(tests/.*?)`", " ".join(row))]
        self.assertGreater(len(named), 8)
        for name in named:
            file, _, test = name.partition(": ")
            self.assertTrue((ROOT / file).is_file(), name)
            if test:
                self.assertIn(test, names_in(file))

    def test_what_titan_run_says_of_each(self):
        for job in self.jobs:
            with self.subTest(job.seed, end=job.end):
                wanted = {"well": "ended well after 20 steps, 2 of 2 ranks", "resumed": "ended well at step 19",
                          "killed": "rank_dead .* rank 1", "hung": "rank 1"}[job.end]
                self.assertRegex(job.output, re.compile(wanted, re.S))


if __name__ == "__main__":
    bridge_case.skip_without("torchtitan", "nv_one_logger.training_telemetry", "oumi", "tensorboard")
    bridge_case.main()
