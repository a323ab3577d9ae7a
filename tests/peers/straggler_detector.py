#!/usr/bin/env python3
"""NVIDIA's straggler detector and ours on the same simulated job.

  straggler_detector.py --nvrx CHECKOUT --analyzer build/analyzer/titan-analyze --class straggler_timed --seed 5000

Theirs sees what it would see in the job: how long each kernel ran, collectives left out as it does, and each piece of
host code as a section. Its own scoring and thresholds judge that; only the exchange between ranks is done here, in one
process. Needs a Python with PyTorch, which their module imports.
"""

import argparse
import collections
import importlib
import os
import statistics
import sys
import tempfile
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenarios"))

import case as scenarios  # noqa: E402
import engine  # noqa: E402
import titan  # noqa: E402

PACKAGE = "nvidia_resiliency_ext/attribution/straggler"


class Timings(engine.Engine):
    """Of each rank: name -> seconds, of kernels and of host code."""

    newest = None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        Timings.newest = self
        self.kernels = collections.defaultdict(lambda: collections.defaultdict(list))
        self.sections = collections.defaultdict(lambda: collections.defaultdict(list))

    def launch(self, item):
        host = next((host for host in self.hosts if host.rank == item.rank), None)
        op = host.ops[host.at - 1] if host is not None and host.at else None
        if op is not None and op.kind == "kernel" and item.call is None and item.duration:
            self.kernels[item.rank][f"kernel {op.seconds}"].append(item.duration / engine.S)
        return super().launch(item)

    def run_host(self, host):
        op = host.ops[host.at - 1] if host.at else None
        if op is not None and op.kind == "host" and host.inside == op.what:
            self.sections[host.rank][op.what].append((self.now - host.since_ns) / engine.S)
        return super().run_host(host)


def load(checkout: str):
    """Their scoring, without the package around it, which loads CUPTI."""
    root = next((place for place in (os.path.join(checkout, "src"), checkout)
                 if os.path.isdir(os.path.join(place, PACKAGE))), None)
    if root is None:
        raise FileNotFoundError(f"{checkout} has neither {PACKAGE} nor src/{PACKAGE}")
    package = types.ModuleType("nvrx_straggler")
    package.__path__ = [os.path.join(root, PACKAGE)]
    sys.modules[package.__name__] = package
    return importlib.import_module("nvrx_straggler.reporting"), importlib.import_module(
        "nvrx_straggler.statistics").Statistic


def summaries(samples: dict, statistic) -> dict:
    return {name: {statistic.MED: statistics.median(seconds), statistic.AVG: statistics.fmean(seconds),
                   statistic.NUM: len(seconds)}
            for name, seconds in samples.items()}


def theirs(checkout: str, timings: Timings) -> list:
    """Ranks that their thresholds name, by GPU or by section."""
    reporting, statistic = load(checkout)
    scores = reporting.ReportGenerator(["relative_perf_scores"])
    kernels = {rank: summaries(samples, statistic) for rank, samples in timings.kernels.items()}
    sections = {rank: summaries(samples, statistic) for rank, samples in timings.sections.items()}

    def fastest(of_ranks):
        names = {name for one in of_ranks.values() for name in one}
        return {name: min(one[name][statistic.MED] for one in of_ranks.values())
                if all(name in one for one in of_ranks.values())
                else float("nan") for name in names}

    gpu = {rank: scores._compute_gpu_perf_score(one, fastest(kernels)) for rank, one in kernels.items()}
    by_section = collections.defaultdict(dict)
    for rank, one in sections.items():
        for name, score in scores._compute_sections_perf_scores(one, fastest(sections)).items():
            by_section[name][rank] = score
    report = reporting.Report(gpu, by_section, {}, {}, collections.defaultdict(str), {}, {}, 0.0, True, 0)
    named = report.identify_stragglers()
    found = set(named["straggler_gpus_relative"]).union(*named["straggler_sections_relative"].values())
    return sorted(straggler.rank for straggler in found)


def compare(checkout: str, analyzer: str, name: str, number: int) -> dict:
    """truth, ours and theirs: lists of ranks; theirs is None without a checkout."""
    usual, scenarios.Engine = scenarios.Engine, Timings
    try:
        with tempfile.TemporaryDirectory() as directory:
            case = scenarios.build(name, number, directory)
            titan.start(analyzer)
            asked = titan.subprocess.run(titan.command(directory), capture_output=True, text=True, check=False)
            said = titan.answer(asked.returncode, asked.stdout, asked.stderr)
    finally:
        scenarios.Engine = usual
    return {"truth": [rank for cause in case.truth.causes for rank in cause.ranks],
            "ours": said["named"][0] if said["named"] else [],
            "theirs": theirs(checkout, Timings.newest) if checkout else None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvrx", default="", metavar="CHECKOUT", help="source of NVIDIA's resiliency extension")
    parser.add_argument("--analyzer", required=True, help="titan-analyze")
    parser.add_argument("--class", dest="name", default="straggler_timed", metavar="NAME", help="of tests/scenarios")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=1, help="how many (default: 1)")
    args = parser.parse_args()
    for number in range(args.seed, args.seed + args.count):
        print(f"{args.name} {number}: " + ", ".join(f"{who} {ranks}"
                                                    for who, ranks in compare(args.nvrx, args.analyzer, args.name,
                                                                              number).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
