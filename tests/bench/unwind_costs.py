"""What finding the callers of a call costs: our unwind rules beside libunwind's cached trace, both warm and in turns.

The figures decide whether rules of our own are worth their code: they are where libunwind takes twice as long or
longer."""
import shutil
import subprocess

from instruction_counts import counts
from machine_costs import not_measured, row

WALKS, COUNTED, FRAMES, REPEATS, ROUNDS = 20_000, 1000, 24, 5, 5


def nanoseconds(program, walk):
    ran = subprocess.run([str(program), walk, str(WALKS), str(FRAMES), str(REPEATS)], capture_output=True, text=True,
                         check=True)
    return float(ran.stdout)


def instructions(program, walk):
    return counts([program, walk, COUNTED, FRAMES, 1], None)[-1] / COUNTED  # the last of two: all is known by then


def compared(measured, what, unit):
    ours, theirs = measured["ours"], measured["libunwind"]
    return [row(f"walk of {FRAMES} frames, our rules: {what}", ours, None, unit),
            row(f"walk of {FRAMES} frames, libunwind: {what}", theirs, None, unit),
            row(f"libunwind / our rules: {what}", theirs / ours, None, "times")]


def unwind_costs(program):
    rounds = [{walk: nanoseconds(program, walk) for walk in ("ours", "libunwind")} for _ in range(ROUNDS)]
    rows = compared({walk: min(each[walk] for each in rounds) for walk in rounds[0]}, "time", "ns")
    if not shutil.which("valgrind"):
        return rows + [not_measured(f"walk of {FRAMES} frames: instructions", "valgrind is not installed")]
    return rows + compared({walk: instructions(program, walk) for walk in ("ours", "libunwind")}, "instructions", "")
