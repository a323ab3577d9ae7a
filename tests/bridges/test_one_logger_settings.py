"""What one-logger's settings do to the bridge: all its standard spans, a rank that is left out, a file of exporters.

    test_one_logger_settings.py --library LIB --real
"""
import collections

import bridge_case

START = r"""
import json, os
os.chdir(os.environ["TITANTRACE_RING_DIR"])
import titantrace
titantrace.event("begins")
from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.training_telemetry.api import callbacks, context
from nv_one_logger.training_telemetry.api.checkpoint import CheckPointStrategy
from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
from nv_one_logger.training_telemetry.api.spans import StandardTrainingJobSpanName as Name
from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider
from nv_one_logger.api.timed_span import timed_span

def configure(**settings):
    config = OneLoggerConfig(application_name="example", world_size_or_fn=8, session_tag_or_fn="session-7", **settings)
    return TrainingTelemetryProvider.instance().with_base_config(config)
def train_config():
    return TrainingTelemetryConfig(perf_tag_or_fn="small", global_batch_size_or_fn=32, train_iterations_target_or_fn=9,
                                   log_every_n_train_iterations=2, save_checkpoint_strategy=CheckPointStrategy.SYNC)
"""

# Each standard span by the context manager or the callback that it has, the others as timed spans; an asynchronous
# checkpoint is in test_one_logger.py.
STANDARD = START + r"""
import titantrace.one_logger
titantrace.one_logger.install()
configure().configure_provider()
with context.application():
    TrainingTelemetryProvider.instance().set_training_telemetry_config(train_config())
    callbacks.on_distributed_init_start()
    callbacks.on_distributed_init_end()
    for part in context.dataloader_init, context.model_init, context.optimizer_init, context.checkpoint_load:
        with part():
            pass
    with context.training_loop(train_iterations_start=0):
        with context.training_iteration():
            for part in "DATA_LOADING", "MODEL_FORWARD", "ZERO_GRAD", "MODEL_BACKWARD", "OPTIMIZER_UPDATE":
                with timed_span(Name[part]):
                    pass
        with context.checkpoint_save(global_step=1):
            pass
        with context.validation_loop(), context.validation_iteration():
            pass
    with context.testing_loop():
        with timed_span(Name.TESTING_SINGLE_ITERATION):
            pass
    with timed_span(Name.CHECKPOINT_SAVE_FINALIZATION):
        pass
print(json.dumps([[str(name) for name in Name], titantrace.dump()]))
"""

LEFT_OUT = START + r"""
import titantrace.one_logger
titantrace.one_logger.install()
configure(enable_for_current_rank=False).configure_provider()
with context.application():
    TrainingTelemetryProvider.instance().set_training_telemetry_config(train_config())
    with context.training_loop(train_iterations_start=0), context.training_iteration():
        pass
print(json.dumps(titantrace.dump()))
"""

WITH_FILE = START + r"""
with open("exporters.yaml", "w") as exporters:
    exporters.write("exporters: [{class_name: titantrace.one_logger.Exporter}]")
configure().with_export_config(config_file_path="exporters.yaml").configure_provider()
with context.application():
    pass
print(json.dumps(titantrace.dump()))
"""


class OneLoggerSettings(bridge_case.Case):
    def test_every_standard_span(self):
        names, dumped = self.bridged("standard", STANDARD)
        self.assertTrue(dumped)
        markers = self.markers_of("standard")
        counted = collections.Counter(marker["name"] for marker in bridge_case.begun(markers).values())
        self.assertEqual(len(names), 19)
        self.assertEqual(counted, {"application": 1, **dict.fromkeys(set(names) - {"checkpoint_save_async"}, 1)})
        self.assertEqual(set(bridge_case.begun(markers)), set(bridge_case.ended(markers)))
        paths = set(bridge_case.paths(markers))
        iteration = "application/training_loop/training_single_iteration"
        self.assertLessEqual({f"{iteration}/{name}" for name in ("data_loading", "model_forward", "zero_grad",
                                                                "model_backward", "optimizer_update")}, paths)
        self.assertLessEqual({"application/training_loop/checkpoint_save_sync", "application/testing_loop",
                              "application/training_loop/validation_loop/validation_single_iteration"}, paths)
        self.assertEqual(bridge_case.facts_of(markers)["one_logger_initialization", "summary_data_schema_version"],
                         "1.0.0")

    def test_a_rank_that_is_left_out(self):
        self.assertTrue(self.bridged("left out", LEFT_OUT))
        self.assertEqual([marker["name"] for marker in self.markers_of("left out") if marker["marker"] != "label"],
                         ["begins"])

    def test_a_file_of_exporters(self):
        self.assertTrue(self.bridged("file", WITH_FILE))
        self.assertEqual(bridge_case.paths(self.markers_of("file")), ["application"])


if __name__ == "__main__":
    bridge_case.skip_without("nv_one_logger.training_telemetry")
    bridge_case.main()
