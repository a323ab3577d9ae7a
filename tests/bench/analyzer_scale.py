#!/usr/bin/env python3
"""Time, memory and rate of titan-analyze over synthetic runs of several sizes.

  analyzer_scale.py --analyzer PROGRAM --synth PROGRAM [--full] [--check]

--full: the sizes of the issue, 1,024 ranks x 16,384 calls and 16,384 x 2,000 (about 1.2 GB of temporary files).
--check: two small sizes, and exit status 1 when an entry more costs more memory than its budget. The rate counts the
bytes of recorded calls that the dumps unpack to, per second of processor time: it does not depend on how many cores
there are.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

RECORD_BYTES = 192  # of one call in a ring
SIZES = ((256, 2000), (512, 2000), (1024, 2000))
FULL_SIZES = ((1024, 16384), (16384, 2000))
CHECK_SIZES = ((32, 4096), (96, 4096))
ENTRY_BUDGET_BYTES = 64  # of memory, for a call more in rings that are otherwise alike; 16 for when it came and went


def write_run(synth, directory, ranks, calls):
    subprocess.run([str(synth), str(directory), "--ranks", str(ranks), "--large", str(calls), "--fault", "sleep",
                    "--rank", str(ranks // 2)], check=True, stdout=subprocess.DEVNULL)


def measured(analyzer, arguments):
    """(report, processor seconds, peak MiB) of a command."""
    reading, writing = os.pipe()
    pid = os.posix_spawn(str(analyzer), [str(analyzer), *map(str, arguments)], os.environ,
                         file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)])
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        report = pipe.read()
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise RuntimeError(f"titan-analyze ended with {os.waitstatus_to_exitcode(status)}")
    return report, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(analyzer, synth, ranks, calls):
    """What one size costs: the dumps at once, and in two steps by digests."""
    with tempfile.TemporaryDirectory() as directory:
        dumps, digests = pathlib.Path(directory) / "dumps", pathlib.Path(directory) / "digests"
        write_run(synth, dumps, ranks, calls)
        report, seconds, peak = measured(analyzer, ["--json", "--no-rings", dumps])
        if f'"ranks": [{ranks // 2}]'.encode() not in report:
            raise RuntimeError(f"{ranks} x {calls}: the verdict does not name rank {ranks // 2}")
        _, map_seconds, _ = measured(analyzer, ["digest", "--no-rings", dumps, "--into", digests])
        reduced, reduce_seconds, reduce_peak = measured(analyzer, ["--json", "--no-rings", digests])
        if reduced != report:
            raise RuntimeError(f"{ranks} x {calls}: the digests give another report than the dumps")
        size = sum(path.stat().st_size for path in digests.rglob("*.digest"))
        summary, summary_seconds, summary_peak = measured(analyzer, ["summary", "--json", "--no-rings", dumps])
        if f'"ranks_on_record":{ranks}'.encode() not in summary:
            raise RuntimeError(f"{ranks} x {calls}: the summary is not of all ranks")
        trace = pathlib.Path(directory) / "run.perfetto-trace"
        _, timeline_seconds, timeline_peak = measured(
            analyzer, ["timeline", "--no-rings", "--limit-mb", "100000", "-o", trace, dumps])
        trace_mb = trace.stat().st_size / 1e6
    return {"ranks": ranks, "calls": calls, "seconds": seconds, "peak_mib": peak,
            "rate": ranks * calls * RECORD_BYTES / 1e6 / max(seconds, 1e-9), "digest_kb": size / ranks / 1e3,
            "summary_seconds": summary_seconds, "summary_peak_mib": summary_peak,
            "timeline_rate": trace_mb / max(timeline_seconds, 1e-9), "timeline_peak_mib": timeline_peak,
            "map_seconds": map_seconds, "reduce_seconds": reduce_seconds, "reduce_peak_mib": reduce_peak}


def check(analyzer, synth):
    small, large = (measure(analyzer, synth, *size) for size in CHECK_SIZES)
    entries = large["ranks"] * large["calls"] - small["ranks"] * small["calls"]
    each = (large["peak_mib"] - small["peak_mib"]) * 2**20 / entries
    print(f"memory for a call more: {each:.1f} bytes (budget {ENTRY_BUDGET_BYTES}), "
          f"a digest takes {large['digest_kb']:.1f} kB per rank")
    return 0 if each <= ENTRY_BUDGET_BYTES else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", required=True, type=pathlib.Path)
    parser.add_argument("--synth", required=True, type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check(options.analyzer, options.synth)
    print(f"{'ranks':>6} {'calls':>6} {'cpu s':>7} {'MB/s per core':>14} {'peak MiB':>9} | {'kB per rank':>11} "
          f"{'map s':>7} {'reduce s':>8} {'peak MiB':>9} | {'summary s':>9} {'peak MiB':>9} | {'timeline MB/s':>13} "
          f"{'peak MiB':>9}")
    for size in SIZES + (FULL_SIZES if options.full else ()):
        m = measure(options.analyzer, options.synth, *size)
        print(f"{m['ranks']:>6} {m['calls']:>6} {m['seconds']:>7.2f} {m['rate']:>14.0f} {m['peak_mib']:>9.0f} | "
              f"{m['digest_kb']:>11.1f} {m['map_seconds']:>7.2f} {m['reduce_seconds']:>8.2f} "
              f"{m['reduce_peak_mib']:>9.0f} | {m['summary_seconds']:>9.2f} {m['summary_peak_mib']:>9.0f} | "
              f"{m['timeline_rate']:>13.0f} {m['timeline_peak_mib']:>9.0f}",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
