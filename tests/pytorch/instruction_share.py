#!/usr/bin/env python3
"""Usage: tests/pytorch/instruction_share.py --build DIR [--program NAME] [--steps N]

How much of what a rank of programs/ddp.py executes is ours: one rank, under callgrind and the preload, with N and with
2N steps. Their difference is N steps without the start. A machine's speed and load are not in these figures, and hardly
its simulated devices:

  ours     instructions in libtitantrace.so, in all threads, and what it calls in the C library
  of       instructions of the program: Python, PyTorch, the C library. What the stand-ins execute for the GPU, the
           driver and NCCL is left out; what a real driver and NCCL would execute is missing, so that our share of a
           real job is smaller
"""
import argparse
import collections
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
import job  # noqa: E402

OURS = "libtitantrace.so"
C_LIBRARY = re.compile(r"(libc|libm|libpthread|libdl|ld-linux[-\w]*|libgcc_s|libstdc\+\+)\.so")
LIMIT_S = 1800


def start(place, program, steps, port):
    identity = {name: 0 for name in ("RANK", "LOCAL_RANK", "GROUP_RANK")} | {
        name: 1 for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    return place.start(["valgrind", "--tool=callgrind", "--callgrind-out-file=counts", job.PYTHON,
                        job.PROGRAMS / f"{program}.py", "--steps", steps],
                       job.environment(place, MASTER_ADDR="localhost", MASTER_PORT=port, **identity))


def counted(path):
    """{object: instructions in it} and {object: instructions of its calls from us} of callgrind's file (its format: the
    manual of callgrind). A call's line says what all below it executed."""
    names, within, called = {}, collections.Counter(), collections.Counter()

    def name(text):
        key, _, known = text.partition(" ")
        return names.setdefault(key, pathlib.Path(known).name)
    here = callee = None
    of_call = False
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in map(str.rstrip, lines):
            if line.startswith("ob="):
                here = name(line[3:])
            elif line.startswith("cob="):
                callee = name(line[4:])
            elif line.startswith("calls="):
                of_call = True
            elif line[:1] in "+-*0123456789" and line:
                cost = int(line.split()[1]) if " " in line else 0
                if not of_call:
                    within[here] += cost
                elif here == OURS and callee:
                    called[callee] += cost
                if of_call:
                    of_call, callee = False, None
    return within, called


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--program", default="ddp")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("instruction_share.py: valgrind is not installed")
    if not job.PYTHON.exists():
        sys.exit(f"instruction_share.py: no {job.PYTHON}: scripts/setup --pytorch installs it")
    harness.BUILD = options.build.resolve()
    places = [harness.Place() for _ in range(2)]
    try:
        ran = [start(place, options.program, options.steps * times, 29511 + times)
               for place, times in zip(places, (1, 2))]
        for one in ran:
            if one.wait(LIMIT_S) != 0:
                sys.exit(f"{options.program}.py ended with {one.status} under callgrind:\n{one.stderr[-2000:]}")
        fewer, more = (counted(place.path / "counts") for place in places)
    finally:
        for place in places:
            place.close()
    within, called = ({name: (more[part][name] - fewer[part][name]) / options.steps for name in more[part]}
                      for part in (0, 1))
    ours = within[OURS] + sum(cost for name, cost in called.items() if C_LIBRARY.match(name))
    stand_ins = {path.name for path in harness.stand_ins().iterdir()}
    program = {name: cost for name, cost in within.items() if name != OURS and name not in stand_ins}
    print(f"{options.program}.py, 1 rank, {options.steps} steps of {2 * options.steps}; instructions per step:")
    for name, cost in sorted(within.items(), key=lambda item: -item[1])[:12]:
        print(f"  {cost:>12,.0f}  {name}{' (stand-in: left out)' if name in stand_ins else ''}")
    print(f"ours {ours:,.0f}, of {sum(program.values()):,.0f}: {ours / sum(program.values()):.3%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
