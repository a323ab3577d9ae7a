"""What happens to files between the job and the reader."""

import glob
import os

from engine import S, Engine


def path(directory: str, rank: int) -> str:
    """The rank's file, of either recorder."""
    found = glob.glob(os.path.join(directory, "*", "0", "rank%05d.1.titan" % rank))
    return found[0] if found else os.path.join(directory, "nccl_trace_rank_%d" % rank)


def lose(ranks):
    def damage(case, directory, writer):
        for rank in ranks:
            if os.path.exists(path(directory, rank)):
                os.remove(path(directory, rank))
    return damage


def truncate(rank: int):
    def damage(case, directory, writer):
        name = path(directory, rank)
        size = os.path.getsize(name)
        times = os.stat(name)
        with open(name, "r+b") as file:
            file.truncate(int(size * (0.2 + 0.6 * case.rng.random())))
        os.utime(name, ns=(times.st_mtime_ns, times.st_mtime_ns))
    return damage


def copied_without_times(hours: float):
    """All files have the time of the copy."""
    def damage(case, directory, writer):
        copied = case.settings.epoch_ns + int(hours * 3600) * S
        for i, name in enumerate(sorted(os.listdir(directory))):
            os.utime(os.path.join(directory, name), ns=(copied + i * 1000000, copied + i * 1000000))
    return damage


def stale(rank: int):
    """The rank left no dump now, but yesterday's run, which went well, did."""
    def damage(case, directory, writer):
        for program, ops in zip(case.job.programs, case.sound):
            program.ops = ops
        yesterday = Engine(case.job, case.rng)
        yesterday.run(case.until_ns)
        case.settings.epoch_ns -= 86400 * S - case.rng.randrange(3600) * S
        old = type(writer)(yesterday, case.settings, case.rng)
        old.write(directory, rank, yesterday.now + case.rng.randrange(S))
    return damage


def mixed_formats(case, directory, writer):
    """Some ranks' files are JSON, the others' pickles."""
    for rank in sorted(case.dumps):
        if case.rng.random() < 0.5 and os.path.exists(path(directory, rank)):
            writer.write(directory, rank, case.dumps[rank], as_json=case.settings.format != "json")
