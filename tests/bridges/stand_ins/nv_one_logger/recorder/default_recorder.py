from contextvars import ContextVar

from nv_one_logger.core.event import Event
from nv_one_logger.core.exceptions import assert_that
from nv_one_logger.core.span import Span


class DefaultRecorder:
    def __init__(self, exporters, blacklist=()):
        self._exporters = exporters
        self._blacklist = blacklist
        self._innermost = ContextVar("latest_active_span", default=None)
        self._spans = {}
        self._closed = False
        for exporter in exporters:
            exporter.initialize()

    def _export(self, span, method, *arguments):
        if span is None or span.name not in self._blacklist:
            for exporter in self._exporters:
                getattr(exporter, method)(*arguments)

    def start(self, span_name, span_attributes=None, start_event_attributes=None, start_time=None, parent_span=None):
        assert_that(not self._closed, "Recorder is already closed.")
        span = Span(span_name, parent_span or self._innermost.get(), span_attributes, start_event_attributes,
                    start_time)
        self._spans[span.id] = span
        self._innermost.set(span)
        self._export(span, "export_start", span)
        return span

    def stop(self, span, stop_event_attributes=None, stop_time=None):
        assert_that(self._spans.pop(span.id, None), f"Span {span.id} not found")
        span.stop(stop_event_attributes, stop_time)
        innermost = self._innermost.get()
        while innermost is not None and not innermost.active:
            innermost = innermost.parent_span
        self._innermost.set(innermost)
        self._export(span, "export_stop", span)

    def event(self, span, event):
        span.events.append(event)
        self._export(span, "export_event", event, span)
        return event

    def error(self, span, error_message, exception=None):
        event = Event.create("error")
        span.events.append(event)
        self._export(span, "export_error", event, span)
        return event

    def telemetry_data_error(self, error_message, attributes=None):
        self._export(None, "export_telemetry_data_error", Event.create("telemetry_data_error"))

    def close(self):
        for span in reversed(list(self._spans.values())):
            self.stop(span)
        for exporter in self._exporters:
            exporter.close()
        self._closed = True

    def get_active_spans_by_name(self, span_name):
        return [span for span in self._spans.values() if span.name == span_name]
