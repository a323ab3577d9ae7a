"""What the journal of a node takes: bytes per span, processor time of the thread that writes it, and looks at the file
system. Eight ranks, ten steps a second, ten spans in each.

    python3 tests/bench/journal_costs.py --build build [--seconds 70] [--every-s 30]
"""
import argparse
import os
import pathlib
import subprocess
import tempfile
import time

RANKS, SPANS, STEPS_PER_SECOND = 8, 10, 10
TORCHTITAN_BYTES = 2 * 544  # of a span: two records of its structured logger (0.3.0)


def writer_cpu_ns(jobs):
    """Of all threads that write journals: one, unless another rank took over."""
    total = 0
    for job in jobs:
        for task in pathlib.Path(f"/proc/{job.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "titan-journal":
                total += int((task / "schedstat").read_text().split()[0])
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=70)
    parser.add_argument("--every-s", type=float, default=30, help="TITANTRACE_JOURNAL_S")
    options = parser.parse_args()
    build = options.build.resolve()
    steps = int(options.seconds * STEPS_PER_SECOND)
    pause_us = int(1e6 / STEPS_PER_SECOND / (SPANS - 1))
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        settings = {"LD_PRELOAD": build / "interpose" / "libtitantrace.so",
                    "LD_LIBRARY_PATH": build / "tests" / "simgpu", "TITANTRACE_DIR": f"{place}/dumps",
                    "TITANTRACE_RING_DIR": rings, "TITANTRACE_JOURNAL_MIB": 64,
                    "TITANTRACE_JOURNAL_S": options.every_s, "E2E_MEET": place, "WORLD_SIZE": RANKS,
                    "LOCAL_WORLD_SIZE": RANKS}
        jobs = [subprocess.Popen([build / "tests" / "e2e" / "e2e-journal", str(steps), str(pause_us)],
                                 stdout=subprocess.PIPE, text=True,
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
    spans = RANKS * steps * SPANS
    print(f"{RANKS} ranks, {steps / took_s:.1f} steps per second, {spans} spans, and {RANKS * steps} steps and metrics")
    print(f"{size_bytes / spans:.1f} bytes per span; torchtitan's JSON Lines take {TORCHTITAN_BYTES}, "
          f"{100 * size_bytes / spans / TORCHTITAN_BYTES:.2f} % of that")
    print(f"titan-journal took {100 * used_ns / 1e9 / took_s:.4f} % of one core")


if __name__ == "__main__":
    main()
