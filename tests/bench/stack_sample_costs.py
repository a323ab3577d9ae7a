"""What a sample of stacks costs (TITANTRACE_STACK_SAMPLES_S): how long it holds a thread that runs, the time of the
tracer's own thread, and how many waits signals end early on a busy machine."""
import contextlib
import os
import pathlib
import statistics
import subprocess
import tempfile

from instruction_counts import environment
from machine_costs import row

SECONDS = 6
DEPTHS = (10, 100)  # frames of 1 KiB


def watch_ns(pid):
    """Processor time of titan-watch."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "titan-watch":
            return int((task / "schedstat").read_text().split()[0])
    raise RuntimeError("no thread titan-watch")


def measured(client, analyzer, library, stand_ins, depth, seconds):
    """The longest gaps of the thread's own time, longest first; the time of titan-watch; the number of samples."""
    with tempfile.TemporaryDirectory() as directory:
        env = environment(directory, library, RANK="0", WORLD_SIZE="1", DEPTH=str(depth), WAIT_MS=str(SECONDS * 1000),
                          LD_LIBRARY_PATH=stand_ins, E2E_MEET=directory, TITANTRACE_STACK_SAMPLES_S=str(seconds))
        with subprocess.Popen([str(client), "gaps"], stdout=subprocess.PIPE, text=True, env=env) as program:
            gaps = []
            while (line := program.stdout.readline()) != "done\n":
                gaps.append(int(line))
            own_ns = watch_ns(program.pid)
            samples = 0
            if seconds:
                folded = subprocess.run([str(analyzer), "stacks", env["TITANTRACE_RING_DIR"], "--no-rings",
                                         "--folded", "-"], check=True, capture_output=True, text=True).stdout
                samples = sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines() if "deep at " in line)
            (pathlib.Path(directory) / "go").touch()
        return gaps, own_ns, samples


def ended_early(client, library, stand_ins):
    """Waits that signals ended, of four threads for each processor that run and wait by turns; and samples."""
    count = 4 * len(os.sched_getaffinity(0))
    ended = 0
    with contextlib.ExitStack() as stack:
        programs = []
        for _ in range(count):
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            env = environment(directory, library, RANK="0", WORLD_SIZE="1", WAIT_MS=str(SECONDS * 1000),
                              LD_LIBRARY_PATH=stand_ins, E2E_MEET=directory, TITANTRACE_STACK_SAMPLES_S="0.1")
            programs.append(stack.enter_context(subprocess.Popen([str(client), "alternating"], stdout=subprocess.PIPE,
                                                                 text=True, env=env)))
        for program in programs:
            ended += int(program.stdout.readline().split()[0])
            program.communicate()
    return ended, count * SECONDS * 10


def stack_sample_costs(client, analyzer, library, stand_ins):
    rows = []
    for depth in DEPTHS:
        gaps, own_ns, samples = measured(client, analyzer, library, stand_ins, depth, 0.1)
        _, usual_ns, _ = measured(client, analyzer, library, stand_ins, depth, 0)
        of = f"for a sample of {depth} KiB"
        rows += [row(f"a running thread is held {of}", statistics.median(gaps[:samples]) / 1e3, None, "us"),
                 row(f"time of titan-watch {of}", (own_ns - usual_ns) / samples / 1e3, None, "us")]
    ended, samples = ended_early(client, library, stand_ins)
    return rows + [row("waits ended early, of 1,000 samples", 1000 * ended / samples, 20, "")]
