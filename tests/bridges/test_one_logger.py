"""NVIDIA's one-logger on the recorder (python/titantrace/one_logger.py): a program that knows only one-logger, with its
default settings and its file exporter.

    test_one_logger.py --library LIB [--real]
"""
import re

import bridge_case

PROGRAM = r"""
import enum, json, os, pathlib, threading, time
os.chdir(os.environ["TITANTRACE_RING_DIR"])
if os.environ.get("INSTALL"):
    import titantrace.one_logger
    titantrace.one_logger.install()
from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.api.timed_span import get_recorder, timed_span
from nv_one_logger.core.attributes import Attributes
from nv_one_logger.core.event import Event
from nv_one_logger.core.exceptions import OneLoggerError
from nv_one_logger.exporter.file_exporter import FileExporter
from nv_one_logger.training_telemetry.api import callbacks
from nv_one_logger.training_telemetry.api.checkpoint import CheckPointStrategy
from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
from nv_one_logger.training_telemetry.api.context import (training_iteration, training_loop, validation_iteration,
                                                          validation_loop)
from nv_one_logger.training_telemetry.api.spans import StandardTrainingJobSpanName
from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider

class Own(str, enum.Enum):
    __str__ = str.__str__
    LOSS = "loss_calculation"
    EVAL = "evaluation"

asked = []
def session_tag():
    asked.append("session_tag")
    return "session-7"

config = OneLoggerConfig(application_name="example", world_size_or_fn=8, session_tag_or_fn=session_tag,
                         custom_metadata={"team": "vision"})
provider = TrainingTelemetryProvider.instance().with_base_config(config)
provider = provider.with_exporter(FileExporter(pathlib.Path("telemetry.json")))
if os.environ.get("EXPORT_CONFIG"):
    provider = provider.with_export_config()
provider.configure_provider()

began = time.time() * 1000
callbacks.on_app_start(start_time_msec=began - 30000)
TrainingTelemetryProvider.instance().set_training_telemetry_config(TrainingTelemetryConfig(
    perf_tag_or_fn=["small", "h100"], global_batch_size_or_fn=32, seq_length_or_fn=128,
    flops_per_sample_or_fn=640, log_every_n_train_iterations=2,
    save_checkpoint_strategy=CheckPointStrategy.ASYNC))
callbacks.on_model_init_start(start_time_msec=began - 20000)
callbacks.on_model_init_end(finish_time_msec=began - 15000)

def iterate():
    with training_iteration():
        with timed_span(StandardTrainingJobSpanName.MODEL_FORWARD):
            with timed_span(Own.LOSS, span_attributes=Attributes({"mine": 7})):
                time.sleep(0.001)
        with timed_span(StandardTrainingJobSpanName.MODEL_BACKWARD):
            pass

failures = []
with training_loop(train_iterations_start=10) as loop:
    loop.add_attribute("flavour", "vanilla")
    for _ in range(4):
        iterate()
    # An asynchronous checkpoint, which another thread ends in the middle of the next iteration.
    callbacks.on_save_checkpoint_start(14)
    def finish():
        callbacks.on_save_checkpoint_success(14)
        callbacks.on_save_checkpoint_end()
    thread = threading.Thread(target=finish)
    with training_iteration():
        thread.start()
        thread.join()
    try:
        with timed_span(Own.EVAL):
            raise ValueError("no data")
    except ValueError as error:
        failures.append(repr(error))
    try:
        with training_iteration():
            raise KeyError("bad batch")
    except KeyError as error:
        failures.append(repr(error))
    try:
        raise KeyError("handled")
    except KeyError:  # what goes on in here has not failed
        with training_iteration():
            pass
    get_recorder().event(loop, Event.create("training_metrics_update", Attributes({"latest_loss": 2.5})))
    get_recorder().event(loop, Event.create("rebalanced", Attributes({"bytes": 5})))
    with validation_loop():
        with validation_iteration():
            pass
    try:  # not by its callback
        get_recorder().start(StandardTrainingJobSpanName.TRAINING_SINGLE_ITERATION)
    except OneLoggerError as error:
        failures.append(repr(error))
    get_recorder().telemetry_data_error("clock of the node jumps")
callbacks.on_app_end()
try:
    with timed_span(Own.EVAL):
        pass
except OneLoggerError as error:
    failures.append(repr(error))
with open("telemetry.json", encoding="utf-8") as lines:
    exported = [json.loads(line) for line in lines]
import titantrace
print(json.dumps({"failures": failures, "asked": len(asked), "dumped": titantrace.dump(),
                  "exported": [[record.get("type"), record.get("name")] for record in exported]}))
"""

# Its core alone: tasks that take turns, a child, and a tracer that fails.
CORE = r"""
import asyncio, enum, json, os
os.chdir(os.environ["TITANTRACE_RING_DIR"])
from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.api.one_logger_provider import OneLoggerProvider
from nv_one_logger.api.timed_span import timed_span
from nv_one_logger.recorder.default_recorder import DefaultRecorder
import titantrace
from titantrace import one_logger, tracer

class Own(enum.Enum):
    OUTER = "outer"
    INNER = "inner"

one_logger.install()
OneLoggerProvider.instance().configure(OneLoggerConfig(
    application_name="core", world_size_or_fn=8, session_tag_or_fn="s", is_baseline_run_or_fn=True),
    DefaultRecorder([]))

async def rollout(n):
    with timed_span(Own.OUTER):
        await asyncio.sleep(0.01 * n)
        with timed_span(Own.INNER):
            await asyncio.sleep(0.01)

async def main():
    await asyncio.gather(rollout(2), rollout(1))
asyncio.run(main())

child = os.fork()
if child == 0:
    with timed_span(Own.OUTER):
        pass
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def broken(*_):
    raise RuntimeError("ours")
kept, tracer.span_open = tracer.span_open, broken
with timed_span("unrecorded"):
    pass
tracer.span_open = kept
print(json.dumps({"child": status, "dumped": titantrace.dump()}))
"""

ITERATIONS = 7
RECORDED = sorted(["application", "model_initialization", "training_loop", "checkpoint_save_async", "evaluation",
                   "validation_loop", "validation_single_iteration"] + ["training_single_iteration"] * ITERATIONS
                  + ["model_forward", "loss_calculation", "model_backward"] * 4)


class OneLogger(bridge_case.Case):
    def check(self, name, **variables):
        without = self.bridged(name, PROGRAM, preload=False, **variables)
        told = self.bridged(name, PROGRAM, **variables)
        self.assertEqual({**told, "dumped": False}, without)
        self.assertTrue(told["dumped"])
        self.assertNotIn("training_single_iteration", [record[1] for record in told["exported"]])
        self.assertIn("training_loop", [record[1] for record in told["exported"]])
        self.assertIn("Timer for span training_single_iteration is not active.", told["failures"][2])
        markers = self.markers_of(name)
        self.check_spans(markers)
        self.check_times(markers)
        self.check_steps_and_metrics(markers)
        self.check_errors(markers)
        self.check_facts(markers)

    def check_spans(self, markers):
        begun = bridge_case.begun(markers)
        ended = {marker["span"]: marker for marker in markers if marker["marker"] == "span_end"}
        self.assertEqual(sorted(marker["name"] for marker in begun.values()), RECORDED)
        self.assertEqual({span: marker["name"] for span, marker in begun.items()},
                         {span: marker["name"] for span, marker in ended.items()})
        name_of = {span: marker["name"] for span, marker in begun.items()}
        parents = {(marker["name"], name_of.get(marker["parent"])) for marker in begun.values()}
        self.assertLessEqual({("training_loop", "application"), ("model_forward", "training_single_iteration"),
                              ("loss_calculation", "model_forward"), ("application", None),
                              ("validation_single_iteration", "validation_loop")}, parents)
        saved, = (span for span, name in name_of.items() if name == "checkpoint_save_async")
        self.assertNotEqual(begun[saved]["thread"], ended[saved]["thread"])
        self.assertRegex(bridge_case.by_name(markers)["span_begin", "loss_calculation"]["called_at"],
                         r"^<string>:\d+ iterate$")

    def check_times(self, markers):
        """The program said that it began 30 s before, and initialised its model for 5 s 10 s later."""
        told = bridge_case.by_name(markers)
        begin, end = (told[kind, "model_initialization"]["ticks"] for kind in ("span_begin", "span_end"))
        application, loop = (told["span_begin", name]["ticks"] for name in ("application", "training_loop"))
        self.assertAlmostEqual((begin - application) / (end - begin), 2, delta=0.01)
        self.assertTrue(6 <= (loop - application) / (end - begin) < 7)

    def check_steps_and_metrics(self, markers):
        steps = [(marker["value"], marker["relative_step"]) for marker in markers if marker["marker"] == "step"]
        self.assertEqual(steps, [(10 + number, 1 + number) for number in range(ITERATIONS)])
        iterations = [marker["step"] for marker in markers
                      if (marker["marker"], marker["name"]) == ("span_begin", "training_single_iteration")]
        self.assertEqual(iterations, [10 + number for number in range(ITERATIONS)])
        metrics = {marker["name"]: marker for marker in markers if marker["marker"] == "metric"}
        self.assertEqual(metrics["latest_loss"]["value"], 2.5)
        self.assertGreater(metrics["avg_iteration_time_sec"]["value"], 0)
        self.assertEqual([metrics[name]["reduction"] for name in ("latest_loss", "avg_iteration_time_sec",
                                                               "max_iteration_time_sec")], ["", "mean", "max"])
        self.assertIn("validation/avg_iteration_time_sec", metrics)
        self.assertEqual(metrics["productive_train_iterations"]["value"], 14)
        self.assertNotIn("current_iteration", metrics)

    def check_errors(self, markers):
        begun = bridge_case.begun(markers)
        errors = [(begun[marker["span"]]["name"], marker["text"]) for marker in markers if marker["marker"] == "error"]
        self.assertEqual(errors, [("evaluation", "Error in evaluation: ValueError: no data"),
                                  ("training_single_iteration", "KeyError: 'bad batch'")])

    def check_facts(self, markers):
        labels = {marker["name"]: marker["text"] for marker in markers if marker["marker"] == "label"}
        self.assertLessEqual({("application", "example"), ("session_tag", "session-7"), ("perf_tag", "small,h100"),
                              ("baseline", "false"), ("team", "vision"), ("tokens_per_step", "4096"),
                              ("flops_per_token", "5.0")}, labels.items())
        facts = bridge_case.facts_of(markers)
        self.assertEqual(facts["loss_calculation", "mine"], 7)
        self.assertEqual(facts["one_logger_initialization", "is_baseline_run"], "false")
        self.assertEqual(facts["training_loop", "flavour"], "vanilla")
        first = next(marker for marker in markers if marker["name"] == "flavour")
        self.assertLess(first["ticks"], bridge_case.by_name(markers)["span_begin", "loss_calculation"]["ticks"],
                        "it is told when it is added, not when the span ends")
        self.assertEqual(facts["training_loop", "train_iterations_start"], 10)
        self.assertEqual(facts["checkpoint_save_async", "current_iteration"], 14)
        self.assertEqual(facts["rebalanced", "bytes"], 5)
        self.assertEqual(facts["telemetry_data_error", "error_message"], "clock of the node jumps")
        self.assertFalse([key for key in facts if re.search("timestamp_msec|duration_msec", key[1])])

    def test_by_install(self):
        self.check("install", INSTALL="1")

    def test_by_the_entry_point(self):
        self.check("entry", EXPORT_CONFIG="1", PYTHONPATH=self.path_with_entry_points())

    def test_both_ways_are_one(self):
        self.check("both", INSTALL="1", EXPORT_CONFIG="1", PYTHONPATH=self.path_with_entry_points())

    def test_core_in_tasks_and_children(self):
        self.assertEqual(self.bridged("core", CORE), {"child": 7, "dumped": True})
        markers = self.markers_of("core")
        begun = bridge_case.begun(markers)
        outer, inner = ([marker for marker in begun.values() if marker["name"] == f"Own.{name}"]
                        for name in ("OUTER", "INNER"))
        self.assertEqual(len(begun), 4)
        self.assertEqual({(marker["span"], marker["task"]) for marker in outer},
                         {(marker["parent"], marker["task"]) for marker in inner})
        self.assertEqual(len({marker["task"] for marker in outer} - {0}), 2)
        self.assertEqual({marker["name"]: marker["text"] for marker in markers if marker["marker"] == "label"},
                         {"application": "core", "session_tag": "s", "baseline": "true"})

    def test_without_one_logger_a_warning(self):
        program = r"""
import json, warnings, titantrace.one_logger
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    titantrace.one_logger.install()
print(json.dumps([str(warning.message) for warning in warned]))
"""
        *_, python = self.each_python()
        for preload, warnings in ((True, 1), (False, 0)):
            said = self.run_program(python, "absent", preload, program)
            self.assertEqual(len(said), warnings)


if __name__ == "__main__":
    bridge_case.main()
