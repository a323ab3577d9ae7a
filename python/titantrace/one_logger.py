"""NVIDIA's one-logger (nv-one-logger-core and nv-one-logger-training-telemetry, 2.3.1) on the recorder. A program that
calls with_export_config() needs no change: one-logger finds our exporter by its entry point. Others call

    titantrace.one_logger.install()

at any time before the spans that matter. An exporter never sees an iteration, as one-logger's default settings hold
them back; therefore both do the same, once: they follow the recorder's own methods, for every recorder of the process.
What these return, raise and export stays as it is.
"""
import importlib
import sys
import warnings
from typing import Any, Callable, Dict, Mapping, Optional

from . import tracer
from .bridges import OpenSpans, after, begin_telling, end_telling, harmless, hook, is_told, numbers_of, open_span, plain
from .markers import label, mark_event, mark_metrics, step
from .spans import add_attributes, mark_error

_OURS_AND_THEIRS = frozenset(("titantrace", "nv_one_logger", "contextlib"))
_LIBRARY = "nv_one_logger"
_CONTEXT_MANAGERS = "nv_one_logger.training_telemetry.api.context"
_ITERATION = "training_single_iteration"
# Attributes that are the time of the span or event itself, and those that are no measurements.
_TIMES = frozenset(("timestamp_msec", "duration_msec"))
_PLACES_IN_RUN = ("current_iteration", "interval", "_start", "_timestamp_sec")
_LABELS = {"session_tag": "session_tag", "perf_tag": "perf_tag", "is_baseline_run": "baseline"}

_open = OpenSpans(0)  # their ids on the recorder, by their own
_labelled: Optional[object] = None  # the configuration that the labels are from


def _nanoseconds(timestamp: Any) -> int:
    return int(timestamp.perf_counter_seconds * 1e9)


def _mark_at(timestamp: Any, place: tracer.Place = tracer.NOWHERE) -> tracer.Place:
    """That place, at a TracingTimestamp: of its two clocks the one that durations are taken from."""
    return place[0], tracer.mark_of(place[0], time_ns=_nanoseconds(timestamp), clock=tracer.CLOCK_MONOTONIC)


def _values(*attributes: Any) -> Dict[str, Any]:
    return {name: plain(attribute.value) for some in attributes for name, attribute in some.items()
            if name not in _TIMES}


def _tell_label(key: str, value: Any) -> None:
    label(key, plain(value))


def _tell_metadata(config: Any) -> None:
    for key, value in (getattr(config, "custom_metadata", None) or {}).items():
        _tell_label(key, value)


def _tell_work(facts: Mapping[str, Any]) -> None:
    """Of a step, for tokens per second and MFU: one-logger tells samples and their FLOPs."""
    batch, length, flops = (facts.get(name) for name in ("global_batch_size", "seq_length", "flops_per_sample"))
    if batch and length:
        label("tokens_per_step", batch * length)
        if flops:
            label("flops_per_token", flops / length)


def _config() -> Any:
    return sys.modules["nv_one_logger.api.one_logger_provider"].OneLoggerProvider.instance().config


def _label_run() -> None:
    """Once for a configuration. A function in it is not called a second time: what it returned comes by an event."""
    global _labelled
    config = _config()
    if config is _labelled:
        return
    _labelled = config
    for key, value in (("application", config.application_name), ("session_tag", config.session_tag_or_fn),
                       ("baseline", config.is_baseline_run_or_fn)):
        if not callable(value):
            _tell_label(key, value)
    _tell_metadata(config)


def _follow_iterations(recorder: Any, name: str) -> None:
    state = getattr(recorder, "_training_state", None)
    if name == _ITERATION and state is not None:
        number = state.completed_training_iterations_overall
        step(number, number - state.train_iterations_start + 1)


@harmless
def _started(span: Any, recorder: Any, *_: Any, **__: Any) -> None:
    if span is None:  # one-logger has switched itself off
        return
    _label_run()
    if is_told(span.name_str, _LIBRARY):
        return
    begin_telling(span.name_str, _LIBRARY)
    _follow_iterations(recorder, span.name_str)
    parent = _open.get(span.parent_span.id) if span.parent_span is not None else 0
    marked = open_span(span.name_str, tracer.place_outside(_OURS_AND_THEIRS), parent,
                       _nanoseconds(span.start_event.timestamp), tracer.CLOCK_MONOTONIC)
    _open.add(span.id, marked)
    add_attributes(marked, _values(span.attributes, span.start_event.attributes))


def _error_passing_by() -> Optional[BaseException]:
    """The exception that leaves one of one-logger's context managers, which end their spans without a word about it."""
    error = sys.exc_info()[1]
    trace = error.__traceback__ if error is not None else None
    leaves = trace is not None and trace.tb_frame.f_globals.get("__name__") == _CONTEXT_MANAGERS
    return error if leaves and not isinstance(error, (GeneratorExit, StopIteration)) else None


@harmless
def _stopped(result: None, recorder: Any, span: Any, *_: Any, **__: Any) -> None:
    end_telling(span.name_str, _LIBRARY)
    marked = _open.pop(span.id)
    if marked == 0:
        return
    error, stop = _error_passing_by(), span.stop_event
    if error is not None:
        mark_error(marked, error)
    if stop is not None:
        add_attributes(marked, _values(stop.attributes))
    tracer.span_close(marked, _mark_at(stop.timestamp)[1] if stop is not None else None)


@harmless
def _described(result: Any, span: Any, name: str, value: Any) -> None:
    """At once: a rank that hangs in the span never ends it."""
    marked = _open.get(span.id)
    if marked != 0 and name not in _TIMES:
        add_attributes(marked, {name: plain(value)})


@harmless
def _described_by(result: None, span: Any, attributes: Any) -> None:
    marked = _open.get(span.id)
    if marked != 0:
        add_attributes(marked, _values(attributes))


def _reduction(name: str) -> Optional[str]:
    words = name.split("_")
    return next((reduce for word, reduce in (("avg", "mean"), ("min", "min"), ("max", "max")) if word in words), None)


def _tell_metrics(event: str, measured: Dict[str, Any], place: tracer.Place) -> None:
    """Validation's have the same names as those of training, and are told apart."""
    part = event.partition("_")[0]
    prefix = f"{part}/" if part in ("validation", "testing") else ""
    for name, value in measured.items():
        mark_metrics({prefix + name: value}, place, _reduction(name))


@harmless
def _told(result: Any, recorder: Any, span: Any, event: Any) -> None:
    name, facts = event.name_str, _values(event.attributes)
    place = _mark_at(event.timestamp, tracer.place_outside(_OURS_AND_THEIRS))
    if name.endswith("_metrics_update") or name == "save_checkpoint_success":
        measured = {key: value for key, value in numbers_of(facts).items() if not key.endswith(_PLACES_IN_RUN)}
        _tell_metrics(name, measured, place)
        facts = {key: value for key, value in facts.items() if key not in measured}
    elif name == "one_logger_initialization":
        _tell_metadata(_config())
    elif name == "update_training_telemetry_config":
        _tell_metadata(_config().telemetry_config)
        _tell_work(facts)
    if name in ("one_logger_initialization", "update_training_telemetry_config"):
        for key in _LABELS.keys() & facts.keys():
            _tell_label(_LABELS[key], facts[key])
    mark_event(name, place, facts)


@harmless
def _failed(result: Any, recorder: Any, span: Any, error_message: str,
            exception: Optional[BaseException] = None) -> None:
    marked = _open.get(span.id)
    if marked == 0:
        return
    words = [error_message.rstrip(": ")] + ([f"{type(exception).__name__}: {exception}"] if exception else [])
    tracer.error(marked, tracer.to_bytes(": ".join(words)))


@harmless
def _broke(result: None, recorder: Any, error_message: str, *_: Any, **__: Any) -> None:
    """One-logger says that its own data are not whole."""
    mark_event("telemetry_data_error", tracer.place_outside(_OURS_AND_THEIRS), {"error_message": error_message})


def install() -> None:
    """Records what every recorder of one-logger is told from now on. A second call does nothing, nor does the first
    where the tracer is not loaded."""
    if not tracer.is_loaded:
        return
    try:
        recorder = importlib.import_module("nv_one_logger.recorder.default_recorder").DefaultRecorder
        span = importlib.import_module("nv_one_logger.core.span").Span
    except (AttributeError, ImportError) as error:
        warnings.warn(f"titantrace.one_logger records nothing: {error}", RuntimeWarning, stacklevel=2)
        return
    for name, tell in (("start", _started), ("stop", _stopped), ("event", _told), ("error", _failed),
                       ("telemetry_data_error", _broke)):
        hook(recorder, name, after(tell))
    for name, tell in (("add_attribute", _described), ("add_attributes", _described_by)):
        hook(span, name, after(tell))


def _nothing(*_: object) -> None:
    pass


class Exporter:
    """What one-logger finds by the entry point: its initialize() installs the bridge, and it exports nothing itself."""

    export_start = export_stop = export_event = export_error = export_telemetry_data_error = close = _nothing

    @classmethod
    def get_default_config(cls) -> Dict[str, Any]:
        return {"class_name": f"{__name__}.{cls.__name__}", "enabled": tracer.is_loaded}

    def initialize(self) -> None:
        install()
