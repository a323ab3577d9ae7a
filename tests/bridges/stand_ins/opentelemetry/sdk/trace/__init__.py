import secrets
import threading
import time
import types
from contextlib import contextmanager

from opentelemetry.trace import StatusCode, _current


class SpanProcessor:
    def on_start(self, span, parent_context=None):
        pass

    def on_end(self, span):
        pass

    def shutdown(self):
        pass


class SpanContext:
    def __init__(self, trace_id):
        self.trace_id = trace_id
        self.span_id = secrets.randbits(64)


class Event:
    def __init__(self, name, attributes, timestamp):
        self.name = name
        self.attributes = types.MappingProxyType(dict(attributes or {}))
        self.timestamp = time.time_ns() if timestamp is None else timestamp


class Span:
    def __init__(self, name, parent, attributes, start_time, processors):
        self.name = name
        self.parent = parent
        self.attributes = dict(attributes or {})
        self.events = []
        self.status = types.SimpleNamespace(status_code=StatusCode.UNSET, description=None)
        self.start_time = time.time_ns() if start_time is None else start_time
        self.end_time = None
        self._context = SpanContext(parent.trace_id if parent is not None else secrets.randbits(128))
        self._processors = processors
        for processor in processors:
            processor.on_start(self, parent_context=None)

    def get_span_context(self):
        return self._context

    def set_attribute(self, key, value):
        self.attributes[key] = value

    def add_event(self, name, attributes=None, timestamp=None):
        self.events.append(Event(name, attributes, timestamp))

    def set_status(self, status, description=None):
        self.status = types.SimpleNamespace(status_code=status, description=description)

    def record_exception(self, exception):
        kind = type(exception)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        self.add_event("exception", {"exception.type": module + kind.__qualname__,
                                     "exception.message": str(exception), "exception.stacktrace": "Traceback"})

    def end(self, end_time=None):
        self.end_time = time.time_ns() if end_time is None else end_time
        for processor in self._processors:
            processor.on_end(self)


class _Tracer:
    def __init__(self, provider):
        self._provider = provider

    def start_span(self, name, context=None, attributes=None, start_time=None):
        parent = context["span"] if context is not None else _current.get()
        return Span(name, parent.get_span_context() if parent is not None else None, attributes, start_time,
                    self._provider.processors)

    @contextmanager
    def start_as_current_span(self, name, attributes=None):
        span = self.start_span(name, attributes=attributes)
        token = _current.set(span)
        try:
            yield span
        except Exception as error:
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
            raise
        finally:
            _current.reset(token)
            span.end()


class TracerProvider:
    def __init__(self):
        self.processors = ()
        self._lock = threading.Lock()

    def add_span_processor(self, span_processor):
        with self._lock:
            self.processors += (span_processor,)

    def get_tracer(self, name):
        return _Tracer(self)

    def shutdown(self):
        for processor in self.processors:
            processor.shutdown()
