"""titan-analyze summary in the text format of Prometheus and OpenMetrics, for node_exporter's textfile collector."""
import math
import os
from typing import Any, Dict, List, Tuple

from . import private_file
from .analyzer import Analyzer, Row, Unusable

_MOST_NAMES = 100  # of each kind: labels are bounded, whatever names a program makes up
_QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))
# kind of row: family, label of its name, help
_DURATIONS = {"step": ("titantrace_step_seconds", "", "Training steps, over all ranks on record."),
              "span": ("titantrace_span_seconds", "span", "Spans of the program, over all ranks on record."),
              "GPU": ("titantrace_gpu_call_seconds", "call", "Calls of NCCL, as long as they were seen to run."),
              "host": ("titantrace_host_call_seconds", "call", "Calls of NCCL that no GPU was seen to run.")}
_STEP, _STEP_OF_ROLE = "step", ": step"  # marked ones: "trainer: step" where ranks count within roles
_JOB = (("steps_per_s", "titantrace_steps_per_second", "Steps of the job."),
        ("tokens_per_s", "titantrace_tokens_per_second", "Tokens of the job, of all ranks together."),
        ("mfu", "titantrace_mfu_ratio", "Share of the GPUs' arithmetic that the model uses."))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _labels(labels: Dict[str, str]) -> str:
    told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items() if text)
    return "{" + told + "}" if told else ""


def _number(value: Any) -> str:
    number = float(value)  # also of "NaN" and "Infinity"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return "NaN" if math.isnan(number) else repr(number)


class _Families:
    """Samples by the family that they belong to: those of one stand together."""

    def __init__(self) -> None:
        self._lines: Dict[str, List[str]] = {}

    def add(self, family: str, kind: str, words: str, samples: List[Tuple[str, Dict[str, str], Any]]) -> None:
        lines = self._lines.setdefault(family, [f"# HELP {family} {words}", f"# TYPE {family} {kind}"])
        lines += [f"{family}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in samples]

    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._lines.values() for line in lines) + "# EOF\n"

    def __len__(self) -> int:
        return len(self._lines)


def _add_durations(families: _Families, row: Row) -> None:
    family, label, words = _DURATIONS[row["kind"]]
    role = row["name"][:-len(_STEP_OF_ROLE)] if row["name"].endswith(_STEP_OF_ROLE) else ""
    labels = {label: row["name"]} if label else {"role": role}  # empty: none is written
    samples: List[Tuple[str, Dict[str, str], Any]] = [
        ("", {**labels, "quantile": quantile}, row[f"{key}_ns"] / 1e9) for quantile, key in _QUANTILES if row["count"]]
    samples += [("_sum", labels, (row["sum_ns"] or 0) / 1e9), ("_count", labels, row["count"])]
    families.add(family, "summary", words, samples)


def _add_metric(families: _Families, row: Row) -> None:
    metric = {"metric": row["name"]}
    if row["mean"] is not None:
        families.add("titantrace_metric_mean", "gauge", "Metrics of the program: mean of what is on record.",
                     [("", metric, row["mean"])])
    families.add("titantrace_metric_not_finite", "gauge", "Metrics of the program: values that are NaN or infinite.",
                 [("", metric, row["not_finite"])])


def text_of(rows: List[Row]) -> str:
    """The exposition of titan-analyze summary --json; empty if that lists nothing."""
    families = _Families()
    told: Dict[str, int] = {}
    steps = {row["name"] for row in rows if row["kind"] == "step"}
    marked = {name for name in steps if name == _STEP or name.endswith(_STEP_OF_ROLE)}
    for row in rows:
        kind = row["kind"]
        told[kind] = told.get(kind, 0) + 1
        if told[kind] > _MOST_NAMES or (kind == "step" and row["name"] not in marked and (marked or told[kind] > 1)):
            continue
        if kind in _DURATIONS:
            _add_durations(families, row)
        elif kind == "metric":
            _add_metric(families, row)
        elif kind == "job":
            for key, family, words in _JOB:
                if row[key] is not None:
                    families.add(family, "gauge", words, [("", {}, row[key])])
    return families.text() if len(families) else ""


def write(analyzer: Analyzer, path: str) -> int:
    """Writes the file beside its place, and moves it there: who reads it finds the old one or the new one. Its number
    of lines; 0: there is nothing to write."""
    text = text_of(list(analyzer.records("summary", "--top", "0")))
    if not text:
        return 0
    beside = f"{path}.{os.getpid()}.part"
    try:
        with os.fdopen(private_file.create(beside), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)  # node_exporter runs as another user
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from error
    return text.count("\n") - 1
