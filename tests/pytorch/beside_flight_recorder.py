#!/usr/bin/env python3
"""Usage: tests/pytorch/beside_flight_recorder.py --build DIR [--nvrx PATH] [--only PROGRAM/MISTAKE] [--legacy]
[--write]

Runs the programs of programs/ with each mistake of test_pytorch.py until the job has ended, with PyTorch's Flight
Recorder on in the same run, and prints a table of who names the guilty rank: fr_trace, NVIDIA's analyzer and
titan-analyze from the files of the Flight Recorder, and titan-analyze from our dumps. How answers are judged:
benchmarks/analyzers.md.

  --nvrx PATH   source of NVIDIA's extension: git clone https://github.com/NVIDIA/nvidia-resiliency-ext PATH
  --only NAME   this case only, e.g. ddp/skip (repeatable)
  --legacy      with the backend of PyTorch before 2.15 (ProcessGroupNCCL; TORCH_DIST_USE_NCCL2=0)
  --keep DIR    keep the files of both recorders there
  --again DIR   run nothing: ask the tools about the files of an earlier --keep
  --write       write the table into docs/evidence/compatibility.md, with date and versions
"""
import argparse
import datetime
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "peers"), str(HERE.parent / "scenarios")]
import compare  # noqa: E402
import harness  # noqa: E402
import job  # noqa: E402
import table  # noqa: E402
import test_pytorch  # noqa: E402
import truth  # noqa: E402
import verdict  # noqa: E402

DOCUMENT = harness.ROOT / "docs" / "evidence" / "compatibility.md"
MARKS = ("<!-- begin: written by tests/pytorch/beside_flight_recorder.py --write -->",
         "<!-- end: beside_flight_recorder -->")
PYTORCH_TIMEOUT_S, OURS_TIMEOUT_S, LIMIT_S = 10, 5, 60


def parsed():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--nvrx", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def run(place, program, mistake, legacy):
    """The directory of the Flight Recorder's files; ours are in place.dumps."""
    files = place.path / "flight-recorder"
    files.mkdir()
    ran = job.start(place, program, "--fault", mistake, "--rank", job.CULPRIT,
                    TITANTRACE_TIMEOUT_S=OURS_TIMEOUT_S, DIST_TIMEOUT_S=PYTORCH_TIMEOUT_S,
                    TORCH_FR_BUFFER_SIZE=2000, TORCH_FR_DUMP_ON_TIMEOUT=1, TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC=3000,
                    TORCH_FR_DUMP_TEMP_FILE=files / "nccl_trace_rank_", TORCH_DIST_USE_NCCL2=0 if legacy else None)
    try:
        ran.wait(60)
    except AssertionError:  # nobody ends a rank that hangs in its own code
        ran.end()
    return files


def recorded(place, program, mistake, options):
    """The directories of both recorders' files."""
    of_case = f"{program}-{mistake}"
    if options.again:
        return options.again / of_case / "flight-recorder", options.again / of_case / "dumps"
    files = run(place, program, mistake, options.legacy)
    if options.keep:
        shutil.copytree(files, options.keep / of_case / "flight-recorder", dirs_exist_ok=True)
        shutil.copytree(place.dumps, options.keep / of_case / "dumps", dirs_exist_ok=True)
    return files, place.dumps


def guilty():
    """One rank, whatever the kind of the complaint."""
    return truth.hang(truth.HANGS, [job.CULPRIT])


def cell(tool, directory, pattern):
    if not any(directory.rglob(pattern)):
        return "no file", None
    said = tool.ask(str(directory), LIMIT_S)
    result = verdict.verdict(guilty(), said)
    named = said["named"][0] if said["named"] else said["absent"]
    return result + (": " + ", ".join(map(str, named)) if named and result != "failed" else ""), said


def summary(said):
    found = (json.loads(said["text"]) if said and said["text"].startswith("{") else {}).get("verdict") or {}
    return f"{found['confidence']}: {found['summary']}".replace("|", "\\|") if "summary" in found else "none"


def main():
    options = parsed()
    harness.BUILD = options.build.resolve()
    python = str(job.TORCHRUN.with_name("python"))
    analyzer = str(harness.BUILD / "analyzer" / "titan-analyze")
    tools = {"fr_trace": compare.Tool("fr_trace", python, [])}
    if options.nvrx:
        tools["nvrx"] = compare.Tool("nvrx", sys.executable, [str(options.nvrx.resolve())])
    tools[compare.OURS] = compare.Tool(compare.OURS, sys.executable, [analyzer])
    rows = [["program", "mistake of rank 1", *(table.NAMES[name] + " on its files" for name in tools),
             "titan-analyze on our dumps",
             "what it says"]]
    for program, mistake, _, _ in test_pytorch.MISTAKES:
        if options.only and f"{program}/{mistake}" not in options.only or not test_pytorch.is_installed(program):
            continue
        print(f"{program}/{mistake}", file=sys.stderr, flush=True)
        place = harness.Place()
        try:
            files, dumps = recorded(place, program, mistake, options)
            if dumps.exists():
                cells = [cell(tool, files, "nccl_trace_rank_*")[0] for tool in tools.values()]
                ours, said = cell(tools[compare.OURS], dumps, "*.titan")
                rows.append([program, mistake, *cells, ours, summary(said)])
        except KeyboardInterrupt:  # with what is there
            break
        finally:
            place.close()
    versions = {"fr_trace": "PyTorch {}", "nvrx": "NVIDIA resiliency extension {}", compare.OURS: "titan-analyze {}"}
    said = ", ".join(versions[name].format(tool.version) for name, tool in tools.items())
    backend = ("`ProcessGroupNCCL` (`TORCH_DIST_USE_NCCL2=0`)" if options.legacy
               else "the default backend of 2.15 (`nccl2`)")
    text = "\n".join(
        [f"{datetime.date.today()}: {said}; {backend}; {job.RANKS} ranks, simulated node; PyTorch's timeout "
         f"{PYTORCH_TIMEOUT_S} s, ours {OURS_TIMEOUT_S} s.", "", *table.grid(rows)]) + "\n"
    print(text, end="")
    if options.write:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(MARKS[0])
        DOCUMENT.write_text(before + MARKS[0] + "\n" + text + MARKS[1] + rest.partition(MARKS[1])[2], encoding="utf-8")
    for tool in tools.values():
        tool.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
