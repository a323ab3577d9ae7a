"""Steps and spans of a run as OTLP/JSON, one ExportTraceServiceRequest a line, as the otlpjsonfile receiver of an
OpenTelemetry collector reads it. A rank is a resource with a trace of its own; spans of the program lie in each other
as they did there, the outermost in their step."""
import hashlib
import json
import os
from typing import Any, Dict, IO, Iterator, List, Optional, Tuple

from . import private_file
from .analyzer import Analyzer, Process, Row, Unusable, process_of

_SPANS_AT_ONCE = 1_000
_INTERNAL, _ERROR = 1, 2  # of OTLP: kind of a span, code of a status
_ROLE_LABEL = "role"


def _identifier(size_bytes: int, *words: Any) -> str:
    """Equal for equal words, in any export."""
    told = "\0".join(map(str, words)).encode()
    return hashlib.blake2b(told, digest_size=size_bytes).hexdigest()


def _attribute(key: str, value: Any) -> Row:
    if isinstance(value, bool):
        told: Row = {"boolValue": value}
    elif isinstance(value, int):
        told = {"intValue": str(value)}
    elif isinstance(value, float):
        told = {"doubleValue": value}
    else:
        told = {"stringValue": str(value)}
    return {"key": key, "value": told}


class _Rank:
    """The spans of a rank, in the order in which they end."""

    def __init__(self, first: Row, labels: Dict[str, str]) -> None:
        self.process, self.labels = process_of(first), labels
        self.rank = first["rank"]
        self.trace = _identifier(16, self.rank, first["realtime_ns"], *sorted(labels.items()))
        self.open: Dict[int, Row] = {}
        self.step: Optional[Row] = None
        self.newest_ns = 0

    def resource(self) -> Row:
        attributes = [_attribute("service.name", self.labels.get(_ROLE_LABEL, "training")),
                      _attribute("titantrace.rank", self.rank)]
        attributes += [_attribute(f"titantrace.label.{name}", text) for name, text in sorted(self.labels.items())]
        return {"attributes": attributes}

    def _span(self, name: str, number: Any, row: Row) -> Row:
        span: Row = {"traceId": self.trace, "spanId": _identifier(8, self.trace, number), "name": name,
                     "kind": _INTERNAL, "startTimeUnixNano": str(row["realtime_ns"]), "attributes": []}
        if row["step"] >= 0:
            span["attributes"].append(_attribute("titantrace.step", row["step"]))
        if row.get("phase"):
            span["attributes"].append(_attribute("titantrace.phase", row["phase"]))
        if row.get("called_at"):
            span["attributes"].append(_attribute("code.location", row["called_at"]))
        return span

    def _begin(self, row: Row) -> None:
        span = self._span(row["name"], row["span"], row)
        parent = self.open.get(row["parent"], self.step)
        if parent is not None:
            span["parentSpanId"] = parent["spanId"]
        self.open[row["span"]] = span

    @staticmethod
    def _ended(span: Row, at_ns: int) -> Row:
        return {**span, "endTimeUnixNano": str(max(at_ns, int(span["startTimeUnixNano"])))}

    def take(self, row: Row) -> List[Row]:
        """The spans that this marker ends."""
        kind, at_ns = row["marker"], row["realtime_ns"]
        self.newest_ns = max(self.newest_ns, at_ns)
        of = self.open.get(row["span"])
        if kind == "step":
            ended = [] if self.step is None else [self._ended(self.step, at_ns)]
            self.step = self._span("step", ("step", row["ticket"]), {**row, "step": int(row["value"])})
            return ended
        if kind == "span_begin":
            self._begin(row)
        elif kind == "span_end" and of is not None:
            return [self._ended(self.open.pop(row["span"]), at_ns)]
        elif kind == "attribute" and of is not None:
            value = row["value"] if row["value"] is not None else row["text"]
            of["attributes"].append(_attribute(row["name"], value))
        elif kind == "error" and of is not None:
            of["status"] = {"code": _ERROR, "message": row["text"]}
        elif kind == "event":
            owner = next(reversed(self.open.values()), self.step)
            if owner is not None:
                owner.setdefault("events", []).append({"name": row["name"], "timeUnixNano": str(at_ns)})
        return []

    def rest(self) -> List[Row]:
        """What is open at the end of the record."""
        spans = ([] if self.step is None else [self.step]) + list(self.open.values())
        for span in spans:
            span["attributes"].append(_attribute("titantrace.state", "open"))
        return [self._ended(span, self.newest_ns) for span in spans]


def _ended_spans(analyzer: Analyzer, labels: Dict[Process, Dict[str, str]]) -> Iterator[Tuple[_Rank, List[Row]]]:
    """Rank after rank."""
    rank: Optional[_Rank] = None
    for row in analyzer.records("show", "--markers"):
        if rank is None or process_of(row) != rank.process:
            if rank is not None:
                yield rank, rank.rest()
            rank = _Rank(row, labels.get(process_of(row), {}))
        yield rank, rank.take(row)
    if rank is not None:
        yield rank, rank.rest()


class _File:
    """Messages of some spans each; made when the first is there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Optional[IO[str]] = None
        self._of: Optional[_Rank] = None
        self._spans: List[Row] = []
        self.written = 0

    def add(self, rank: _Rank, spans: List[Row]) -> None:
        if rank is not self._of or len(self._spans) >= _SPANS_AT_ONCE:
            self.flush()
            self._of = rank
        self._spans += spans

    def flush(self) -> None:
        if self._of is None or not self._spans:
            return
        if self._file is None:
            self._file = os.fdopen(private_file.create(self._path), "w", encoding="utf-8")
        scope = {"scope": {"name": "titantrace"}, "spans": self._spans}
        message = {"resourceSpans": [{"resource": self._of.resource(), "scopeSpans": [scope]}]}
        self._file.write(json.dumps(message) + "\n")
        self.written += len(self._spans)
        self._spans = []

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def write(analyzer: Analyzer, path: str) -> int:
    """Returns how many spans were written."""
    labels: Dict[Process, Dict[str, str]] = {}
    for row in analyzer.records("show", "--labels"):
        labels.setdefault(process_of(row), {})[row["name"]] = row["text"]
    file = _File(path)
    try:
        for rank, spans in _ended_spans(analyzer, labels):
            file.add(rank, spans)
        file.flush()
    except FileExistsError as error:
        raise Unusable(f"{error.filename} exists already: nothing is overwritten") from error
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from error
    finally:
        file.close()
    return file.written
