"""What the tracer costs beside real CUDA and NCCL: the same client without it and with each progress method, in
turns."""

import os
import statistics

import harness
import machine
from place import expect, last_words

# The step is what training pays: a kernel of 5 ms and 20 all_reduces.
STEP_BUDGET = 1.01
WITHOUT = "without_preload"
DDP_ROUNDS = 3
PERF_REFUSED = 3  # status of gpu-sampled
SETTINGS = {
    WITHOUT: {"preload": False},
    **{method: {"TITANTRACE_GPU_PROGRESS": method} for method in ("off", "events", "timing", "writes")},
    "all_on": {"TITANTRACE_NCCL_PLUGIN": "progress"},
}


def measure(setup, start):
    """{setting: {figure: median over the rounds}} of a client; `start(place, settings)` starts it."""
    rounds = 1 if setup.simulated else 3
    samples = {name: {} for name in SETTINGS}
    for _ in range(rounds):
        for name, settings in SETTINGS.items():
            place = setup.place()
            # A call and its marks stay well below the 1,024 entries that a stream takes before the host has to wait.
            ran = start(place, {"GPU_CHECK_CALLS": 50 if setup.simulated else 200,
                                "GPU_CHECK_STEPS": 3 if setup.simulated else 40, **settings})
            ran.wait(60)
            expect(ran.status == 0, f"{name}: ended with {ran.status}: {last_words(ran)}")
            for figure, value in machine.key_values(ran.stdout).items():
                if figure.endswith(("_ns", "_ms")):
                    samples[name].setdefault(figure, []).append(value)
    return {name: {figure: statistics.median(values) for figure, values in figures.items()}
            for name, figures in samples.items()}


def ratios(medians):
    return {name: {figure: round(value / medians[WITHOUT][figure], 4) for figure, value in figures.items()
                   if medians[WITHOUT][figure] > 0} for name, figures in medians.items() if name != WITHOUT}


def ddp_steps(setup, python):
    """{setting: microseconds}: a training of PyTorch whose host sets the pace, alone, with PyTorch's Flight Recorder,
    and with us."""
    if python is None:
        return "not measured: no PyTorch with CUDA"
    without = {"preload": False, "TORCH_FR_BUFFER_SIZE": 0}
    settings = {WITHOUT: without, "flight_recorder": {**without, "TORCH_FR_BUFFER_SIZE": 2000},
                "preload": {"TORCH_FR_BUFFER_SIZE": 0}}
    samples = {name: [] for name in settings}
    for _ in range(DDP_ROUNDS):
        for name, chosen in settings.items():
            place = setup.place()
            ran = place.start([python, harness.ROOT / "tests" / "gpu" / "train_timed.py"],
                              place.env(**{"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"), **chosen}))
            expect(ran.wait(60) == 0, f"{name}: ended with {ran.status}: {last_words(ran)}")
            samples[name].append(machine.key_values(ran.stdout)["ddp_step_us"])
    return {name: {"median": statistics.median(values), "all": values} for name, values in samples.items()}


def sampled(setup, command, **settings):
    """What of the program's time on processors is in the library, in milliseconds; where that cannot be told, why."""
    program = harness.BUILD / "tests" / "gpu" / "gpu-sampled"
    place = setup.place()
    ran = place.start([program, "libtitantrace.so", *command], place.env(**settings))
    ran.wait(60)
    if ran.status == PERF_REFUSED:
        return {"not_measured": last_words(ran)}
    expect(ran.status == 0, f"gpu-sampled: ended with {ran.status}: {last_words(ran)}")
    return {key: value for key, value in machine.key_values(ran.stdout).items()
            if key in ("on_processor_ms", "in_library_ms", "samples_lost", "ddp_steps")}


def sample_programs(setup, python):
    """{program: figures}: what the differences of times above say only roughly."""
    client = [harness.BUILD / "tests" / "gpu" / "gpu-client", "overhead"]
    found = {"gpu-client": sampled(setup, client, RANK=0, WORLD_SIZE=1, GPU_CHECK_CALLS=200, GPU_CHECK_STEPS=3)}
    if python:
        found["train_timed.py"] = sampled(setup, [python, harness.ROOT / "tests" / "gpu" / "train_timed.py"],
                                          TORCH_FR_BUFFER_SIZE=0,
                                          LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH"))
    return found


def check_overhead(setup):
    """host and device time of launches and collectives, and a step of 5 ms, with each progress method and without us"""
    medians = measure(setup, lambda place, settings: place.start_client("overhead", **settings))
    runtime = setup.runtime
    if runtime is True:
        program = harness.BUILD / "tests" / "gpu" / "gpu-runtime-client"
        for name, figures in measure(setup, lambda place, settings: place.start(
                [program], place.env(**{"RANK": 0, "WORLD_SIZE": 1, **settings}))).items():
            medians[name].update(figures)
    compared = ratios(medians)
    python = None if setup.simulated else machine.find_pytorch(dict(os.environ))[0]
    figures = {"medians": medians, "ratios": compared, "ddp_step_us": ddp_steps(setup, python),
               "sampled": sample_programs(setup, python), "budget_step_ms": STEP_BUDGET,
               "cuda_runtime": "measured" if runtime is True else f"not measured: {runtime}"}
    expect(all("step_ms" in row and "launch_host_ns" in row for row in compared.values()),
           f"figures are missing: {medians}")
    # Times of the simulated GPU say nothing.
    over = {name: row["step_ms"] for name, row in compared.items() if row["step_ms"] > STEP_BUDGET
            and not setup.simulated}
    expect(not over, f"a step of 5 ms takes more than {STEP_BUDGET} times as long: {over}; all: {figures}")
    return figures
