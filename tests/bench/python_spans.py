"""What a span costs in Python, in one process and one loop, by turns: titantrace's as it is (in C) and as its Python
does it, torchtitan's by its own handler, and one-logger's with its file exporter. Then torchtitan's once more in
processes of their own: with our handler beside its own, with ours alone, and with our drop-in.

    python_spans.py --library LIB --extension _spans.abi3.so       needs scripts/setup --bridges
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from instruction_counts import environment
from machine_costs import row

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import python_package  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = pathlib.Path(os.environ.get("TITAN_BRIDGES_PYTHON") or ROOT / ".venv-bridges" / "bin" / "python")
JSONL = "torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler"
HANDLERS = {"its own handler": JSONL, "its own handler and ours": JSONL + ",titantrace.torchtitan.handler",
            "our handler alone": "titantrace.torchtitan.handler", "our drop-in": "titantrace.torchtitan.replace"}
BUDGET_NS = 300
TIMES_CHEAPER = 100

# Prints the nanoseconds of a span of each, round by round.
PROGRAM = r"""
import asyncio, json, pathlib, sys, time, warnings
warnings.simplefilter("ignore")
from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.api.one_logger_provider import OneLoggerProvider
from nv_one_logger.api.timed_span import timed_span
from nv_one_logger.exporter.file_exporter import FileExporter
from nv_one_logger.recorder.default_recorder import DefaultRecorder
from torchtitan.observability import structured_logger as sl
import titantrace
place = pathlib.Path(sys.argv[1])
sl.init_structured_logger(source="bench", output_dir=str(place), rank=0)
sl.set_step(1)
OneLoggerProvider.instance().configure(OneLoggerConfig(application_name="bench", world_size_or_fn=8,
                                                       session_tag_or_fn="bench"),
                                       DefaultRecorder([FileExporter(place / "one_logger.json")]))
titantrace.step(1)
spans = {"titantrace": titantrace.span, "titantrace in Python": titantrace.span.__wrapped__,
         "torchtitan": sl.log_trace_span, "one-logger": timed_span}

def timed(span, count):
    begun = time.perf_counter_ns()
    for _ in range(count):
        with span("forward"):
            pass
    return (time.perf_counter_ns() - begun) / count

def in_a_function(span):
    with span("forward"):
        pass

def timed_in_functions(span, count):
    begun = time.perf_counter_ns()
    for _ in range(count):
        in_a_function(span)
    return (time.perf_counter_ns() - begun) / count

async def timed_in_a_task(span, count):
    return timed(span, count)

def timed_with_attributes(span, count):
    begun = time.perf_counter_ns()
    for i in range(count):
        with span("forward", microbatch=i, part="loss"):
            pass
    return (time.perf_counter_ns() - begun) / count

def round(count=1000):
    found = {name: timed(span, count) for name, span in spans.items()}
    return {**found, "titantrace, a call around each": timed_in_functions(titantrace.span, count),
            "titantrace, in a task of asyncio": asyncio.run(timed_in_a_task(titantrace.span, count)),
            "titantrace, with two attributes": timed_with_attributes(titantrace.span, count),
            "titantrace in Python, with two": timed_with_attributes(titantrace.span.__wrapped__, count)}

round()
print(json.dumps([round() for _ in range(20)]))
"""


# The same of torchtitan's span alone, with the handlers that the environment names.
OF_TORCHTITAN = r"""
import json, pathlib, sys, time
from torchtitan.observability import structured_logger as sl
sl.init_structured_logger(source="bench", output_dir=sys.argv[1], rank=0)
sl.set_step(1)

def round(count=1000):
    begun = time.perf_counter_ns()
    for _ in range(count):
        with sl.log_trace_span("forward"):
            pass
    return (time.perf_counter_ns() - begun) / count

round()
print(json.dumps([round() for _ in range(20)]))
"""


def rounds(library, extension, program=PROGRAM, handlers=JSONL):
    with tempfile.TemporaryDirectory() as place:
        package = python_package.stage(f"{place}/package", extension)
        env = environment(place, library, PYTHONPATH=str(package), PYTHONDONTWRITEBYTECODE="1", RANK="0",
                          WORLD_SIZE="8", TITAN_STRUCT_LOGGER_HANDLERS=handlers)
        ran = subprocess.run([PYTHON, "-c", program, place], env=env, capture_output=True, text=True, check=True)
        return json.loads(ran.stdout.splitlines()[-1])


def python_span_costs(library, extension):
    """Medians of the rounds, but for what has a budget in nanoseconds: its least, for what else the machine does only
    ever adds to that."""
    measured = rounds(library, extension)
    ours = "titantrace"

    def median(name):
        return statistics.median(found[name] for found in measured)

    def times(name):
        return statistics.median(found[name] / found[ours] for found in measured)

    return [row("span in Python", min(found[ours] for found in measured), BUDGET_NS, "ns"),
            *(row(f"span of {name}", median(name), None, "ns") for name in measured[0]),
            *(row(f"span of {name} / ours", times(name), TIMES_CHEAPER, "times", "above")
              for name in ("torchtitan", "one-logger")),
            *(row(f"torchtitan's span with {name}", min(rounds(library, extension, OF_TORCHTITAN, handlers)),
                  None, "ns") for name, handlers in HANDLERS.items())]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--extension", required=True)
    options = parser.parse_args()
    for found in python_span_costs(options.library, options.extension):
        budget = "" if found["budget"] is None else f"{found['better']} {found['budget']}"
        print(f"{found['name']:<44} {found['measured']:>10.1f} {found['unit']:<6} {budget}")


if __name__ == "__main__":
    main()
