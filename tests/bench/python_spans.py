"""What a span costs in Python, in one process and one loop: titantrace's, and torchtitan's by its own handler, by our
handler beside it, and by ours in its place.

    .venv/bin/python tests/bench/python_spans.py --library LIB        needs scripts/setup --bridges, and PyTorch
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
JSONL = "torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler"
HANDLERS = {"torchtitan, JSONL": JSONL, "torchtitan, JSONL and ours": JSONL + ",titantrace.torchtitan.handler",
            "torchtitan, ours in its place": "titantrace.torchtitan.replace"}

# Prints the nanoseconds of each round: [torchtitan's, titantrace's], by turns.
PROGRAM = r"""
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
from torchtitan.observability import structured_logger as sl
import titantrace
sl.init_structured_logger(source="bench", output_dir=sys.argv[1], rank=0)
sl.set_step(1)
titantrace.step(1)

def theirs(count):
    for _ in range(count):
        with sl.log_trace_span("forward"):
            pass

def ours(count):
    for _ in range(count):
        with titantrace.span("forward"):
            pass

def timed(work, count=2000):
    begun = time.perf_counter_ns()
    work(count)
    return (time.perf_counter_ns() - begun) / count

timed(theirs), timed(ours)
print(json.dumps([[timed(theirs), timed(ours)] for _ in range(20)]))
"""


def rounds(library, handlers):
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT / '.venv' / 'bridges'}",
                       "LD_PRELOAD": library, "RANK": "0", "WORLD_SIZE": "8", "TITANTRACE_DIR": f"{place}/dumps",
                       "TITANTRACE_RING_DIR": place, "TITAN_STRUCT_LOGGER_HANDLERS": handlers}
        ran = subprocess.run([sys.executable, "-c", PROGRAM, place], env=environment, capture_output=True, text=True,
                             check=True)
    return json.loads(ran.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    library = parser.parse_args().library
    print(f"{'median of 20 rounds of 2,000 spans':<36} {'us':>8} {'in spans of titantrace':>24}")
    for name, handlers in HANDLERS.items():
        measured = rounds(library, handlers)
        ratio = statistics.median(theirs / ours for theirs, ours in measured)
        for what, column in ((name, 0), ("titantrace, beside it", 1)):
            median_us = statistics.median(row[column] for row in measured) / 1000
            print(f"{what:<36} {median_us:>8.2f} {ratio if column == 0 else 1:>24.1f}")


if __name__ == "__main__":
    main()
