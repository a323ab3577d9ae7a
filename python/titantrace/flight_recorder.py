"""A run as dumps of PyTorch's Flight Recorder, a pickle of plain data for each rank: for PyTorch's fr_trace and what
else reads them.

Keys, names and the meaning of numbers: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp and
torch/distributed/flight_recorder/components of PyTorch 2.13.

fr_trace expects all members of a group in each of its calls, and takes sends and receives apart only in groups of two.
So each pair of ranks that talk is a group of its own, where the n-th call in each direction has a number that both
sides agree on, and the records of a group begin where those of all its members hold the calls.
"""
import collections
import itertools
import os
import pickle
import sys
from typing import Any, Counter, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from . import private_file
from .analyzer import Analyzer, Row, Unusable

PREFIX = "nccl_trace_rank_"

_VERSION = "2.10"
_PROTOCOL = 4  # of pickles: smaller than PyTorch's 2
_LARGEST = 2 ** 63 - 1
_NO_NAME = "undefined"

# PyTorch's names of operations, and whether input and output have one count, or one for each member.
_OPERATIONS = {
    "all_reduce": ("all_reduce", False, False), "reduce": ("reduce", False, False),
    "broadcast": ("broadcast", False, False), "all_gather": ("_all_gather_base", False, True),
    "reduce_scatter": ("_reduce_scatter_base", True, False), "all_to_all": ("all_to_all", True, True),
    "gather": ("gather", False, True), "scatter": ("scatter", True, False), "send": ("send", False, False),
    "recv": ("recv", False, False)}
_PAIRED = ("send", "recv")
_WITHOUT_NAME = ("put_signal", "signal")
_DATATYPES = {
    "float32": "Float", "bfloat16": "BFloat16", "float16": "Half", "float64": "Double", "int64": "Long",
    "int32": "Int", "uint8": "Byte", "int8": "Char", "uint32": "UInt32", "uint64": "UInt64",
    "float8e4m3": "Float8_e4m3fn", "float8e5m2": "Float8_e5m2"}

Numbered = Tuple[Any, ...]  # what counts calls: a communicator, or a pair of its ranks and a direction


class _Group(NamedTuple):
    """A process group in PyTorch's sense: its members by their global ranks, in ascending order."""
    name: str
    description: str
    ranks: List[int]


class Written(NamedTuple):
    files: int
    calls: int
    notes: List[str]  # what the format cannot hold, for people


class _Run:
    """Processes and communicators, as titan-analyze layout tells them."""

    def __init__(self, layout: Row) -> None:
        self.process_of = {rank: process for process in layout["processes"] for rank in process["ranks"]}
        self.without_rank = sum(not process["ranks"] for process in layout["processes"])
        self.sources = {process["source"] for process in layout["processes"]}
        self.communicators: List[Row] = layout["communicators"]
        self.number_of = {name: number for number, one in enumerate(self.communicators) for name in one["ids"]}
        self.groups = [_Group(one["id"], one["name"] or _NO_NAME, sorted(known_of(one["all_ranks"])))
                       for one in self.communicators]
        self.made_by: Dict[int, List[_Group]] = {}
        for group, one in zip(self.groups, self.communicators):
            for rank, issued in zip(one["all_ranks"], one["issued"]):
                if rank is not None and issued is not None:
                    self.made_by.setdefault(rank, []).append(group)
        self._pairs: Dict[Tuple[int, int, int], Optional[_Group]] = {}

    def rank_in(self, number: int, member: int) -> Optional[int]:
        """The global rank of a member, where something tells it."""
        ranks: List[Optional[int]] = self.communicators[number]["all_ranks"]
        return ranks[member] if 0 <= member < len(ranks) else None

    def pair(self, number: int, low: int, high: int) -> Optional[_Group]:
        """Unknown where the rank of one is, or where it is the other."""
        if (number, low, high) not in self._pairs:
            ranks = sorted(set(known_of([self.rank_in(number, low), self.rank_in(number, high)])))
            whole = self.groups[number]
            self._pairs[(number, low, high)] = None if len(ranks) < 2 else _Group(
                f"{whole.name}.{low}-{high}", f"{whole.description} {low}-{high}", ranks)
        return self._pairs[(number, low, high)]


def known_of(ranks: List[Optional[int]]) -> List[int]:
    return [rank for rank in ranks if rank is not None]


class _Call:
    """A row of `show` that has a place in these files."""

    def __init__(self, row: Row, communicator: int) -> None:
        self.row = row
        self.communicator = communicator
        self.member: int = row["comm_rank"]
        self.peer: int = row["peer"]
        self.is_p2p = row["op"] in _PAIRED
        from_low = (row["op"] == "send") == (self.member < self.peer)
        self.counted_by: Numbered = (communicator,)
        self.number: int = row["seq"] + 1  # PyTorch counts from 1
        if self.is_p2p:
            self.counted_by = (communicator, *sorted((self.member, self.peer)), from_low)
            self.number = 2 * row["seq"] + (1 if from_low else 2)

    def profiling_name(self, group: _Group, rank: int) -> str:
        name = _OPERATIONS[self.row["op"]][0]
        if not self.is_p2p:
            return sys.intern(f"nccl:{name}")
        own = 0 if rank == group.ranks[0] else 1
        return sys.intern(f"nccl:{name} {own}{'->' if name == 'send' else '<-'}{1 - own}")

    def times(self, dumped_ns: int) -> Dict[str, Any]:
        """PyTorch looks at unfinished calls when it dumps."""
        row = self.row
        started = row["gpu_started_realtime_ns"] if row["progress"] != "scheduled" else None
        finished = row["gpu_finished_realtime_ns"] if row["progress"] == "completed" else None
        times = {"time_created_ns": row["entered_realtime_ns"] or 0,
                 "time_discovered_started_ns": dumped_ns if started and not finished else started,
                 "time_discovered_completed_ns": finished}
        if started and finished and finished > started:
            times["duration_ms"] = (finished - started) / 1e6
        return times

    def sizes(self, members: int) -> Dict[str, Any]:
        _, *per_member = _OPERATIONS[self.row["op"]]
        counts = [min(self.row["count"] * (max(members, 1) if each else 1), _LARGEST) for each in per_member]
        datatype = _DATATYPES.get(self.row["datatype"], "Undefined")
        return {"input_sizes": [[counts[0]]], "input_dtypes": [datatype],
                "output_sizes": [[counts[1]]], "output_dtypes": [datatype]}

    def frames(self) -> List[Row]:
        """A pickle holds a text once, but only where it is the same object."""
        return [{"name": sys.intern(frame["function"]), "filename": sys.intern(frame["file"]), "line": frame["line"]}
                for frame in self.row.get("frames", [])]


class _File:
    """What a rank's file says."""

    def __init__(self, run: _Run, rank: int) -> None:
        self._run = run
        self._process = run.process_of[rank]
        self._groups = {group.name: group for group in run.made_by.get(rank, [])}
        self.rank = rank
        self.entries: List[Row] = []
        self.dumped_ns: int = self._process["dumped_realtime_ns"]

    def add(self, call: _Call) -> bool:
        """False: its peer is not known."""
        group = (self._run.pair(call.communicator, *sorted((call.member, call.peer))) if call.is_p2p
                 else self._run.groups[call.communicator])
        if group is None:
            return False
        self._groups.setdefault(group.name, group)
        record = len(self.entries)
        self.entries.append({
            "record_id": record, "pg_id": call.communicator, "process_group": (group.name, group.description),
            "collective_seq_id": call.number, "p2p_seq_id": call.number if call.is_p2p else 0, "op_id": record + 1,
            "profiling_name": call.profiling_name(group, self.rank), **call.times(self.dumped_ns),
            **call.sizes(self._run.communicators[call.communicator]["size"]), "state": sys.intern(call.row["progress"]),
            "retired": call.row["progress"] == "completed", "timeout_ms": self._process["timeout_ms"],
            "is_p2p": call.is_p2p, "frames": call.frames()})
        return True

    def dump(self) -> Row:
        return {"version": _VERSION, "rank": self.rank, "host_name": self._process["host"], "comm_lib_version": "",
                "entries": self.entries,
                "pg_config": {name: {"name": name, "desc": group.description, "ranks": str(group.ranks)}
                              for name, group in sorted(self._groups.items())}}


class _Exporter:
    def __init__(self, analyzer: Analyzer, directory: str, prefix: str) -> None:
        self._analyzer = analyzer
        self._run = _Run(analyzer.document("layout"))
        self._place = os.path.join(directory, prefix)
        self._first: Dict[Numbered, int] = {}  # the number from which on all members have the calls
        self._left_out: Counter[str] = collections.Counter()
        self._ranks: Set[int] = set()  # that have a file
        self._calls = 0

    def check_source(self) -> None:
        if "flight_recorder" in self._run.sources:
            raise Unusable("these are Flight Recorder dumps already")
        if "digest" in self._run.sources:
            raise Unusable("a digest does not hold all calls in full: export the dumps")

    def write_all(self) -> Written:
        """Two passes, because a job's calls fill more than memory: the first finds where records begin."""
        self._find_first()
        if not self._first:  # a job without NCCL: a journal of its markers, say
            return Written(0, 0, [])
        self._left_out = collections.Counter({"processes without a rank": self._run.without_rank})
        for _, rows in itertools.groupby(self._analyzer.records("show"), key=lambda row: row["rank"]):
            self._write_process(rows)
        for rank in sorted(set(self._run.process_of) - self._ranks):
            self._write_file(_File(self._run, rank))
        return Written(len(self._ranks), self._calls,
                       [f"left out: {what} ({count})" for what, count in sorted((+self._left_out).items())])

    def _call_of(self, row: Row) -> Optional[_Call]:
        communicator = self._run.number_of.get(row["communicator"])
        if row["op"] in _WITHOUT_NAME:
            self._left_out[f"calls of {row['op']}, which Flight Recorder does not have"] += 1
        known = communicator is not None and row["seq"] is not None and row["op"] in _OPERATIONS
        return _Call(row, communicator) if known else None

    def _find_first(self) -> None:
        """A member without any call on record has had those that it has issued."""
        least: Dict[Tuple[Numbered, int], int] = {}
        for number, one in enumerate(self._run.communicators):
            for member, issued in enumerate(one["issued"]):
                if issued is not None:
                    least[((number,), member)] = issued + 1
        for row in self._analyzer.records("show"):
            call = self._call_of(row)
            if call is not None:
                key = (call.counted_by, call.member)
                least[key] = min(least.get(key, call.number), call.number)
        for (counted_by, _), number in least.items():
            self._first[counted_by] = max(self._first.get(counted_by, 0), number)

    def _write_process(self, rows: Iterable[Row]) -> None:
        """It may drive several ranks: each gets a file."""
        files: Dict[int, _File] = {}
        for row in rows:
            call = self._call_of(row)
            if call is None or row["state"] == "captured" or call.number < self._first.get(call.counted_by, 0):
                continue
            told = self._run.rank_in(call.communicator, call.member)
            rank = row["rank"] if told is None else told
            if rank not in self._run.process_of:
                continue
            if rank not in files:
                files[rank] = _File(self._run, rank)
            if not files[rank].add(call):
                self._left_out["sends and receives whose peer is not known, or is the caller itself"] += 1
        for file in files.values():
            self._write_file(file)

    def _write_file(self, file: _File) -> None:
        path = f"{self._place}{file.rank}"
        with os.fdopen(private_file.create(path), "wb") as opened:
            pickle.dump(file.dump(), opened, protocol=_PROTOCOL)
        # Readers take a file's time for the moment of the dump, and so for how long calls have waited.
        os.utime(path, ns=(file.dumped_ns, file.dumped_ns))
        self._ranks.add(file.rank)
        self._calls += len(file.entries)


def write(analyzer: Analyzer, directory: str, prefix: str) -> Written:
    exporter = _Exporter(analyzer, directory, prefix)
    exporter.check_source()
    try:
        os.makedirs(directory, exist_ok=True)
        if os.listdir(directory):
            raise Unusable(f"{directory} is not empty: fr_trace reads all that is in its directory; name an empty one")
        return exporter.write_all()
    except OSError as error:
        raise Unusable(f"{error.filename or directory}: {error.strerror}") from error
