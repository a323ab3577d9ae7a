"""What the recorder costs a whole simulated training loop, and which part of it costs what.

A run's start-up cancels out: each figure is (long run - short run) / steps between. Variants take turns, so that the
machine's moods strike all of them; what is compared is the median of the ratios within one round. Processor time is
quoted beside the clock, because on a machine with fewer cores than ranks everything that the recorder's threads do
delays the loop."""
import os
import statistics
import tempfile
import time

from instruction_counts import environment
from machine_costs import row

SHORT, LONG = 10, 60
# The host is busy for a while in every step and launches kernels, as a framework does; the device works beside it.
LOOP = ["--ranks", "8", "--tp", "2", "--pp", "2", "--work-ms", "8", "--step-ms", "20", "--kernels", "40", "--bytes",
        "16k"]
# name, settings; the first is everything on, as it comes.
VARIANTS = [("everything on", {}),
            ("without device progress", {"TITANTRACE_GPU_PROGRESS": "off"}),
            ("without CUDA calls", {"TITANTRACE_CUDA": "off"}),
            ("device progress by events", {"TITANTRACE_GPU_PROGRESS": "events"}),
            ("device progress by timing", {"TITANTRACE_GPU_PROGRESS": "timing"}),
            ("switched off (TITANTRACE=0)", {"TITANTRACE": "0"}),
            ("the same again without the preload", None)]  # what this machine's moods make of no difference at all


def run(simulator, steps, env):
    """(seconds by the clock, seconds of processors) of one job."""
    started = time.perf_counter()
    devnull = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    pid = os.posix_spawn(str(simulator), [str(simulator), *LOOP, "--steps", str(steps)], env, file_actions=devnull)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"titan-sim ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def per_step(simulator, env):
    short, long = run(simulator, SHORT, env), run(simulator, LONG, env)
    return [(b - a) / (LONG - SHORT) for a, b in zip(short, long)]


def training_costs(simulator, library, stand_ins, rounds=5):
    ratios = {name: ([], []) for name, _ in VARIANTS}
    plain_ms = []
    with tempfile.TemporaryDirectory() as directory:
        def settings(preload, extra):
            return {**environment(directory, preload), "LD_LIBRARY_PATH": stand_ins, **extra}
        for turn in range(rounds):
            order = [("", None)] + VARIANTS
            order = order[turn % len(order):] + order[:turn % len(order)]
            measured = {name: per_step(simulator, settings(None if extra is None else library, extra or {}))
                        for name, extra in order}
            plain = measured.pop("")
            plain_ms.append(plain[0] * 1e3)
            for name, (clock, processors) in measured.items():
                ratios[name][0].append(clock / plain[0])
                ratios[name][1].append(processors / plain[1])
    rows = [row("a step without the preload", statistics.median(plain_ms), None, "ms")]
    for name, (clock, processors) in ratios.items():
        budget = 1.01 if name == VARIANTS[0][0] else None
        rows.append(row(f"step, {name}: clock", statistics.median(clock), budget, "times"))
        rows.append(row(f"step, {name}: processors", statistics.median(processors), None, "times"))
    return rows
