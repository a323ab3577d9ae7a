"""The same program with each of the three seeds and with titantrace: two ranks, ten spans and a metric in each of so
many steps, told by the real packages. What each leaves, what it costs, how long its picture takes, and what that shows.

    python3 tests/bench/beside_theirs.py --build build [--steps 1000]       needs scripts/setup --bridges

Rank 1 loads data for 3 ms longer than rank 0, which then waits for it, and its loss is NaN in the middle step. The
processor time is that of the calls alone, with all threads: what a rank does meanwhile is taken off.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import python_package  # noqa: E402

PYTHON = pathlib.Path(os.environ.get("TITAN_BRIDGES_PYTHON") or ROOT / ".venv-bridges" / "bin" / "python")
NAMES = ["data_loading", "h2d", "forward", "attention", "mlp", "logits", "backward", "reduce", "clip", "optimizer"]
SPANS = len(NAMES)

# One rank. Prints the processor time of its loop, with all threads, until everything is written.
PROGRAM = r"""
import math, os, pathlib, sys, time, warnings
warnings.simplefilter("ignore")
WHO, STEPS, BAD, RANK = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(os.environ["RANK"])
NAMES = sys.argv[4:]
place = pathlib.Path(".")

class Nobody:
    class Span:
        def __enter__(self): pass
        def __exit__(self, *error): pass
    def span(self, name): return self.Span()
    def begin(self, step): pass
    def end(self, step, loss): pass
    def close(self): pass

class Torchtitan(Nobody):
    def __init__(self):
        from torchtitan.observability import structured_logger
        self.sl = structured_logger
        self.sl.init_structured_logger(source="trainer", output_dir=".", rank=RANK)
        self.span = self.sl.log_trace_span
    def begin(self, step): self.sl.set_step(step)
    def end(self, step, loss): self.sl.log_trace_scalar({"loss": loss})

class OneLogger(Nobody):
    def __init__(self):
        import enum
        if sys.version_info < (3, 12):  # which it needs for spans of any name
            enum.EnumMeta.__contains__ = lambda kind, value: (isinstance(value, kind) or
                                                              value in kind._value2member_map_)
        from nv_one_logger.api.config import OneLoggerConfig
        from nv_one_logger.api.timed_span import timed_span
        from nv_one_logger.exporter.file_exporter import FileExporter
        from nv_one_logger.training_telemetry.api import callbacks, context
        from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
        from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider
        config = OneLoggerConfig(application_name="beside", world_size_or_fn=2, session_tag_or_fn="beside")
        TrainingTelemetryProvider.instance().with_base_config(config).with_exporter(
            FileExporter(place / f"telemetry-{RANK}.json")).configure_provider()
        callbacks.on_app_start()
        TrainingTelemetryProvider.instance().set_training_telemetry_config(TrainingTelemetryConfig(
            perf_tag_or_fn="beside", global_batch_size_or_fn=32, seq_length_or_fn=1024,
            train_iterations_target_or_fn=STEPS, train_samples_target_or_fn=32 * STEPS,
            log_every_n_train_iterations=10))
        self.span, self.context, self.callbacks = timed_span, context, callbacks
        self.loop = context.training_loop(train_iterations_start=0)
        self.loop.__enter__()
    def begin(self, step):
        self.iteration = self.context.training_iteration()
        self.iteration.__enter__()
    def end(self, step, loss): self.iteration.__exit__(None, None, None)
    def close(self):
        self.loop.__exit__(None, None, None)
        self.callbacks.on_app_end()

class Oumi(Nobody):
    def __init__(self):
        import torch
        torch.distributed.init_process_group("gloo", init_method=f"file://{place.absolute()}/met/store", rank=RANK,
                                             world_size=2)
        from oumi.core.callbacks.telemetry_callback import TelemetryCallback
        self.callback = TelemetryCallback(skip_first_steps=0, world_process_zero_only=False, output_dir=place)
        self.of_trainer = {"args": None, "state": None, "control": None}
        self.callback.on_epoch_begin(**self.of_trainer)
        self.span = self.callback._telemetry.timer  # of the callback, whose files have its timers
    def begin(self, step): self.callback.on_step_begin(**self.of_trainer)
    def end(self, step, loss): self.callback.on_step_end(**self.of_trainer)
    def close(self):
        self.callback.on_epoch_end(**self.of_trainer)
        self.callback.on_train_end(**self.of_trainer)

class Titantrace(Nobody):
    def __init__(self):
        import titantrace
        self.span, self.begin, self.metric = titantrace.span, titantrace.step, titantrace.metric
    def end(self, step, loss): self.metric("loss", loss)

def meet(step):
    pathlib.Path(f"met/{RANK}-{step}").touch()
    while not pathlib.Path(f"met/{1 - RANK}-{step}").exists():
        time.sleep(0.0002)

told = {"nobody": Nobody, "torchtitan": Torchtitan, "one-logger": OneLogger, "oumi": Oumi,
        "titantrace": Titantrace}[WHO]()
used_ns = 0
for step in range(STEPS):
    loss = math.nan if step == BAD and RANK == 1 else 2 - step / STEPS
    begun_ns = time.process_time_ns()
    told.begin(step)
    for name in NAMES[:1]:
        with told.span(name):
            used_ns += time.process_time_ns() - begun_ns
            time.sleep(0.002 + 0.003 * RANK)
            begun_ns = time.process_time_ns()
    for name in NAMES[1:-1]:
        with told.span(name):
            pass
    with told.span(NAMES[-1]):
        used_ns += time.process_time_ns() - begun_ns
        meet(step)
        begun_ns = time.process_time_ns()
    told.end(step, loss)
    used_ns += time.process_time_ns() - begun_ns
begun_ns = time.process_time_ns()
told.close()
print("used", used_ns + time.process_time_ns() - begun_ns)
"""
GANTT = """
import pathlib
from torchtitan.observability.structured_logger.gantt_generator import generate_gantt_trace
logs, = {path.parent for path in pathlib.Path(".").rglob("*.jsonl")}
generate_gantt_trace(str(logs), "gantt.json")
"""


def environment(build, place, package):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TITANTRACE", "PYTHON", "TITAN_"))}
    return {**kept, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "PYTHONPATH": str(package),
            "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1",
            "TITANTRACE_RING_DIR": str(place / "rings"), "TITANTRACE_DIR": str(place / "dumps"),
            "TITANTRACE_RUN_ID": "beside", "LD_PRELOAD_OF_IT": str(build / "interpose" / "libtitantrace.so")}


def train(who, steps, build, place, package):
    """The processor time of a span, in nanoseconds, and the bytes that are left."""
    for name in ("met", "rings"):
        (place / name).mkdir()
    env = environment(build, place, package)
    if who == "titantrace":
        env["LD_PRELOAD"] = env["LD_PRELOAD_OF_IT"]
    ranks = [subprocess.Popen([PYTHON, "-c", PROGRAM, who, str(steps), str(steps // 2), *NAMES], cwd=place, text=True,
                              env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for rank in range(2)]
    outputs = [rank.communicate(timeout=600) for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{who}: {outputs}")
    used_ns = sum(int(line.split()[1]) for out, _ in outputs for line in out.splitlines() if line.startswith("used "))
    left = [path for path in place.rglob("*") if path.is_file() and path.parent.name not in ("met", "rings")]
    return used_ns / (2 * steps * SPANS), sum(path.stat().st_size for path in left)


def timed(command, place, env=None, good=(0,)):
    begun = time.monotonic()
    done = subprocess.run(list(map(str, command)), cwd=place, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in good:
        raise SystemExit(f"{command}: status {done.returncode}: {done.stderr}")
    return time.monotonic() - begun, done.stdout


def picture(who, build, place, env):
    """How long the picture takes that each has of its own, and what it shows."""
    analyze = build / "analyzer" / "titan-analyze"
    if who == "torchtitan":
        took_s, _ = timed([PYTHON, "-c", GANTT], place, env)
        events = json.loads((place / "gantt.json").read_text())["traceEvents"]
        spans = sum(event["ph"] == "X" for event in events)
        return took_s, f"timeline (Chrome's JSON): {spans} spans of {len({e['pid'] for e in events})} files"
    if who == "one-logger":
        records = [json.loads(line) for path in place.glob("telemetry-*.json") for line in path.open()]
        spans = {record["name"] for record in records if "name" in record}
        return None, (f"none of its own; {len(records)} records for a backend, {len(spans & set(NAMES))} of {SPANS} "
                      "spans")
    if who == "oumi":
        together = json.loads((place / "telemetry_callback_all_ranks.json").read_text())
        timers = {len(of_rank["timers"]) for of_rank in together.values()}
        return None, f"none of its own; statistics of {max(timers)} timers of each of {len(together)} ranks"
    if who == "titantrace":
        dumps = place / "dumps"
        took_s, _ = timed([analyze, "timeline", dumps, "--no-rings", "-o", place / "run.perfetto-trace"], place)
        page_s, _ = timed([analyze, "report", dumps, "--no-rings", "--json"], place)
        line = timed([analyze, "--oneline", "--no-rings", dumps], place, good=(0, 1))[1].strip()
        if "metrics not finite: loss, rank 1" not in line or "waits for data" not in line:
            raise SystemExit(f"what is wrong is not told: {line}")
        return took_s, f"timeline (Perfetto), page in {page_s:.1f} s; \"{line.partition(': ')[2]}\""
    return None, "nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    if not PYTHON.exists():
        print(f"there is no {PYTHON}: scripts/setup --bridges makes it")
        return 77
    build = options.build.resolve()
    plain_ns = 0
    spans = 2 * options.steps * SPANS
    print(f"2 ranks, {options.steps} steps, {spans} spans")
    for who in ("nobody", "torchtitan", "one-logger", "oumi", "titantrace"):
        with tempfile.TemporaryDirectory() as holder:
            place = pathlib.Path(holder)
            extension = build / "python" / "_spans.abi3.so"
            package = python_package.stage(place / "package", extension if extension.exists() else None)
            run = place / "run"
            run.mkdir()
            cost_ns, left_bytes = train(who, options.steps, build, run, package)
            plain_ns = cost_ns if who == "nobody" else plain_ns
            took_s, shows = picture(who, build, run, environment(build, run, package))
            print(f"{who:<10} {left_bytes / spans:8.1f} bytes and {(cost_ns - plain_ns) / 1000:7.2f} us of a processor "
                  f"per span; picture {'-' if took_s is None else f'{took_s:.1f} s'}: {shows}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
