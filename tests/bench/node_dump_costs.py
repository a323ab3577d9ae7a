"""The dump of all ranks of a node at once, beside that of one: rows for scripts/bench.

Time is from the request to the last file with its final name, and ends with the processors: eight ranks on two of them
cannot take as long as one. What each rank's dump costs in processor time must not grow with the ranks; that is judged
on every machine.
"""
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from instruction_counts import environment
from machine_costs import row

SIZES = (1, 2, 4, 8)
ROUNDS = 5
MOST = 1.5  # times what one rank takes
APART_S = 2.5  # a request of another rank that comes sooner joins the last dump
COLLECTIVES = 20000  # more than the ring holds


class Rank:
    def __init__(self, program, number, env):
        self.process = subprocess.Popen([str(program), str(COLLECTIVES)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**env, "RANK": str(number), "LOCAL_RANK": str(number)})

    def ask(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()


def one_dump(ranks, dumps):
    """Milliseconds until the last file is there, and of processor time, of each rank."""
    before = [float(rank.ask("cpu")[0]) for rank in ranks]
    known = set(dumps.rglob("*.titan"))
    started_ns = time.time_ns()
    status, _ = ranks[0].ask("dump")
    deadline = time.monotonic() + 60
    while len(new := set(dumps.rglob("*.titan")) - known) < len(ranks):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(new)} of {len(ranks)} ranks dumped")
        time.sleep(0.05)
    if status != "0":
        raise RuntimeError(f"titan_dump returned {status}")
    wall_ms = (max(path.stat().st_ctime_ns for path in new) - started_ns) / 1e6
    time.sleep(APART_S)
    return wall_ms, statistics.mean(float(rank.ask("cpu")[0]) - used for rank, used in zip(ranks, before))


def dumps_of(program, library, size):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        dumps = pathlib.Path(directory) / "dumps"
        env = environment(directory, library, WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size),
                          TITANTRACE_KEEP=str(ROUNDS + 1))
        ranks = [Rank(program, number, env) for number in range(size)]
        try:
            for rank in ranks:
                rank.process.stdout.readline()
            return [one_dump(ranks, dumps) for _ in range(ROUNDS)]
        finally:
            for rank in ranks:
                rank.process.communicate()


def node_dump_costs(program, library):
    measured = {size: dumps_of(program, library, size) for size in SIZES}
    wall = {size: statistics.median(ms for ms, _ in rounds) for size, rounds in measured.items()}
    used = {size: statistics.median(ms for _, ms in rounds) for size, rounds in measured.items()}
    rows = []
    for size in SIZES:
        rows += [row(f"{size} rank{'s' if size > 1 else ''}: request to last dump", wall[size], None, "ms"),
                 row(f"{size} rank{'s' if size > 1 else ''}: processor time of each", used[size], None, "ms")]
    last, processors = SIZES[-1], len(os.sched_getaffinity(0))
    rows += [row(f"{last} ranks / 1, processor time of each", used[last] / used[1], MOST, "times"),
             row(f"{last} ranks / 1, time on {processors} processors", wall[last] / wall[1],
                 MOST if processors >= last else None, "times")]
    return rows
