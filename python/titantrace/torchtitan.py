"""torchtitan's structured logger (torchtitan.observability.structured_logger, 0.3.0) on the recorder. Nothing of a
program changes but an environment variable:

    TITAN_STRUCT_LOGGER_HANDLERS=titantrace.torchtitan.replace

`replace` puts the recorder in the place of the logger's functions: their records are no longer formatted and written,
which is what they cost. `handler` records beside other handlers, such as torchtitan's own, which then must be listed:

    TITAN_STRUCT_LOGGER_HANDLERS=torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler,\
titantrace.torchtitan.handler

With either, what the trainer logs beside (loss, throughput, memory; validation's) are metrics, on every rank: also on
those that write no board.
"""
import logging
import sys
import threading
from types import FunctionType
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from . import tracer
from .bridges import before, harmless, hook, numbers_of, open_span, quietly
from .markers import label, mark_event, mark_metrics, step, step_tag
from .spans import Span, add_attributes, marks_now, place_of_function

_PACKAGE = "torchtitan.observability.structured_logger"
_METRICS = "torchtitan.components.metrics"
_TYPED_METRICS = "torchtitan.experiments.rl.observability.metrics.processor"
# Its metric types that can be joined over ranks; the results of its other types cannot.
_REDUCTIONS = {"Mean": "mean", "Max": "max", "Min": "min", "Sum": "sum"}


def _place_of(record: logging.LogRecord) -> tracer.Place:
    return tracer.told_place(f"{record.filename}:{record.lineno} {record.funcName}")


def _follow_trainer(follow_step: Callable[[], None]) -> None:
    """Its MetricsProcessor has a BaseLogger, which does nothing, where the rank writes no board, else a container of
    the loggers that write."""
    @harmless
    def mark(metrics: Mapping[str, Any]) -> None:
        follow_step()
        mark_metrics(numbers_of(metrics), tracer.told_place(_METRICS))

    module = sys.modules.get(_METRICS)  # absent where torchtitan's logger is used without its trainer
    for name in ("BaseLogger", "LoggerContainer"):
        if hasattr(module, name):
            hook(getattr(module, name), "log", before(lambda _, metrics, *__, **___: mark(metrics)))


@harmless
def _mark_typed(records: List[Any]) -> None:
    """Each value of its reinforcement learning's metrics, as it reduces them, but NaN stays; a mean has its weight."""
    groups: Dict[Tuple[str, Any], List[Any]] = {}  # by key and type
    for record in records:
        groups.setdefault((record.key, type(record.value)), []).append(record.value)
    for (key, kind), values in groups.items():
        reduced = {f"{key}/{suffix}" if suffix else key: value for suffix, value in kind.reduce(values).items()}
        reduce = _REDUCTIONS.get(kind.__name__)
        weight = sum(value.count for value in values) if reduce == "mean" else 1.0
        mark_metrics(numbers_of(reduced), tracer.told_place(_TYPED_METRICS), reduce, weight)


def _follow_typed_metrics(follow_step: Callable[[], None]) -> None:
    def logging_too(original: Callable[..., Any]) -> Callable[..., Any]:
        def log(processor: Any, step: int, metrics: Iterable[Any], **named: Any) -> Any:
            records = list(metrics)  # they may be of a generator
            quietly(follow_step)
            _mark_typed(records)
            return original(processor, step, records, **named)
        return log

    processor = getattr(sys.modules.get(_TYPED_METRICS), "MetricsProcessor", None)
    if processor is not None:
        hook(processor, "log", logging_too)


def _description_of(record: logging.LogRecord, kind: str, name: str) -> Optional[str]:
    """The name of a new span: torchtitan writes "[step 12] the optimizer optim_start", or the name once more."""
    words = record.getMessage().partition("] ")[2]
    said = words[:-len(kind) - 1] if words.endswith(f" {kind}") else ""
    return said if said not in ("", name) else None


def _place_of_caller(depth: int) -> tracer.Place:
    """That many calls further out. Of a coroutine function that was decorated before we came, only the logger's wrapper
    is there, which the event loop calls: then the function itself."""
    frame = sys._getframe(depth + 1)
    if frame.f_code.co_name == "async_wrapper" and frame.f_globals.get("__name__") == f"{_PACKAGE}.structured_logging":
        function = frame.f_locals.get("func")
        if type(function) is FunctionType:
            return place_of_function(function)()
    return tracer.place(depth + 1)


class _TraceSpan(Span):
    """log_trace_span."""

    __slots__ = ("_depth",)
    is_off: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(self, event_type: object, description: Optional[str] = None, *, stacklevel: int = 2) -> None:
        super().__init__(event_type, {} if description is None else {"description": description})
        self._depth = max(stacklevel - 1, 1)

    def __enter__(self) -> "_TraceSpan":
        if marks_now() and not self.is_off():
            self.enter(_place_of_caller(self._depth))
        return self


def replace(*, source: str, **_: Any) -> None:
    """A handler factory for torchtitan that takes its logger's place. Steps and tags are kept as the logger keeps
    them, for those who ask it."""
    package = sys.modules[_PACKAGE]
    logging_module = sys.modules[f"{_PACKAGE}.structured_logging"]
    set_step, add_step_tag = package.set_step, package.add_step_tag
    is_off = logging_module._structured_logger_disabled
    _TraceSpan.is_off = staticmethod(is_off)

    def replaced_set_step(number: int, *, relative_step: Optional[int] = None) -> None:
        set_step(number, relative_step=relative_step)
        step(number, number if relative_step is None else relative_step)

    def replaced_add_step_tag(tag: str) -> None:
        if tag not in package.get_step_tags():
            step_tag(tag)
        add_step_tag(tag)

    def log_trace_instant(event_type: object, *, stacklevel: int = 2) -> None:
        if marks_now() and not is_off():
            mark_event(str(event_type), tracer.place(stacklevel - 1))

    def log_trace_scalar(scalars: Dict[str, Any], *, stacklevel: int = 2) -> None:
        if marks_now() and not is_off():
            mark_metrics(numbers_of(scalars), tracer.place(stacklevel - 1))

    label("role", source)
    for follow in (_follow_trainer, _follow_typed_metrics):
        follow(lambda: None)  # set_step has told the step
    for module in (package, logging_module):
        module.log_trace_span = _TraceSpan
        module.log_trace_instant = log_trace_instant
        module.log_trace_scalar = log_trace_scalar
    package.set_step = replaced_set_step
    package.add_step_tag = replaced_add_step_tag


class _Handler(logging.Handler):
    """Spans are paired by thread, task and name."""

    def __init__(self, package: Any) -> None:
        super().__init__()
        self._package = package
        self._open: Dict[Tuple[int, Optional[str], str], List[int]] = {}
        self._step: Tuple[Optional[int], Tuple[str, ...]] = (None, ())

    def emit(self, record: logging.LogRecord) -> None:
        kind = getattr(record, "log_type_name", None)
        if kind is None or not marks_now():
            return
        self.follow_step()
        if getattr(record, "log_type", "") == "event":
            self._span(record, kind)
        elif kind == "metric_value":
            mark_metrics(numbers_of({record.event_name: record.value}), _place_of(record))  # type: ignore[attr-defined]
        else:
            mark_event(kind, _place_of(record))

    def follow_step(self) -> None:
        number, tags = self._package.get_step(), tuple(self._package.get_step_tags())
        known, known_tags = self._step
        if number is not None and number != known:
            step(number, self._package.get_relative_step())
            known_tags = ()
        for tag in tags:
            if tag not in known_tags:
                step_tag(tag)
        self._step = number, tags

    def _span(self, record: logging.LogRecord, kind: str) -> None:
        name, _, what = kind.rpartition("_")
        key = (threading.get_ident(), getattr(record, "task_name", None), name)
        opened = self._open.get(key) or []
        if what == "start":
            marked, description = open_span(name, _place_of(record)), _description_of(record, kind, name)
            if marked and description is not None:
                add_attributes(marked, {"description": description})
            self._open.setdefault(key, []).append(marked)
        elif what == "error" and opened:
            tracer.error(opened[-1], tracer.to_bytes(record.getMessage().partition(": ")[2]))
        elif what == "end" and opened:
            tracer.span_close(opened.pop(), None)
            if not opened:
                del self._open[key]


def handler(*, structured_logger: logging.Logger, source: str, **_: Any) -> None:
    """A handler factory for torchtitan that records beside its other handlers."""
    label("role", source)
    ours = _Handler(sys.modules[_PACKAGE])
    for follow in (_follow_trainer, _follow_typed_metrics):
        follow(ours.follow_step)
    structured_logger.addHandler(ours)
