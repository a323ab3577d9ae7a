"""What the journal of a node takes: bytes per span, and processor time of the thread that writes it; rows for
scripts/bench. Eight ranks, ten steps a second, ten spans in each.

    python3 tests/bench/journal_costs.py --build build [--seconds 70] [--every-s 30]
"""
import argparse
import os
import pathlib
import subprocess
import tempfile
import time

from machine_costs import row

RANKS, SPANS, STEPS_PER_SECOND = 8, 10, 10
TORCHTITAN_BYTES = 2 * 544  # of a span: two records of its structured logger (0.3.0)
BUDGET_BYTES = TORCHTITAN_BYTES / 100
BUDGET_PERCENT = 0.1  # of a core


def writer_cpu_ns(jobs):
    """Of all threads that write journals: one, unless another rank took over."""
    total = 0
    for job in jobs:
        for task in pathlib.Path(f"/proc/{job.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "titan-journal":
                total += int((task / "schedstat").read_text().split()[0])
    return total


def measure(library, program, stand_ins, seconds, every_s):
    """Bytes of the journals, processor time of their writer in percent of a core, and steps."""
    steps = int(seconds * STEPS_PER_SECOND)
    pause_us = int(1e6 / STEPS_PER_SECOND / (SPANS - 1))
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        settings = {"LD_PRELOAD": library, "LD_LIBRARY_PATH": stand_ins, "TITANTRACE_DIR": f"{place}/dumps",
                    "TITANTRACE_RING_DIR": rings, "TITANTRACE_JOURNAL_MIB": 64, "TITANTRACE_JOURNAL_S": every_s,
                    "E2E_MEET": place, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS}
        jobs = [subprocess.Popen([program, str(steps), str(pause_us)], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, **{name: str(value) for name, value in settings.items()},
                                      "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(RANKS)]
        began = time.monotonic()
        for job in jobs:
            job.stdout.readline()
        took_s, used_ns = time.monotonic() - began, writer_cpu_ns(jobs)
        pathlib.Path(place, "go").touch()
        for job in jobs:
            job.wait()
        size_bytes = sum(path.stat().st_size for path in pathlib.Path(place).rglob("*.journal"))
    return size_bytes, 100 * used_ns / 1e9 / took_s, steps, took_s


def journal_costs(library, program, stand_ins):
    size_bytes, percent, steps, _ = measure(library, program, stand_ins, 40, 15)
    return [row(f"journal of {RANKS} ranks, a span", size_bytes / (RANKS * steps * SPANS), BUDGET_BYTES, "bytes"),
            row(f"its writer, {RANKS * STEPS_PER_SECOND * SPANS} spans a second", percent, BUDGET_PERCENT, "% core")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=70)
    parser.add_argument("--every-s", type=float, default=30, help="TITANTRACE_JOURNAL_S")
    options = parser.parse_args()
    build = options.build.resolve()
    size_bytes, percent, steps, took_s = measure(build / "interpose" / "libtitantrace.so",
                                                 build / "tests" / "e2e" / "e2e-journal", build / "tests" / "simgpu",
                                                 options.seconds, options.every_s)
    spans = RANKS * steps * SPANS
    print(f"{RANKS} ranks, {steps / took_s:.1f} steps per second, {spans} spans, and {RANKS * steps} steps and metrics")
    print(f"{size_bytes / spans:.1f} bytes per span; torchtitan's JSON Lines take {TORCHTITAN_BYTES}, "
          f"{100 * size_bytes / spans / TORCHTITAN_BYTES:.2f} % of that")
    print(f"titan-journal took {percent:.4f} % of one core")


if __name__ == "__main__":
    main()
