"""The markers of a run as torchtitan's structured logger writes them (torchtitan 0.3.0), for what reads its files: its
own timeline (gantt_generator) and the boards that people have built on them. One file for each rank."""
import json
import os
import time
from typing import Any, Dict, IO, Iterator, List, Optional, Tuple

from . import private_file
from .analyzer import Analyzer, Process, Row, Unusable, process_of

_ROLE_LABEL = "role"  # torchtitan calls it source
_NO_ROLE = "training"
_TASK_NAME = "task_name"
_SUFFIXES = {"span_begin": "_start", "span_end": "_end", "error": "_error"}


class _Rank:
    """What the lines of a rank depend on."""

    def __init__(self, process: Process, source: str, told: Row) -> None:
        self.process, self.source = process, source
        self.rank = process[0]
        self.told = told  # what its lines say of it
        self.main_thread: Optional[int] = None
        self.tags: List[str] = []
        self.tasks: Dict[int, str] = {}  # their names, by number
        self.relative_step: Optional[int] = None
        self.open: Dict[int, Tuple[str, int, str]] = {}  # span: name, begin, task
        self.lines = 0
        self.newest_ms: Optional[float] = None

    def _task(self, row: Row) -> str:
        # Its timeline pairs begins and ends by file and task alone: other threads need a task of their own.
        if row.get("task"):
            return self.tasks.get(row["task"], f"Task-{row['task']}")
        return "" if row["thread"] == self.main_thread else f"Thread-{row['thread']}"

    def line(self, row: Row, following: Optional[Row]) -> Optional[Dict[str, Any]]:
        """None: torchtitan writes nothing of that kind. The name of a task follows the begin of its outermost span."""
        kind, name = row["marker"], row["name"]
        self.main_thread = row["thread"] if self.main_thread is None else self.main_thread
        if kind == "step":
            self.tags, self.relative_step = [], row.get("relative_step")
        elif kind == "step_tag":
            self.tags.append(name)
        told: Dict[str, Any] = {"log_type": "event", "event_name": name}
        if kind == "span_begin" and following is not None and (
                (following["marker"], following["name"], following["span"]) == ("attribute", _TASK_NAME, row["span"])):
            self.tasks[row["task"]] = following["text"]
        elif kind == "span_begin" and row["parent"] == 0:  # a task without a name may have the number of an older one
            self.tasks.pop(row["task"], None)
        task = self._task(row)
        if kind == "span_begin":
            self.open[row["span"]] = (name, row["realtime_ns"], task)
        elif kind == "span_end":
            name, begun_ns, task = self.open.pop(row["span"], (name, row["realtime_ns"], task))
            told["value"] = (row["realtime_ns"] - begun_ns) / 1e6
        elif kind == "error":
            name, _, task = self.open.get(row["span"], (name, 0, task))
            told["message"] = row["text"][:1000]
        elif kind == "event":
            told = {"log_type": "instant", "event_name": None}
        elif kind == "metric":
            told = {"log_type": "instant", "event_name": name, "value": _finite(row["value"])}
            name = "metric_value"
        else:
            return None
        return {**self._common(row, task), "log_type_name": name + _SUFFIXES.get(kind, ""), **told}

    def _common(self, row: Row, task: str) -> Dict[str, Any]:
        now_ms = row["realtime_ns"] / 1e6
        place, _, function = (row.get("called_at") or "").partition(" ")
        common: Dict[str, Any] = {
            "delta_ms": 0.0 if self.newest_ms is None else now_ms - self.newest_ms, "tid": row["thread"],
            "rank": self.rank, "global_rank": self.rank, "source": self.source, **self.told,
            "time": row["realtime_ns"] // 10**9, "time_ms": row["realtime_ns"] // 10**6,
            "time_us": row["realtime_ns"] // 1000, "caller": f"{place}:{function}" if function else place,
            "log_file": place.partition(":")[0], "log_function": function,
            "logger_name": "titantrace", "log_level": "INFO", "seq_id": self.lines, "message": ""}
        if row["step"] >= 0:
            common["step"] = row["step"]
        if self.relative_step is not None:
            common["relative_step"] = self.relative_step
        if self.tags:
            common["step_tags"] = list(self.tags)
        if task:
            common["task_name"] = task
        self.newest_ms = now_ms
        self.lines += 1
        return common


def _finite(value: Any) -> Optional[float]:
    """torchtitan writes NaN as a bare word, which is no JSON."""
    return None if value is None or isinstance(value, str) else float(value)


def _lines_tell(analyzer: Analyzer) -> Dict[int, Row]:
    """What all lines of a rank say, by rank. Launchers number the ranks of a host in their order, LOCAL_RANK: known as
    long as no rank before is without a record."""
    told: Dict[int, Row] = {}
    on_host: Dict[Tuple[str, str], int] = {}
    following: Dict[str, int] = {}  # by role: the rank that comes next
    for row in analyzer.sql("SELECT rank, role, host, pid FROM ranks ORDER BY rank"):
        rank, role, place = row["rank"], row["role"], (row["host"], row["role"])
        told[rank] = {"host_name": row["host"], "pid": row["pid"]}
        if rank == following.get(role, 0):
            following[role] = rank + 1
            told[rank]["local_rank"] = on_host.get(place, 0)
            on_host[place] = on_host.get(place, 0) + 1
    return told


def _with_following(rows: Iterator[Row]) -> Iterator[Tuple[Row, Optional[Row]]]:
    row = next(rows, None)
    while row is not None:
        following = next(rows, None)
        yield row, following
        row = following


def write(analyzer: Analyzer, directory: str) -> int:
    """Returns how many lines were written."""
    roles = {process_of(row): row["text"] for row in analyzer.records("show", "--labels")
             if row["name"] == _ROLE_LABEL}
    told = _lines_tell(analyzer)
    started = time.strftime("%Y%m%d-%H%M%S")
    rank: Optional[_Rank] = None
    file: Optional[IO[str]] = None
    written = 0
    try:
        os.makedirs(directory, exist_ok=True)
        # Rank after rank, by time.
        for row, following in _with_following(analyzer.records("show", "--markers")):
            process = process_of(row)
            if rank is None or process != rank.process:
                if file is not None:
                    file.close()
                rank = _Rank(process, roles.get(process, _NO_ROLE), told.get(row["rank"], {}))
                name = f"{rank.source.replace('/', '_')}.global_rank_{rank.rank}.{started}-TITANT.jsonl"
                file = os.fdopen(private_file.create(os.path.join(directory, name)), "w", encoding="utf-8")
            line = rank.line(row, following)
            if line is not None and file is not None:
                file.write(json.dumps(line) + "\n")
                written += 1
    except FileExistsError as error:
        raise Unusable(f"{error.filename} exists already: nothing is overwritten") from error
    except OSError as error:
        raise Unusable(f"{directory}: {error.strerror}") from error
    finally:
        if file is not None:
            file.close()
    return written
