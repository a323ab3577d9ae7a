"""titan-analyze against PyTorch's own fr_trace, on the same Flight Recorder dumps: time and memory of both, side by side.

    flight_recorder.py --build BUILD [--python PYTHON] [--ranks 64] [--entries 500] [--limit-s 600]

The dumps are invented (tests/synth/fr_files.py): one all_reduce after another, and a rank that leaves the last one out.
fr_trace runs in PYTHON, which needs PyTorch; the start of an interpreter with PyTorch is measured by itself and taken off.
"""
import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "synth"))
import fr_files  # noqa: E402

PREFIX = "nccl_trace_rank_"
IMPORT = "import torch.distributed.flight_recorder.fr_trace"


def write_dumps(directory, ranks, entries):
    """One file is made, the others are its copies under other names: a rank is what its file's name says."""
    job = fr_files.Job(ranks)
    missing = ranks // 2
    for rank in (0, missing):
        for i in range(entries - 1):
            job.call(rank, "0", "all_reduce", [[1024 + i % 7, 16]])
    job.call(0, "0", "all_reduce", [[1024, 16]], state="scheduled", retired=True)
    job.write(directory, without=set(job.ranks) - {0, missing})
    whole = (directory / f"{PREFIX}0").read_bytes()
    for rank in set(job.ranks) - {missing}:
        (directory / f"{PREFIX}{rank}").write_bytes(whole)
    return missing


def measure(argv, limit_s):
    """Seconds by the clock, seconds of processors (others may use the machine, too), peak MiB, output; None: too long."""
    begin = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, used, after.ru_maxrss / 1024, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=ROOT / ".venv" / "bin" / "python")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--entries", type=int, default=500)
    parser.add_argument("--limit-s", type=float, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        missing = write_dumps(directory, options.ranks, options.entries)
        size = sum(path.stat().st_size for path in directory.iterdir()) / 2**20
        print(f"{options.ranks} ranks x {options.entries} entries, {size:.0f} MiB")
        # The smaller one first: the system tells the peak of all children so far.
        ours = measure([options.build / "analyzer" / "titan-analyze", directory, "--no-rings"], options.limit_s)
        right = ours and f"rank {missing} never issued all_reduce #{options.entries}" in re.sub(r"\s+", " ", ours[3])
        verdict = "right" if right else "WRONG: " + ours[3]
        print(f"titan-analyze  {ours[0]:8.2f} s ({ours[1]:.2f} s of processors)  {ours[2]:6.0f} MiB  {verdict}")
        if not pathlib.Path(options.python).exists():
            print(f"fr_trace       not run: there is no {options.python}")
            return 0 if right else 1
        start = measure([options.python, "-c", IMPORT], options.limit_s)
        if start is None or "Error" in start[3]:
            print(f"fr_trace       not run: no PyTorch in {options.python}")
            return 0 if right else 1
        theirs = measure([options.python, "-m", "torch.distributed.flight_recorder.fr_trace", directory, "-p", PREFIX],
                         options.limit_s)
        if theirs is None:
            print(f"fr_trace       more than {options.limit_s:.0f} s: at least {options.limit_s / ours[0]:.0f} times slower")
        else:
            named = "right" if f"missing ranks: {{{missing}}}" in theirs[3] else "does not name the rank"
            seconds, used = (max(theirs[i] - start[i], 0) for i in (0, 1))
            print(f"fr_trace       {seconds:8.2f} s ({used:.2f} s of processors)  {theirs[2]:6.0f} MiB  {named}: "
                  f"{seconds / ours[0]:.0f} times slower, with {used / ours[1]:.0f} times the processor time")
        return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
