"""The measurements that need a clock, the file system or another program: each function returns rows for scripts/bench.

A row is {name, measured, budget, unit, better: "below"|"above"}; budget is None where there is none. What could not be
measured has a row, too: measured is None, and why says the reason. Times are medians or ratios within one run, because
one machine's nanoseconds say nothing about another's.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import analyzer_scale
from instruction_counts import environment


def row(name, measured, budget, unit, better="below"):
    return {"name": name, "measured": measured, "budget": budget, "unit": unit, "better": better}


def not_measured(name, why):
    return {**row(name, None, None, ""), "why": why}


def within(entry):
    if entry["budget"] is None or entry["measured"] is None:
        return None
    return entry["measured"] <= entry["budget"] if entry["better"] == "below" else entry["measured"] >= entry["budget"]


# --- cost of a record ------------------------------------------------------------------------------------------------


def google_benchmark(program, library, directory, extra=None):
    """{benchmark: nanoseconds}, medians of seven repetitions."""
    run = subprocess.run([str(program), "--benchmark_format=json", "--benchmark_repetitions=7",
                          "--benchmark_min_time=0.1",
                          "--benchmark_report_aggregates_only=true"], capture_output=True, text=True, check=True,
                         env={**environment(directory, library), **(extra or {})})
    return {entry["run_name"]: entry["cpu_time"] for entry in json.loads(run.stdout)["benchmarks"]
            if entry.get("aggregate_name") == "median"}


def record_costs(program, library, lttng, why_no_lttng):
    """Both sides in one run of this function: with the preload less without it, and LTTng's two tracepoints beside (in
    the session whose environment `lttng` is; None: there is none, and why)."""
    with tempfile.TemporaryDirectory() as directory:
        extra = {"LTTNG_UST_REGISTER_TIMEOUT": "-1", **lttng} if lttng is not None else {}
        plain = google_benchmark(program, None, directory, extra)
        traced = google_benchmark(program, library, directory, extra)
    cost = {name: traced[name] - plain[name] for name in plain if name in traced}
    rows = [row("record one collective", cost["all_reduce"], None, "ns"),
            row("record one step marker", cost["step"], None, "ns"),
            row("record a span (two markers)", cost["span_begin_and_end"], None, "ns"),
            row("record one metric", cost["metric"], None, "ns")]
    pair, ratio = "two LTTng-UST tracepoints", "LTTng pair / our record"
    if "lttng_enter_and_leave" not in traced:
        why_no_lttng = ("record_cost was built without LTTng-UST: scripts/setup --bench installs it and configures the "
                        "build again")
    if why_no_lttng:
        return rows + [not_measured(name, why_no_lttng) for name in (pair, ratio)]
    return rows + [row(pair, traced["lttng_enter_and_leave"], None, "ns"),
                   row(ratio, traced["lttng_enter_and_leave"] / max(cost["all_reduce"], 0.01), 5.0, "times", "above")]


class NoLttng(Exception):
    """There can be no session here; the message says why."""


class LttngSession:
    """A snapshot (overwrite) session with the benchmark's events; uses a session daemon that runs, or its own."""

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory()
        self.environment = {"LTTNG_HOME": self.home.name}
        self.daemon = None
        self.name = f"titan-bench-{os.getpid()}"
        if self.lttng("list").returncode:
            self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel", "--quiet"],
                                           env={**os.environ, **self.environment},
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(100):
                if not self.lttng("list").returncode:
                    break
                time.sleep(0.1)
        for command in (["create", self.name, "--snapshot", f"--output={self.home.name}/trace"],
                        ["enable-event", "--userspace", "titan_bench:*", "--session", self.name], ["start", self.name]):
            done = self.lttng(*command)
            if done.returncode:
                self.__exit__()
                raise NoLttng(f"lttng {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return self.environment

    def lttng(self, *arguments):
        return subprocess.run(["lttng", *arguments], capture_output=True, text=True,
                              env={**os.environ, **self.environment},
                              check=False)

    def __exit__(self, *_):
        self.lttng("destroy", self.name)
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait()
        self.home.cleanup()


# --- a process that has no use for us --------------------------------------------------------------------------------


def spawn_seconds(command, env):
    started = time.perf_counter()
    pid = os.posix_spawn(command[0], command, env)
    os.waitpid(pid, 0)
    return time.perf_counter() - started


def dormant_costs(library, python, pairs=150):
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        plain, preloaded = environment(directory), environment(directory, library)
        for name, command in (("/bin/true", ["/bin/true"]), ("python3 -c pass", [python, "-S", "-c", "pass"])):
            differences = []
            for turn in range(pairs):  # who goes first alternates: the second one finds warmer caches
                order = (plain, preloaded) if turn % 2 else (preloaded, plain)
                seconds = {id(env): spawn_seconds(command, env) for env in order}
                differences.append(seconds[id(preloaded)] - seconds[id(plain)])
            rows.append(row(f"start-up added to {name}", statistics.median(differences) * 1e3, 1.0, "ms"))
        tasks = subprocess.run([python, "-c", "import os; print(len(os.listdir('/proc/self/task')))"], env=preloaded,
                               capture_output=True, text=True, check=True).stdout
        rows.append(row("threads of a dormant process", int(tasks) - 1, 0, "threads"))
        rows.append(row("files of a dormant process", len(list(pathlib.Path(directory).rglob("*"))), 0, "files"))
    return rows


# --- the dump and the ring -------------------------------------------------------------------------------------------


def bytes_on_disk(paths):
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def dump_costs(program, library, collectives=20000):
    with tempfile.TemporaryDirectory() as directory:
        rings, dumps = pathlib.Path(directory) / "rings", pathlib.Path(directory) / "dumps"
        rings.mkdir()
        env = {**environment(directory, library), "TITANTRACE_RING_DIR": str(rings), "TITANTRACE_DIR": str(dumps)}
        process = subprocess.Popen([str(program), str(collectives)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True,
                                   env=env)
        process.stdout.readline()
        process.stdin.write("dump\n")
        process.stdin.flush()
        status, milliseconds = process.stdout.readline().split()
        ring_bytes = bytes_on_disk(rings.rglob("*"))
        dump_bytes = sum(path.stat().st_size for path in dumps.rglob("*.titan"))
        process.communicate()
        if status != "0":
            raise RuntimeError(f"titan_dump returned {status}")
    return [row("dump of a full ring: time", float(milliseconds), 300.0, "ms"),
            row("dump of a full ring: size", dump_bytes / 2**20, 2.0, "MiB"),
            row("memory of the rings", ring_bytes / 2**20, 16.0, "MiB")]


# --- the analyzer ----------------------------------------------------------------------------------------------------


def analyzer_costs(analyzer, dumps, what):
    started = time.perf_counter()
    process = subprocess.Popen([str(analyzer), "--json", str(dumps)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"titan-analyze ended with {process.returncode}: {errors[-500:]}")
    return [row(f"titan-analyze {what}: time", time.perf_counter() - started, 3.0, "s"),
            row(f"titan-analyze {what}: peak memory", usage.ru_maxrss / 1024, 1024.0, "MiB")]


def analyzer_size_costs(analyzer, synth, ranks, calls):
    """One size of analyzer_scale.py; growth is linear where the rates of several sizes are alike."""
    measured = analyzer_scale.measure(analyzer, synth, ranks, calls)
    what = f"{ranks:,} ranks x {calls:,}"
    summary_budget_s = 10.0 if ranks * calls <= 1024 * 2000 else None
    return [row(f"{what}: records per core", measured["rate"], 150.0, "MB/s", "above"),
            row(f"{what}: peak memory", measured["peak_mib"], 4096.0, "MiB"),
            row(f"{what}: a digest, per rank", measured["digest_kb"], None, "kB"),
            row(f"{what}: analysis of the digests", measured["reduce_seconds"], None, "s"),
            row(f"{what}: summary", measured["summary_seconds"], summary_budget_s, "s"),
            row(f"{what}: timeline written per core", measured["timeline_rate"], 50.0, "MB/s", "above"),
            row(f"{what}: peak memory of both",
                max(measured["summary_peak_mib"], measured["timeline_peak_mib"]), 4096.0, "MiB")]
