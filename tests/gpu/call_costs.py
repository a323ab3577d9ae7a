"""What a call costs beside real CUDA and NCCL: the same client without the tracer and with each progress method, in
turns. steps.py measures what a step costs."""

import os
import statistics

import harness
import machine
from place import expect, last_words

WITHOUT = "without_preload"
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


def check_call_costs(setup):
    """host and device time of launches and collectives, with each progress method and without us"""
    medians = measure(setup, lambda place, settings: place.start_client("overhead", **settings))
    runtime = setup.runtime
    if runtime is True:
        program = harness.BUILD / "tests" / "gpu" / "gpu-runtime-client"
        for name, figures in measure(setup, lambda place, settings: place.start(
                [program], place.env(**{"RANK": 0, "WORLD_SIZE": 1, **settings}))).items():
            medians[name].update(figures)
    compared = ratios(medians)
    python = None if setup.simulated else machine.find_pytorch(dict(os.environ))[0]
    figures = {"medians": medians, "ratios": compared, "sampled": sample_programs(setup, python),
               "cuda_runtime": "measured" if runtime is True else f"not measured: {runtime}"}
    expect(all("step_ms" in row and "launch_host_ns" in row for row in compared.values()),
           f"figures are missing: {medians}")
    return figures
