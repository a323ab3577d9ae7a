import importlib
from importlib.metadata import entry_points

from nv_one_logger.api.one_logger_provider import OneLoggerProvider

from .spans import StandardTrainingJobSpanName as Name
from .training_recorder import TrainingRecorder

_BLACKLIST = (Name.TRAINING_SINGLE_ITERATION, Name.VALIDATION_SINGLE_ITERATION, Name.MODEL_FORWARD, Name.MODEL_BACKWARD)
_GROUP = "nv_one_logger.exporter_configs"


def _declared():
    found = entry_points()
    points = found.select(group=_GROUP) if hasattr(found, "select") else found.get(_GROUP, [])
    return [point.load().get_default_config() for point in points]


def _exporter(config):
    module, _, name = config["class_name"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**config.get("config", {}))


class TrainingTelemetryProvider:
    _instance = None

    def __init__(self):
        self._exporters = []
        self._config = None

    @classmethod
    def instance(cls):
        cls._instance = cls._instance or cls()
        return cls._instance

    def with_base_config(self, one_logger_config):
        self._config = one_logger_config
        return self

    def with_exporter(self, exporter):
        self._exporters.append(exporter)
        return self

    def with_export_config(self):
        self._exporters += [_exporter(config) for config in _declared() if config.get("enabled", True)]
        return self

    def configure_provider(self):
        OneLoggerProvider.instance().configure(self._config, TrainingRecorder(self._config, self._exporters,
                                                                              _BLACKLIST))

    @property
    def config(self):
        return OneLoggerProvider.instance().config

    @property
    def recorder(self):
        return OneLoggerProvider.instance().recorder

    def set_training_telemetry_config(self, training_telemetry_config):
        self.config.telemetry_config = training_telemetry_config
        application, = self.recorder.get_active_spans_by_name("application")
        told = {name: value for name in ("perf_tag", "global_batch_size", "seq_length", "flops_per_sample")
                if (value := getattr(training_telemetry_config, name)) is not None}
        self.recorder.tell(application, "update_training_telemetry_config", **told)
