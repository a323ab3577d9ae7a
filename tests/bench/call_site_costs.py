"""What finding out from where a call was made adds to it (TITANTRACE_STACKS=collective), beside the same call without,
in turns.

The stacks are as deep as the budgets say: 24 native frames, 20 Python frames."""
import pathlib
import subprocess
import sys
import tempfile

from instruction_counts import environment
from machine_costs import row

CALLS, REPEATS, ROUNDS = 50_000, 5, 5
BUDGET_NS = 1000
NATIVE_FRAMES, PYTHON_FRAMES = 24, 20
PROGRAM = pathlib.Path(__file__).with_name("call_sites_program.py")


def nanoseconds(command, library, stacks):
    with tempfile.TemporaryDirectory() as directory:
        env = environment(directory, library, TITANTRACE_STACKS=stacks, RANK="0", WORLD_SIZE="8")
        return float(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                                    env=env).stdout)


def added(command, library, stacks):
    """The least that it adds in any round: what else the machine does only ever adds to that."""
    return min(nanoseconds(command, library, stacks) - nanoseconds(command, library, "dump") for _ in range(ROUNDS))


def call_site_costs(program, calls_of_python, library, python=sys.executable):
    native = [program, "all_reduce", CALLS, NATIVE_FRAMES, REPEATS]
    of_python = [python, PROGRAM, calls_of_python, PYTHON_FRAMES, 0, CALLS, REPEATS]
    return [row("call site of 24 native frames", added(native, library, "collective:native"), BUDGET_NS, "ns"),
            row("call site of 20 Python frames", added(of_python, library, "collective:python"), BUDGET_NS, "ns"),
            row("call site of both, from Python", added(of_python, library, "collective"), None, "ns")]
