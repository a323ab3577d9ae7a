import enum

from . import SpanProcessor


class SpanExportResult(enum.Enum):
    SUCCESS = 0
    FAILURE = 1


class SpanExporter:
    def export(self, spans):
        raise NotImplementedError

    def shutdown(self):
        pass


class BatchSpanProcessor(SpanProcessor):
    """Exports at its end."""

    def __init__(self, exporter):
        self._exporter = exporter
        self._ended = []

    def on_end(self, span):
        self._ended.append(span)

    def shutdown(self):
        self._exporter.export(self._ended)
