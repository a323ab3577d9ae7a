"""What a PyTorch training on a real GPU records, beside what CUDA events, PyTorch's profiler and nvidia-smi say."""

import json
import os
import shutil
import statistics
import subprocess

import harness
import machine
from place import Skipped, expect, last_words

# A GPU span begins before what the program measures inside, and ends after it.
SPAN_LATER_MS = 0.25
REPLAYS = 5  # as in train_marked.py
# NVML and nvidia-smi ask at different moments.
NOISE = {"power_w": 150, "temperature_c": 12}
ASKED = {"power_w": "power.draw", "power_limit_w": "power.limit", "temperature_c": "temperature.gpu",
         "max_sm_clock_mhz": "clocks.max.sm", "pcie_width": "pcie.link.width.current",
         "max_pcie_width": "pcie.link.width.max"}


def pytorch_of(setup):
    """The python with PyTorch for the GPU."""
    if setup.simulated:
        raise Skipped("kernels of PyTorch compute nothing on the simulated GPU")
    python, found = machine.find_pytorch(dict(os.environ))
    if python is None:
        raise Skipped(f"no PyTorch with CUDA: {found}")
    setup.described["pytorch"] = found
    return python


def ways_of(setup):
    """(ranks, settings) of PyTorch's own NCCL, which may share a GPU in another way than the other checks' NCCL."""
    nccl = machine.version_number(setup.described["pytorch"]["nccl"])
    ways = machine.ways_to_share(nccl, setup.ranks, setup.info["gpus"]) if setup.way else []
    return [(setup.ranks, {**way[1], **({"GPU_CHECK_NODE_PER_RANK": 1} if way[2](0) else {})}) for way in ways] + [
        (1, {})]


def start_torchrun(place, python, size, program, preload=True, **settings):
    """Under torchrun, with the libraries of PyTorch's wheels."""
    return place.start([python, "-m", "torch.distributed.run", f"--nproc-per-node={size}", "--rdzv-backend=c10d",
                        "--rdzv-endpoint=localhost:0", *program],
                       place.env(preload, OMP_NUM_THREADS=1, PYTHONPATH=harness.ROOT / "python",
                                 LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH"), **settings))


def train(setup, python, size, settings, preload):
    place = setup.place()
    compiled = setup.places[0].path / f"compiled{preload}"  # once without us, and once with
    job = start_torchrun(place, python, size, [harness.ROOT / "tests" / "gpu" / "train_marked.py"], preload=preload,
                         TITANTRACE_HEALTH_S=0.5, TORCHINDUCTOR_CACHE_DIR=compiled, **settings)
    expect(job.wait(60) == 0, f"torchrun ended with {job.status}: {last_words(job)}")
    said = sorted(line for line in job.stdout.splitlines() if line.startswith("rank "))
    expect(len(said) == size, f"{len(said)} of {size} ranks came to the end: {last_words(job)}")
    return place, said, [json.loads((place.meet / f"rank{rank}.json").read_text()) for rank in range(size)]


def gpu_spans(place, rank, name):
    """Milliseconds, oldest first."""
    rows = place.show(place.dumps, "--markers", "--rank", rank)
    spans = [row["span"] for row in rows if row["marker"] == "span_begin" and row["name"] == name]
    times = {row["span"]: row["value"] for row in rows if row["name"] == "gpu_ms"}
    return [times.get(span) for span in spans]


def compare_spans(place, rank, forward_ms):
    told = gpu_spans(place, rank, "forward")
    expect(len(told) == len(forward_ms), f"rank {rank} has {len(told)} spans, not {len(forward_ms)}")
    # The newest is told when the next one begins, of which there is none.
    pairs = [(span, own) for span, own in zip(told, forward_ms) if span is not None]
    expect(len(pairs) >= len(forward_ms) - 1, f"only {len(pairs)} of {len(forward_ms)} GPU spans have their time")
    later = [span - own for span, own in pairs]
    expect(min(later) >= -0.001 and statistics.median(later) < SPAN_LATER_MS,
           f"rank {rank}'s GPU spans differ from CUDA events by {min(later):.4f} to {max(later):.4f} ms")
    return statistics.median(later) * 1e3


def nccl_kernels(trace):
    """(start, end) of NCCL's kernels in a trace of PyTorch's profiler, ns since 1970."""
    base_ns = trace.get("baseTimeNanoseconds", 0)
    kernels = [event for event in trace["traceEvents"]
               if event.get("cat") == "kernel" and event["name"].startswith("ncclDevKernel")]
    return sorted((base_ns + event["ts"] * 1e3, base_ns + (event["ts"] + event["dur"]) * 1e3) for event in kernels)


def compare_with_profiler(place, rank, seen):
    """How far our times of NCCL's kernels are from those of CUPTI."""
    kernels = nccl_kernels(json.loads((place.meet / f"profiler{rank}.json").read_text()))
    calls = [call for call in seen["calls"] if call["gpu_finished_realtime_ns"]]
    figures = {"kernels": len(kernels)}
    if not kernels:
        return figures
    # Ours goes back further; both end with the last call under the profiler.
    calls = calls[-len(kernels):]
    expect(len(calls) == len(kernels), f"{len(kernels)} kernels of NCCL, and {len(calls)} finished calls")
    for what, index, key in (("started", 0, "gpu_started_realtime_ns"), ("finished", 1, "gpu_finished_realtime_ns")):
        differences = [(call[key] - kernel[index]) / 1e3 for call, kernel in zip(calls, kernels) if call[key]]
        if differences:
            figures[f"{what}_later_us"] = [round(value, 1) for value in (
                min(differences), statistics.median(differences), max(differences))]
    return figures


def check_markers(setup):
    """a marked PyTorch training: same losses, GPU spans as CUDA events say, kernels of NCCL as the profiler says"""
    python = pytorch_of(setup)
    reasons = []
    for size, settings in ways_of(setup):
        try:
            return {"ranks": size, **marked(setup, python, size, settings), "tried_before": reasons}
        except AssertionError as why:
            reasons.append(f"{size} ranks: {why}")
            setup.end_programs()
    raise AssertionError("; ".join(reasons))


def marked(setup, python, size, settings):
    _, plain, plain_seen = train(setup, python, size, settings, preload=False)
    figures = {"step_ms_without_preload": plain_seen[0]["step_ms"]}
    expect(all(f"replayed {size ** REPLAYS}," in line for line in plain), f"a replayed all_reduce is wrong: {plain}")
    for method in ("events", "timing", "writes"):
        place, said, seen = train(setup, python, size, {"TITANTRACE_GPU_PROGRESS": method, **settings}, preload=True)
        expect(said == plain, f"{method}: with the preload the ranks say {said}, without {plain}")
        later = [compare_spans(place, rank, seen[rank]["forward_ms"]) for rank in range(size)]
        figures[method] = {"step_ms": seen[0]["step_ms"], "gpu_span_later_us": max(later),
                           "profiler": compare_with_profiler(place, 0, seen[0])}
    look(place, size)
    return figures


def look(place, size):
    """Summary and timeline of it, with the profiler's traces on the same clock."""
    analyzer = harness.BUILD / "analyzer" / "titan-analyze"
    summary = place.run([analyzer, "summary", place.dumps, "--json"], place.env(preload=False))
    rows = [json.loads(line) for line in summary.stdout.splitlines()]
    expect(summary.status == 0 and {"forward", "backward"} <= {row["name"] for row in rows},
           f"the summary lacks spans: {summary.stdout}{summary.stderr}")
    drawn = place.run([analyzer, "timeline", place.dumps, "-o", place.path / "run.perfetto-trace", "--with",
                       *(place.meet / f"profiler{rank}.json" for rank in range(size))], place.env(preload=False))
    expect(drawn.status == 0, f"no timeline: {drawn.stdout}{drawn.stderr}")


def newest_health(place):
    return {row["name"]: row["value"] for row in place.show(place.rings, "--health")}


def check_health(setup):
    """readings of the GPU are those of nvidia-smi"""
    smi = shutil.which("nvidia-smi")
    if setup.simulated or not smi:
        raise Skipped("no nvidia-smi here")
    place = setup.place()
    rank = place.start_client("single", TITANTRACE_HEALTH_S=0.3)
    harness.wait_for(lambda: "send and receive: right" in rank.stdout or rank.status is not None, 30, "all calls")
    harness.wait_for(lambda: place.ring_files() and "gpu.0.power_w" in newest_health(place), 10, "readings of the GPU")
    asked = subprocess.run([smi, "--query-gpu=" + ",".join(ASKED.values()), "--format=csv,noheader,nounits", "--id=0"],
                           capture_output=True, text=True, check=True).stdout.split(",")
    newest = newest_health(place)
    place.go()
    place.end_well([rank])
    readings = {name.removeprefix("gpu.0."): value for name, value in newest.items() if name.startswith("gpu.0.")}
    wrong = {}
    for name, text in zip(ASKED, asked):
        if name in readings and text.strip()[:1].isdigit() and \
                abs(readings[name] - float(text)) > NOISE.get(name, 0.5):
            wrong[name] = (readings[name], text.strip())
    expect(not wrong, f"nvidia-smi says otherwise: {wrong}")
    return {"readings": readings, "nvidia_smi": dict(zip(ASKED, (text.strip() for text in asked))),
            "host": {name: value for name, value in newest.items() if not name.startswith("gpu.")}}
