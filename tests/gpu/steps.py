"""What steps cost beside real CUDA and NCCL: without the tracer and with each way of observing the GPU, in turns. One
run takes less than five minutes, so that a GPU that is lent for some minutes suffices."""

import os
import statistics

import harness
import machine
from place import expect, last_words

WITHOUT = "without_preload"
DEFAULT = "budget"
BUDGET = 0.003  # TITANTRACE_BUDGET's default
ROUNDS = 2
DDP_ROUNDS = 3
SETTINGS = {
    WITHOUT: {"preload": False},
    **{method: {"TITANTRACE_GPU_PROGRESS": method} for method in ("off", "events", "timing", "writes")},
    DEFAULT: {},
}
ROWS = [f"{step_ms}:{calls}" for step_ms in (2, 5, 20, 200) for calls in (2, 20, 200)] + ["5:20:graph", "5:200:graph"]
ROWS_OF_TWO = ["20:2", "200:20"]
DRY_ROWS, DRY_ROWS_OF_TWO = ["2:2", "2:20", "2:20:graph"], ["2:2"]


def measure(setup, name, size, rows, samples):
    """One run of the client on each rank, with one setting; adds the first rank's figures."""
    place = setup.place()
    ranks = place.start_clients("steps", size, **{
        "GPU_CHECK_ROWS": ",".join(rows), "GPU_CHECK_ROW_MS": 20 if setup.simulated else 400, **SETTINGS[name]})
    for ran in ranks:
        ran.wait(60)
        expect(ran.status == 0, f"{name}: ended with {ran.status}: {last_words(ran)}")
    for figure, value in machine.key_values(ranks[0].stdout).items():
        if figure.endswith("_us"):
            samples.setdefault(("two_ranks_" if size > 1 else "") + figure, {}).setdefault(name, []).append(value)


def ddp_steps(setup, python, samples):
    """A training of PyTorch with small kernels whose host sets the pace, also with PyTorch's Flight Recorder."""
    without = {"preload": False, "TORCH_FR_BUFFER_SIZE": 0}
    settings = {WITHOUT: without, "flight_recorder": {**without, "TORCH_FR_BUFFER_SIZE": 2000},
                DEFAULT: {"TORCH_FR_BUFFER_SIZE": 0}}
    for _ in range(DDP_ROUNDS):
        for name, chosen in settings.items():
            place = setup.place()
            ran = place.start([python, harness.ROOT / "tests" / "gpu" / "train_timed.py"],
                              place.env(**{"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"), **chosen}))
            expect(ran.wait(60) == 0, f"{name}: ended with {ran.status}: {last_words(ran)}")
            samples.setdefault("ddp_step_us", {}).setdefault(name, []).append(
                machine.key_values(ran.stdout)["ddp_step_us"])


def compared(samples):
    """{row: {setting: longer than without, as a share; noise: the spread of what nobody observes}}"""
    rows = {}
    for figure, by_setting in samples.items():
        if figure.endswith("_step_us"):
            plain = statistics.median(by_setting[WITHOUT])
            rows[figure[:-len("_step_us")]] = {
                "noise": round((max(by_setting[WITHOUT]) - min(by_setting[WITHOUT])) / plain, 5),
                **{name: round(statistics.median(values) / plain - 1, 5) for name, values in by_setting.items()
                   if name != WITHOUT}}
    return rows


def check_overhead(setup):
    """steps of 2 to 200 ms with 2 to 200 calls: how much longer they take with each way of observing the GPU"""
    samples, notes = {}, []
    for _ in range(1 if setup.simulated else ROUNDS):
        for name in SETTINGS:
            measure(setup, name, 1, DRY_ROWS if setup.simulated else ROWS, samples)
    if setup.way:
        for name in SETTINGS:
            measure(setup, name, 2, DRY_ROWS_OF_TWO if setup.simulated else ROWS_OF_TWO, samples)
    else:
        notes.append(f"two ranks on the GPU: not measured: {setup.no_way}")
    python = None if setup.simulated else machine.find_pytorch(dict(os.environ))[0]
    if python:
        ddp_steps(setup, python, samples)
    else:
        notes.append("DistributedDataParallel: not measured: no PyTorch with CUDA")
    longer = compared(samples)
    figures = {"samples": samples, "longer": longer, "budget": BUDGET, "notes": notes}
    expect(all(set(SETTINGS) <= set(samples[f"{row}_step_us"]) or row == "ddp" for row in longer),
           f"figures are missing: {samples}")
    # Times of the simulated GPU say nothing. Two ranks that share a GPU, and a host that sets the pace, differ from run
    # to run by more than any budget: they are shown, not judged.
    over = {row: values for row, values in longer.items() if not row.startswith(("two_ranks", "ddp"))
            and values[DEFAULT] > BUDGET + values["noise"] and not setup.simulated}
    expect(not over, f"steps take more than {BUDGET:.1%} longer by default: {over}; all: {figures}")
    return figures
