"""OpenTelemetry's spans (opentelemetry-sdk 1.45) on the recorder, by a span processor, which hears of a span when it
begins: one that never ends is on record, too.

    provider.add_span_processor(titantrace.opentelemetry.SpanProcessor())

Where opentelemetry-instrument sets the program up, nothing of it changes but an environment variable, by which it finds
Exporter:

    OTEL_TRACES_EXPORTER=otlp,titantrace
"""
import warnings
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor as _SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
except ImportError as _error:
    raise ImportError("titantrace.opentelemetry needs opentelemetry-sdk") from _error

from . import tracer
from .bridges import OpenSpans, harmless, open_span, plain
from .markers import mark_event
from .spans import add_attributes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

_OURS_AND_THEIRS = frozenset(("titantrace", "opentelemetry", "contextlib"))

_Known = Tuple[int, Dict[str, Any]]  # the id on the recorder, and the attributes that it has there
_open: "OpenSpans[_Known]" = OpenSpans((0, {}))


def _facts(attributes: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    return {key: plain(value) for key, value in (attributes or {}).items()}


def _tell_events(span: "ReadableSpan") -> None:
    place = tracer.place_outside(_OURS_AND_THEIRS)
    for event in span.events:
        if event.name != "exception":
            mark_event(event.name, (place[0], tracer.mark_of(place[0], time_ns=event.timestamp)),
                       _facts(event.attributes))


def _tell_errors(marked: int, span: "ReadableSpan") -> None:
    """The exceptions that were recorded; without one what the status says."""
    attributes = [event.attributes or {} for event in span.events if event.name == "exception"]
    errors = [f"{some.get('exception.type')}: {some.get('exception.message')}" for some in attributes]
    if not errors and span.status.status_code is trace.StatusCode.ERROR:
        errors = [span.status.description or "ERROR"]
    for error in errors:
        tracer.error(marked, tracer.to_bytes(error))


class SpanProcessor(_SpanProcessor):
    """Records each sampled span when it begins and when it ends. Events, and attributes that come later, are told at
    its end; events keep their own time. A span without a parent, or whose parent has ended or is of another process,
    lies in the innermost span of its thread. A second processor of this class records nothing twice."""

    @harmless
    def on_start(self, span: "Span", parent_context: Optional["Context"] = None) -> None:
        key = span.get_span_context().span_id
        if _open.get(key)[0] != 0:
            return
        parent = _open.get(span.parent.span_id)[0] if span.parent is not None else 0
        facts = _facts(span.attributes)
        marked = open_span(span.name, tracer.place_outside(_OURS_AND_THEIRS), parent, span.start_time or 0)
        _open.add(key, (marked, facts))
        add_attributes(marked, facts)

    @harmless
    def on_end(self, span: "ReadableSpan") -> None:
        context = span.get_span_context()
        marked, known = _open.pop(context.span_id) if context is not None else (0, {})
        if marked == 0:
            return
        facts = _facts(span.attributes)
        add_attributes(marked, {key: value for key, value in facts.items() if known.get(key) != value})
        _tell_events(span)
        _tell_errors(marked, span)
        tracer.span_close(marked, tracer.mark_of(0, time_ns=span.end_time or 0))


class Exporter(SpanExporter):
    """What OTEL_TRACES_EXPORTER finds. An exporter hears of a span when it is over, on a thread of its own; this one
    exports nothing, and adds a SpanProcessor to the provider that is being set up."""

    def __init__(self) -> None:
        if not tracer.is_loaded:
            return
        add = getattr(trace.get_tracer_provider(), "add_span_processor", None)
        if add is not None:
            add(SpanProcessor())
        else:
            warnings.warn("titantrace.opentelemetry.Exporter records nothing: there is no TracerProvider yet; add a "
                          "titantrace.opentelemetry.SpanProcessor to it", RuntimeWarning, stacklevel=2)

    def export(self, spans: Sequence["ReadableSpan"]) -> SpanExportResult:
        return SpanExportResult.SUCCESS
