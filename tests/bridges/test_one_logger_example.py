"""The example that nv-one-logger-training-telemetry's wheel ships (docs/example.py), with our bridge: what is recorded.

    test_one_logger_example.py --library LIB --real

As it is, 2.3.1 refuses it: its configuration has no target of iterations. That it fails is the same with us, and on
record. With the target, and where Enum takes text as it does from Python 3.12 on, it trains.
"""
import collections
import json
import re

import bridge_case

EXAMPLE = "nv_one_logger.training_telemetry.docs.example"
BRIDGED = ["-m", "titantrace", "--bridges", "one_logger"]
BATCHES = 32  # of 1,000 rows
ITERATIONS = 10 * BATCHES
REFUSAL = "train_iterations_target is required and must be a positive integer."

WITH_TARGET = f"""
import enum, functools, runpy, sys
from nv_one_logger.training_telemetry.api import config
config.TrainingTelemetryConfig = functools.partial(config.TrainingTelemetryConfig,
    train_iterations_target_or_fn={ITERATIONS}, train_samples_target_or_fn={ITERATIONS * 32})
if sys.version_info < (3, 12):
    enum.EnumMeta.__contains__ = lambda kind, value: isinstance(value, kind) or value in kind._value2member_map_
runpy.run_module("{EXAMPLE}", run_name="__main__", alter_sys=True)
"""

ITERATION = "application/training_loop/training_single_iteration"
SPANS = {"application": 1, "application/training_loop": 1, "application/training_loop/checkpoint_save_sync": 2,
         ITERATION: ITERATIONS, f"{ITERATION}/model_forward/loss_calculation_span": ITERATIONS,
         **{f"{ITERATION}/{part}": ITERATIONS
            for part in ("model_forward", "zero_grad", "model_backward", "optimizer_update")}}


def trained(printed):
    return re.findall(r"^Epoch .*", printed, re.M)


class OneLoggerExample(bridge_case.Case):
    def markers_of_rank(self, name):
        markers, = self.markers_by_rank(name).values()
        return markers

    def exported(self, name):
        """What one-logger's own exporter has written."""
        lines = (self.place / name / "training_telemetry.json").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def kinds_of_exported(self, name):
        return [(record["type"], record.get("event", record).get("name")) for record in self.exported(name)]

    def test_as_it_is(self):
        for name, words, preload in (("without", [], False), ("bridged", BRIDGED, True)):
            printed = self.run_theirs(name, [*words, "-m", EXAMPLE], preload, status=1, RANK="3", WORLD_SIZE="8")
            self.assertIn(REFUSAL, printed.strip().splitlines()[-1 if not preload else -2])
        markers = self.markers_of_rank("bridged")
        self.assertEqual(bridge_case.paths(markers), ["application"])
        self.assertEqual([(marker["name"], marker["text"]) for marker in markers
                          if (marker["marker"], marker["name"]) == ("label", "application")],
                         [("application", "example_app")])
        opened, = bridge_case.begun(markers)
        self.assertEqual([(marker["span"], marker["text"]) for marker in markers if marker["marker"] == "error"],
                         [(opened, f"OneLoggerError: {REFUSAL}")])

    def test_with_a_target(self):
        program = self.place / "with_target.py"
        program.write_text(WITH_TARGET)
        rank = {"RANK": "3", "WORLD_SIZE": "8"}
        without = self.run_theirs("without", [program], False, **rank)
        bridged = self.run_theirs("bridged", [*BRIDGED, program], **rank)
        self.assertEqual((trained(bridged), len(trained(bridged))), (trained(without), 2))
        self.assertEqual(self.kinds_of_exported("bridged"), self.kinds_of_exported("without"))
        self.assertNotIn("training_single_iteration", [name for _, name in self.kinds_of_exported("bridged")])
        markers = self.markers_of_rank("bridged")
        self.check_spans(markers)
        self.check_metrics(markers)

    def check_spans(self, markers):
        self.assertEqual(collections.Counter(bridge_case.paths(markers)), SPANS)
        self.assertEqual({span: marker["name"] for span, marker in bridge_case.begun(markers).items()},
                         {span: marker["name"] for span, marker in bridge_case.ended(markers).items()})
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(number, number + 1) for number in range(ITERATIONS)])
        self.assertRegex(bridge_case.by_name(markers)["span_begin", "zero_grad"]["called_at"],
                         r"^example\.py:\d+ main$")

    def check_metrics(self, markers):
        updates = [record["event"]["attributes"] for record in self.exported("bridged")
                   if record.get("event", {}).get("name") == "training_metrics_update"]
        self.assertEqual(len(updates), ITERATIONS // 10)
        measured = collections.defaultdict(list)
        for marker in markers:
            if marker["marker"] == "metric":
                measured[marker["name"]].append(marker["value"])
        for name in ("avg_iteration_time_sec", "max_iteration_time_sec", "train_throughput_per_gpu"):
            told = [update[name] for update in updates if name in update]
            self.assertTrue(told, name)
            self.assertEqual(measured[name], told)
        self.assertEqual(measured["productive_train_iterations"][-1], 6 * BATCHES)  # at the second checkpoint
        facts = bridge_case.facts_of(markers)
        self.assertEqual(facts["training_loop", "my_custom_attribute"], "my_custom_value")
        self.assertEqual(facts["loss_calculation_span", "my_custom_attribute"], "my_custom_value")
        labels = {marker["name"]: marker["text"] for marker in markers if marker["marker"] == "label"}
        self.assertLessEqual({("application", "example_app"), ("session_tag", "example_session"),
                              ("perf_tag", "test_perf"), ("baseline", "false")}, labels.items())


if __name__ == "__main__":
    bridge_case.skip_without("torch", "nv_one_logger.training_telemetry")
    bridge_case.main()
