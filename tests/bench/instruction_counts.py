"""Instructions that the recorder adds to one call, counted by callgrind, against their budgets.

Counted only inside measured() of count_calls, as a difference: (2N calls - N calls) / N with the preload, less the same
without it. Start-up, the first calls and the loop cancel out, and so the result is the same on every run. One process
makes all calls, because valgrind's own start takes most of the time.

Callgrind quirks: it counts instructions, not time (an rdtsc is one instruction, here and on the bill); without its vDSO
a clock_gettime is a system call, whose kernel side it does not count, so the numbers hold for the TSC clock only and a
machine without a trusted TSC is skipped; threads run one at a time, and the tracer's own threads are outside
measured().
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import python_package  # noqa: E402

CALLS = 1000
# What count_calls knows, and the budget of one call there: a span is two markers; graph_launch launches a graph with
# 100 all_reduces, empty_graph one without.
BUDGETS = [("all_reduce", 300),
           # The same from an NCCL that, as NVIDIA's does in each call, asks for the communicator's state through us.
           ("reduce_scatter", 320), ("step", 150), ("span", 2 * 150), ("event", 150), ("metric", 150),
           ("graph_launch", 100 * 140), ("empty_graph", 250),
           # A kernel launch, and one whose runtime calls a driver function that it looked up: our wrapper, passed
           # through.
           ("launch", 120), ("inner_launch", 150), ("event_record", None)]
# The same call on a device that is observed, by method: with the driver's part, which is next to nothing here (27
# instructions with writes).
OBSERVED = [("observed_all_reduce", method, budget)
            for method, budget in (("writes", 600), ("events", 650), ("timing", 650))]
# What finding out from where a call was made adds to it: from 24 native frames, and from 20 Python frames.
CALL_SITES = [("24 native frames", "collective:native", 3200), ("20 Python frames", "collective:python", 3700)]
# A span in Python, with what CPython itself does for a `with`, which differs from version to version: one that is made
# in Python takes ten times as many.
PYTHON_SPANS = [("span in Python", 4500), ("span in a task", 8500)]
# A lookup by dlsym may cost this many times a bare one: of a name of ours, and of one that only looks like it.
LOOKUPS = [("lookup", 2.0), ("foreign_lookup", 2.0)]


def tsc_is_used():
    """As the tracer decides: see base/clock.cpp."""
    def contains(path, *words):
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return any(word in text for word in words)
    return (contains("/proc/cpuinfo", "constant_tsc") and contains("/proc/cpuinfo", "nonstop_tsc")
            and contains("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc", "kvm-clock"))


def environment(directory, library=None, **settings):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TITANTRACE") and k != "LD_PRELOAD"}
    clean.update(TITANTRACE_RING_DIR=str(directory), TITANTRACE_DIR=f"{directory}/dumps", TITANTRACE_RUN_ID="bench")
    if library:
        clean["LD_PRELOAD"] = str(library)
    return {**clean, **settings}


def counts(command, library, **settings):
    """Instructions inside each call of measured(), one after another."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=measured",
                   "--dump-after=measured",
                   f"--callgrind-out-file={directory}/counts", *map(str, command)]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment(directory, library, **settings),
                             check=False)
        dumps = sorted(pathlib.Path(directory).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        found = [int(re.search(r"^totals: (\d+)", path.read_text(), re.M).group(1)) for path in dumps]
    if ran.returncode or not found:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stderr[-2000:]}")
    return found


def per_call(program, calls, library, **settings):
    """What one call of each costs."""
    found = counts([program, ",".join(calls), CALLS], library, **settings)
    return dict(zip(calls, ((more - fewer) / CALLS for fewer, more in zip(found[::2], found[1::2]))))


def measure(program, library):
    """[{name, budget, measured}]: what the recorder adds to one call; [{name, limit, ratio}]: what a dlsym costs with
    the preload, in bare ones; and the bare counts."""
    calls = [call for call, _ in BUDGETS + LOOKUPS]
    bare, recorded = per_call(program, calls, None), per_call(program, calls, library)
    return ([{"name": call, "budget": budget, "measured": recorded[call] - bare[call]} for call, budget in BUDGETS],
            [{"name": call, "limit": limit, "ratio": recorded[call] / bare[call]} for call, limit in LOOKUPS], bare)


def measure_observed(program, library, bare):
    """[{name, budget, measured}]; tests/unit/tracer/gpu checks that each method records."""
    return [{"name": f"{call}, {method}", "budget": budget,
             "measured": per_call(program, [call], library, TITANTRACE_GPU_PROGRESS=method,
                                  NOTHING_CUDA_CONTEXT="1")[call] - bare["all_reduce"]}
            for call, method, budget in OBSERVED]


def measure_call_sites(program, calls_of_python, library):
    """[{name, budget, measured}]: with call sites less without them, both recorded."""
    def per_call_of(command, stacks):  # of the second repeat: all is known by then
        return counts(command, library, TITANTRACE_STACKS=stacks, RANK="0", WORLD_SIZE="8")[-1] / CALLS
    native = [program, "all_reduce", CALLS, 24, 2]
    python = [sys.executable, pathlib.Path(__file__).with_name("call_sites_program.py"), calls_of_python, 20, 0, CALLS,
              2]
    return [{"name": name, "budget": budget, "measured": per_call_of(command, stacks) - per_call_of(command, "dump")}
            for (name, stacks, budget), command in zip(CALL_SITES, (native, python))]


def measure_python_spans(call_back, library, extension):
    """[{name, budget, measured}]: with spans less the loop alone."""
    command = [sys.executable, pathlib.Path(__file__).with_name("python_spans_program.py"), call_back, CALLS]
    with tempfile.TemporaryDirectory() as place:
        found = counts(command, library, RANK="0", WORLD_SIZE="8", PYTHONDONTWRITEBYTECODE="1",
                       PYTHONPATH=str(python_package.stage(place, extension)))
    per_span = [(spans2 - spans - (nothing2 - nothing)) / CALLS
                for spans, spans2, nothing, nothing2 in zip(*(found[first::4] for first in range(4)))]
    return [{"name": name, "budget": budget, "measured": measured}
            for (name, budget), measured in zip(PYTHON_SPANS, per_span, strict=True)]


def table(rows):
    lines = [f"{'call':<27} {'budget':>7} {'measured':>9} {'of budget':>10}"]
    for row in rows:
        share = f"{row['measured'] / row['budget']:>9.0%}" if row["budget"] else ""
        lines.append(f"{row['name']:<27} {row['budget'] or '':>7} {row['measured']:>9.1f} {share}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--calls-of-python", help="libcall_sites.so; without it call sites are not counted")
    parser.add_argument("--call-back", help="libcall_back.so, for spans in Python")
    parser.add_argument("--extension", help="_spans.abi3.so; without it spans in Python are not counted")
    parser.add_argument("--check", action="store_true", help="exit 1 when a budget is exceeded")
    parser.add_argument("--sanitize", default="none")
    options = parser.parse_args()
    for reason in (not shutil.which("valgrind") and "valgrind is not installed",
                   options.sanitize != "none" and "a sanitized build has the sanitizer's instructions",
                   not tsc_is_used() and "this machine has no trusted TSC, so that another clock would be counted"):
        if reason:
            print(f"skipped: {reason}")
            return 77
    rows, lookups, bare = measure(options.program, options.library)
    if not options.check:
        rows += measure_observed(options.program, options.library, bare)
    if options.calls_of_python:
        rows += measure_call_sites(options.program, options.calls_of_python, options.library)
    if options.extension:
        rows += measure_python_spans(options.call_back, options.library, options.extension)
    print(table(rows))
    for row in lookups:
        print(f"{row['name']:<27} {row['limit']:>7} {row['ratio']:>9.2f} of a bare dlsym")
    # A tracer that recorded nothing would pass every budget: a record costs more than this.
    idle = [row["name"] for row in rows if row["measured"] < 25]
    over = [row["name"] for row in rows if row["budget"] and row["measured"] > row["budget"]]
    over += [row["name"] for row in lookups if row["ratio"] > row["limit"]]
    if idle:
        print(f"nothing was recorded by: {', '.join(idle)}")
    if over:
        print(f"over budget: {', '.join(over)}")
    return 1 if options.check and (idle or over) else 0


if __name__ == "__main__":
    sys.exit(main())
