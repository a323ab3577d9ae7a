#!/usr/bin/env python3
"""titan-analyze beside PyTorch's fr_trace on the same Flight Recorder files: seconds by the clock and peak memory, side
by side in one run. Both read the files once before they are measured, so that they come from the page cache for both.

    flight_recorder_costs.py --analyzer BUILD/analyzer/titan-analyze --python PYTHON [--ranks 1024] [--entries 2000]
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from machine_costs import row

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "synth"))
import fr_files  # noqa: E402

PREFIX = "nccl_trace_rank_"
GROUP = 8
SITES = [[{"name": name, "filename": f"/opt/job/{file}.py", "line": line} for name, file, line in
          (("all_reduce", "torch/distributed/distributed_c10d", 2810), (caller, "model", 100 + index),
           ("train_step", "train", 212))]
         for index, caller in enumerate(("attention", "mlp", "backward", "optimizer_step"))]


def job_of(rank, ranks, entries):
    """
    One rank of a data and tensor parallel training, whose last call still waits for rank 1, which never came. Calls
    from the same place share their frames, as in PyTorch's own files.
    """
    job = fr_files.Job(ranks)
    tensor = rank // GROUP
    group = f"tp{tensor}"
    job.group(group, "tp", range(tensor * GROUP, min(ranks, (tensor + 1) * GROUP)))
    for index in range(entries - (1 if rank == 1 else 0)):
        last = index == entries - 1
        job.call(rank, "0" if index % 4 == 3 or last else group, "all_reduce", [[1024 << index % 7, 16]],
                 state="scheduled" if last else "completed", frames=SITES[index % len(SITES)])
    return job


def write(directory, ranks, entries, as_json=False):
    """Files as PyTorch writes them, by its pickler or as JSON; returns their bytes."""
    for rank in range(ranks):
        job_of(rank, ranks, entries).write(directory, without=set(range(ranks)) - {rank}, prefix=PREFIX,
                                           as_json=as_json)
    return sum(path.stat().st_size for path in directory.iterdir())


def run(argv, log):
    """(seconds, seconds on a core, peak bytes, exit status) of a program, which says what it says into `log`."""
    started = time.perf_counter()
    actions = [(os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
               (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawn(str(argv[0]), [str(argument) for argument in argv], dict(os.environ), file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    return (time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024,
            os.waitstatus_to_exitcode(status))


def flight_recorder_costs(analyzer, python, ranks=1024, entries=2000):
    """Rows of a bench table. Raises RuntimeError where one of the two does not find the missing rank."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="titan-bench-fr-"))
    try:
        files = directory / "fr"
        files.mkdir()
        size_bytes = write(files, ranks, entries)
        log = directory / "log"
        ours = min(run([analyzer, files, "--no-rings"], log) for _ in range(3))
        seconds, core_seconds, peak_bytes, exit_status = ours
        if exit_status != 1 or not re.search(r"rank 1\b.*never called", log.read_text().replace("\n", " ")):
            raise RuntimeError(f"titan-analyze, status {exit_status}: {log.read_text()[-2000:]}")
        as_json = directory / "json"
        as_json.mkdir()
        write(as_json, ranks, entries, as_json=True)
        json_seconds, _, json_peak_bytes, json_status = min(run([analyzer, as_json, "--no-rings"], log)
                                                            for _ in range(3))
        if json_status != 1:
            raise RuntimeError(f"titan-analyze of JSON, status {json_status}: {log.read_text()[-2000:]}")
        theirs = run([python, "-m", "torch.distributed.flight_recorder.fr_trace", files, "-p", PREFIX], log)
        if theirs[3] != 0 or "missing ranks: {1}" not in log.read_text():
            raise RuntimeError(f"fr_trace, status {theirs[3]}: {log.read_text()[-2000:]}")
    finally:
        shutil.rmtree(directory)
    what = f"Flight Recorder, {ranks} ranks x {entries} entries"
    return [row(f"{what}: fr_trace", theirs[0], None, "s"), row(f"{what}: titan-analyze", seconds, None, "s"),
            row("titan-analyze reads", size_bytes / seconds / 1e6, None, "MB/s"),
            row("time, titan-analyze of JSON / of pickles", json_seconds / seconds, 2, ""),
            row("titan-analyze's peak memory, JSON", json_peak_bytes / 1e6, 300, "MB"),
            row("time, titan-analyze / fr_trace", seconds / theirs[0], 0.01, ""),
            row("time on a core, titan-analyze / fr_trace", core_seconds / theirs[1], None, ""),
            row("fr_trace's peak memory", theirs[2] / 1e6, None, "MB"),
            row("titan-analyze's peak memory", peak_bytes / 1e6, None, "MB"),
            row("memory, titan-analyze / fr_trace", peak_bytes / theirs[2], 1, "")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", required=True, type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=2000)
    options = parser.parse_args()
    for measured in flight_recorder_costs(options.analyzer, options.python, options.ranks, options.entries):
        print(measured)


if __name__ == "__main__":
    main()
