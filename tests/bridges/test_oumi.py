"""Oumi's tracker, callbacks and own trainer on the recorder (python/titantrace/oumi.py).

    test_oumi.py --library LIB [--real]      --real: with the package that scripts/setup --bridges installs; else with
                                             the stand-in beside this file
"""
import collections

import bridge_case

START = """
import json, os, sys, threading, time, types
import titantrace.oumi
titantrace.status()
del os.environ["RANK"], os.environ["WORLD_SIZE"]  # there are no other ranks to wait for
output, sys.stdout = sys.stdout, sys.stderr
"""

# What trains: as small as can be, and always the same.
MODEL = """
class Net:
    def __init__(self, factor=1.0):
        self.weight, self.factor = 0.5, factor
    def loss(self, batch):
        return self.factor * sum((self.weight * x - x) ** 2 for x in batch) / len(batch)
    def learn(self, loss):
        self.weight += 0.01 * loss
    def weights(self):
        return [self.weight]
def data(count):
    return [1.0 + at for at in range(count)]
""" if not bridge_case.REAL else """
import torch
class Outputs(dict):
    loss = property(lambda self: self["loss"])
class Net(torch.nn.Module):
    def __init__(self, factor=1.0):
        torch.manual_seed(7)
        super().__init__()
        self.linear, self.factor = torch.nn.Linear(4, 1), factor
    def forward(self, x, labels):
        return Outputs(loss=((self.linear(x) - labels) ** 2).mean() * self.factor)
    def weights(self):
        return [float(weight) for weight in self.linear.weight.detach().flatten()]
def data(count):
    xs = torch.randn(count, 4, generator=torch.Generator().manual_seed(count))
    return [{"x": x, "labels": x.sum().reshape(1)} for x in xs]
"""

TRAINS = START + MODEL + """
titantrace.oumi.install()
from oumi.core.callbacks.nan_inf_detection_callback import NanInfDetectionCallback
from oumi.core.callbacks.telemetry_callback import TelemetryCallback
from oumi.core.configs import TrainerType, TrainingParams
from oumi.core.trainers.oumi_trainer import Trainer
directory = os.environ["TITANTRACE_DIR"] + "-checkpoints"
os.makedirs(directory + "/telemetry")
losses = []
class Losses:
    def on_log(self, args, state=None, control=None, logs=None, **_):
        losses.append(logs["train/loss"])
        logs["train_mfu"] = 0.25  # as MfuTrainerCallback adds it
def train(epochs, resume=None, factor=1.0):
    params = TrainingParams(output_dir=directory, trainer_type=TrainerType.OUMI, num_train_epochs=epochs,
                            per_device_train_batch_size=2, gradient_accumulation_steps=2, logging_steps=1,
                            logging_first_step=False, save_steps=2, eval_strategy="epoch", enable_wandb=False,
                            enable_tensorboard=False, include_performance_metrics=False, run_name="tiny",
                            dataloader_num_workers=0)
    trainer = Trainer(Net(factor), None, params, data(8), eval_dataset=data(4), callbacks=[
        TelemetryCallback(skip_first_steps=0), Losses(), NanInfDetectionCallback(["train/loss"])])
    trainer.train(resume)
    return trainer.model.weights(), {name: timer["count"]
                                     for name, timer in trainer.telemetry.get_summary()["timers"].items()}
results = [train(2)]
titantrace.event("resumed")
results.append(train(3, directory))
titantrace.event("fails")
try:
    train(1, factor=float("nan"))
except RuntimeError as error:
    results.append(str(error))
print(json.dumps([losses[:-1], *results, titantrace.dump()]), file=output, flush=True)
"""

TRACKER = START + """
from oumi.performance.telemetry import TelemetryTracker
tracker = TelemetryTracker()  # made before
titantrace.oumi.install()
titantrace.oumi.install()
@tracker.timer("decorated")
def deeper(depth):
    return depth if depth == 0 else deeper(depth - 1)
with tracker.timer("outer"):
    with tracker.timer("inner"):
        titantrace.event("in inner")
    titantrace.event("in outer")
try:
    with tracker.timer("fails"):
        raise ValueError("of the program")
except ValueError:
    pass
assert deeper(1) == 0
shared, entered, left = tracker.timer("shared"), threading.Event(), threading.Event()
def enter_later():
    entered.wait()
    with shared:
        left.set()
        done.wait()
done = threading.Event()
thread = threading.Thread(target=enter_later)
thread.start()
with shared:
    entered.set()
    left.wait()
done.set()
thread.join()
restored = TelemetryTracker()
restored.load_state_dict(tracker.state_dict())
assert restored.state.measurements == tracker.state.measurements
counts = {name: timer["count"] for name, timer in tracker.get_summary()["timers"].items()}
print(json.dumps([counts, titantrace.dump()]), file=output, flush=True)
"""

# A GPU whose clock goes on when somebody waits for it; the program queues 1 s, 2 s and 3 s of work.
CUDA = START + ("""
import torch
""" if bridge_case.REAL else """
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace()
""") + """
queued = done = 0.0
waits = 0
class Event:
    def __init__(self, enable_timing):
        pass
    def record(self):
        self.at = queued
    def query(self):
        return self.at <= done
    def synchronize(self):
        global done
        done = self.at
    def elapsed_time(self, end):
        assert end.query()
        return end.at - self.at
def synchronize():
    global waits, done
    waits, done = waits + 1, queued
torch.cuda.is_available, torch.cuda.Event, torch.cuda.synchronize = lambda: True, Event, synchronize
torch.cuda.memory_allocated, torch.cuda.memory_reserved = lambda: 3 << 20, lambda: 4 << 20
from oumi.performance import telemetry
telemetry.get_nvidia_gpu_temperature = lambda device: 71.0
titantrace.oumi.install(cuda_timers_wait=os.environ["WAIT"] == "1")
tracker, seen = telemetry.TelemetryTracker(), []
@tracker.cuda_timer("kernel")
def work(seconds):
    global queued
    queued += 1000 * seconds
for seconds in (1, 2, 3):
    work(seconds)
    seen.append(len(tracker.state.cuda_measurements["kernel"]))
waited = waits
count = tracker.get_summary()["cuda_timers"]["kernel"]["count"]
logged = []
tracker.log_gpu_memory()
tracker.log_gpu_memory(logged.append)
assert logged == tracker.state.gpu_memory == [{"allocated": 3.0, "reserved": 4.0}]
assert tracker.record_gpu_temperature() == 71.0 and tracker.state.gpu_temperature == [71.0]
print(json.dumps([tracker.state.cuda_measurements, count, seen, waited, titantrace.dump()]), file=output, flush=True)
"""

COMMAND = """
import runpy, sys
sys.argv = ["titantrace.oumi", "train", "-c", "config.yaml"]
runpy.run_module("titantrace.oumi", run_name="__main__", alter_sys=True)
"""

TIMERS = ("fetching batch", "computing tokens", "moving batch to device", "model forward", "loss backward",
          "optimizer step")
EPOCH, STEP, MICROSTEP = "training_loop/epoch", "training_loop/epoch/steps", "training_loop/epoch/steps/microsteps"


def values_of(markers, kind, name):
    return [(marker["step"], marker["value"]) for marker in markers
            if (marker["marker"], marker["name"]) == (kind, name)]


class Oumi(bridge_case.Case):
    def recorded(self, program, **variables):
        """The markers, and what the program prints."""
        *printed, dumped = self.bridged("recorded", program, **variables)
        self.assertTrue(dumped)
        return self.markers_of("recorded"), printed

    def alone(self, program, **variables):
        """What it prints without the tracer."""
        *printed, dumped = self.bridged("alone", program, preload=False, **variables)
        self.assertFalse(dumped)
        return printed

    def test_its_trainer(self):
        markers, printed = self.recorded(TRAINS)
        self.assertEqual(printed, self.alone(TRAINS))
        losses, (_, counts), _, failure = printed
        at = {marker["name"]: number for number, marker in enumerate(markers) if marker["marker"] == "event"}
        self.check_first(markers[:at["resumed"]], losses, counts)
        self.check_resumed(markers[at["resumed"]:at["fails"]], losses)
        self.check_failed(markers[at["fails"]:], failure)

    def check_first(self, markers, losses, counts):
        # Each epoch ends in a step that has no batch. Its timers run on; their spans end with the epoch.
        self.assertEqual(collections.Counter(bridge_case.paths(markers)), {
            "training_loop": 1, EPOCH: 2, STEP: 6, MICROSTEP: 6, "training_loop/validation_loop": 2,
            f"{EPOCH}/checkpoint_save_sync": 2, **{f"{MICROSTEP}/{name}": counts[name] for name in TIMERS}})
        self.assertEqual([counts[name] for name in TIMERS], [10, 8, 8, 8, 8, 4])
        self.assertEqual(set(bridge_case.begun(markers)),
                         {marker["span"] for marker in markers if marker["marker"] == "span_end"})
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(number, number) for number in range(1, 6)])
        self.assertEqual(values_of(markers, "metric", "train/loss"), list(enumerate(losses[:4], 1)))
        self.assertEqual(values_of(markers, "metric", "train_mfu"), [(number, 0.25) for number in range(1, 5)])
        self.assertEqual([step for step, _ in values_of(markers, "metric", "val/loss")], [3, 5])
        told = bridge_case.by_name(markers)
        self.assertEqual(told["label", "run_name"]["text"], "tiny")
        self.assertRegex(told["span_begin", "steps"]["called_at"], r"^telemetry_callback\.py:\d+ .*_start")

    def check_resumed(self, markers, losses):
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(5, 1), (6, 2), (7, 3), (8, 4), (9, 5)])
        self.assertEqual(values_of(markers, "metric", "train/loss"), list(enumerate(losses[4:], 5)))
        self.assertIn("training_loop/load_from_checkpoint", bridge_case.paths(markers))

    def check_failed(self, markers, failure):
        self.assertEqual(failure, "NaN is detected for the 'train/loss' metric.")
        self.assertEqual(values_of(markers, "metric", "train/loss"), [(1, "nan")])
        begun = bridge_case.begun(markers)
        self.assertEqual([(begun[marker["span"]]["name"], marker["text"]) for marker in markers
                          if marker["marker"] == "error"],
                         [(name, f"RuntimeError: {failure}") for name in ("epoch", "training_loop")])

    def test_a_tracker(self):
        markers, (counts,) = self.recorded(TRACKER)
        self.assertEqual(counts, self.alone(TRACKER)[0])
        self.assertEqual(bridge_case.paths(markers), ["outer", "outer/inner", "fails", "decorated",
                                                      "decorated/decorated", "shared", "shared"])
        begun = bridge_case.begun(markers)
        ended = {marker["span"]: marker for marker in markers if marker["marker"] == "span_end"}
        self.assertEqual({span: marker["thread"] for span, marker in begun.items()},
                         {span: marker["thread"] for span, marker in ended.items()})
        self.assertEqual([(marker["marker"], marker["name"]) for marker in markers][:6], [
            ("span_begin", "outer"), ("span_begin", "inner"), ("event", "in inner"), ("span_end", "inner"),
            ("event", "in outer"), ("span_end", "outer")])
        self.assertEqual([(marker["text"], begun[marker["span"]]["name"]) for marker in markers
                          if marker["marker"] == "error"], [("ValueError: of the program", "fails")])
        self.assertRegex(next(iter(begun.values()))["called_at"], r"^<string>:\d+ <module>$")

    def check_cuda(self, wait):
        markers, printed = self.recorded(CUDA, WAIT=str(wait))
        self.assertEqual(printed[:2], [{"kernel": [1.0, 2.0, 3.0]}, 3])
        metrics = [(marker["name"], marker["value"]) for marker in markers if marker["marker"] == "metric"]
        memory = [("gpu_memory_allocated_mib", 3.0), ("gpu_memory_reserved_mib", 4.0)]
        self.assertEqual(metrics, [("kernel_cuda_s", seconds) for seconds in (1.0, 2.0, 3.0)] + memory + memory +
                         [("gpu_temperature", 71.0)])
        self.assertEqual(bridge_case.paths(markers), ["kernel"] * 3)
        return printed

    def test_cuda_timers_wait_as_they_do(self):
        printed = self.check_cuda(1)
        self.assertEqual(printed[2:], [[1, 2, 3], 3])
        self.assertEqual(printed, self.alone(CUDA, WAIT="0"))

    def test_cuda_timers_without_a_wait(self):
        self.assertEqual(self.check_cuda(0)[2:], [[0, 0, 0], 0])

    if not bridge_case.REAL:
        def test_the_command(self):
            words, program, dumped = self.bridged("command", COMMAND)
            self.assertEqual((words, program, dumped), (["train", "-c", "config.yaml"], "oumi", True))
            self.assertEqual(bridge_case.paths(self.markers_of("command")), ["of the command"])


if __name__ == "__main__":
    bridge_case.main()
