"""What titantrace recorded, for other tools: metrics for TensorBoard or Weights & Biases, all records as Parquet,
Arrow, SQLite or JSON Lines, spans for OpenTelemetry, the summary for Prometheus, calls as PyTorch's Flight Recorder."""
import argparse
import math
import os
import sys
from typing import Any, Dict, Iterable, List, Set, Tuple, Union

from . import flight_recorder, follow, openmetrics, otlp, tables, torchtitan_logs
from .analyzer import Analyzer, Process, Row, Unusable, package, process_of
from .said import say

Points = List[Tuple[int, float, Dict[str, float]]]  # of each step: its newest moment (s since 1970), values by name

WRITTEN, NOTHING, UNUSABLE = 0, 1, 2
_BEFORE_STEPS = -1
_FOLLOW_S = 30.0
_RANKS_OF_LABELS = "0-63"  # what labels these agree on is the run's

_HELP = """--tensorboard, --wandb: each metric becomes a scalar of its name at each step, joined over the ranks as the
program said (titantrace.metric with reduce=): those that it said not to join become "NAME (lowest)" and "NAME
(highest)". Where ranks were in a step and did not report a metric, or their markers of that step are overwritten,
"ranks reported/NAME" says how many are in the value. NaN and infinity are kept. Labels on which all ranks agree
(titantrace.label) become hyperparameters, or the run's config.

With --follow they are fed while the job runs, from the rings of this node and the journals of all: each step once no
rank is in it any more, which ranks of other nodes tell once a minute (TITANTRACE_JOURNAL_S). A restart goes on where
the run was; steps that it does again are not told twice.

--parquet, --arrow, --sqlite, --jsonl: a table for each kind of record: calls, markers, cuda_calls, work, health, labels
and so on; titan-analyze fields describes them. Lists are JSON in a text.

--otlp: steps and spans, with their attributes, events and errors, as OTLP/JSON, one message a line: the otlpjsonfile
receiver of an OpenTelemetry collector reads it. One trace for each rank.

--torchtitan: spans, events and metrics as torchtitan's structured logger writes them, for what reads its files.

--openmetrics: steps, spans, calls and metrics as titan-analyze summary sums them up, for node_exporter's textfile
collector: run it every now and then, from cron.

--flight-recorder: a file for each rank, as PyTorch's Flight Recorder writes them (pickles of plain data, version 2.10).
Collectives are numbered from 1 there and from 0 here. Each pair of ranks that send to each other is a process group of
its own, because fr_trace matches point-to-point calls only in groups of two. What the format has no place for is left
out: reduction and root, streams, steps and spans, creation of communicators.
"""
_EPILOG = """examples:
  python -m titantrace.export --tensorboard runs/llama dumps/     then: tensorboard --logdir runs
  python -m titantrace.export --wandb my-project --offline dumps/ then: wandb sync wandb/offline-run-*
  python -m titantrace.export --tensorboard runs/llama --follow dumps/   while the job runs
  python -m titantrace.export --parquet records/ dumps/           then: duckdb -c "FROM 'records/calls.parquet'"
  python -m titantrace.export --sqlite records.db dumps/          then: sqlite3 records.db "SELECT * FROM fields"
  python -m titantrace.export --otlp spans.json dumps/            then: a collector with the receiver otlpjsonfile
  python -m titantrace.export --openmetrics /var/lib/node_exporter/titan.prom dumps/
  python -m titantrace.export --flight-recorder fr/ dumps/
  python -m torch.distributed.flight_recorder.fr_trace fr/ -p nccl_trace_rank_

Exit status: 0 something was written, 1 nothing of that kind is on record, 2 unusable input or arguments, or a package
is missing.
"""


def labels_of(analyzer: Analyzer) -> Dict[str, str]:
    """The labels on which the ranks agree: other labels are facts about a rank, not about the run."""
    told: Dict[str, Dict[Process, str]] = {}
    for record in analyzer.records("show", "--labels", "--rank", _RANKS_OF_LABELS):
        told.setdefault(record["name"], {})[process_of(record)] = record["text"]
    return {name: next(iter(texts.values())) for name, texts in sorted(told.items()) if len(set(texts.values())) == 1}


def _name(row: Row) -> str:
    """Ranks of several roles may report metrics of one name."""
    return f"{row['role']}/{row['metric']}" if row["role"] else str(row["metric"])


def _values(row: Row) -> Dict[str, float]:
    name = _name(row)
    if row["value"] is None:
        return {f"{name} ({end})": math.nan if row[end] is None else float(row[end]) for end in ("lowest", "highest")}
    return {name: float(row["value"])}


def points_of(rows: List[Row]) -> Points:
    """By step, with the ranks that report a metric where it ever lacks some."""
    partial: Set[str] = {_name(row) for row in rows if row["ranks_missing"] or row["ranks_not_on_record"]}
    points: Dict[int, Dict[str, float]] = {}
    moments: Dict[int, float] = {}
    for row in rows:
        values = points.setdefault(row["step"], {})
        values.update(_values(row))
        moments[row["step"]] = max(moments.get(row["step"], 0), row["realtime_ns"] / 1e9)
        if _name(row) in partial:
            values[f"ranks reported/{_name(row)}"] = float(row["ranks_reported"])
    return [(step, moments[step], values) for step, values in sorted(points.items())]


class _TensorBoard:
    """By TensorBoard's own writer, which keeps names as they are."""

    def __init__(self, directory: str, points: Points, labels: Dict[str, str]) -> None:
        self.place = directory
        files = package("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._protocol = package("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = package("tensorboard.compat.proto.summary_pb2", "tensorboard")
        hparams = package("tensorboard.plugins.hparams.summary_v2", "tensorboard")
        if os.path.isdir(directory) and any(".tfevents." in name for name in os.listdir(directory)):
            raise Unusable(f"{directory} already holds a run of TensorBoard: give a directory of its own to each")
        try:
            self._writer = files.EventFileWriter(directory)
        except OSError as error:
            raise Unusable(f"{directory}: {error.strerror}") from error
        if labels:
            metrics = sorted({name for _, _, values in points for name in values})
            for summary in (hparams.hparams_config_pb(hparams=[hparams.HParam(name) for name in labels],
                                                      metrics=[hparams.Metric(name) for name in metrics]),
                            hparams.hparams_pb(labels, trial_id=os.path.basename(os.path.abspath(directory)))):
                self._writer.add_event(self._protocol.Event(wall_time=points[0][1], summary=summary))

    def add(self, points: Points) -> None:
        for step, moment, values in points:
            scalars = [self._summaries.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
            self._writer.add_event(self._protocol.Event(wall_time=moment, step=step,
                                                        summary=self._summaries.Summary(value=scalars)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """A run's steps are ours; what was reported before the first one is in its summary."""

    def __init__(self, project: str, is_offline: bool, labels: Dict[str, str]) -> None:
        wandb = package("wandb", "wandb")
        settings = wandb.Settings(console="off", disable_code=True, disable_git=True, x_disable_meta=True,
                                  x_disable_stats=True)  # this machine and program are not what ran
        try:
            self._run = wandb.init(project=project, config=labels, mode="offline" if is_offline else "online",
                                   settings=settings)
        except wandb.Error as error:
            told = str(error).rstrip(".")
            raise Unusable(f"Weights & Biases: {told}. Without network or login, try --offline") from error
        self.place = str(self._run.dir if is_offline else self._run.url)

    def add(self, points: Points) -> None:
        for step, moment, values in points:
            if step == _BEFORE_STEPS:
                self._run.summary.update(values)
            else:
                self._run.log({**values, "_timestamp": moment}, step=step)

    def close(self) -> None:
        self._run.finish()


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("wants seconds, more than 0")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m titantrace.export", description=f"{__doc__}\n\n{_HELP}",
                                     epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--tensorboard", metavar="DIR", help="write a run of TensorBoard into this directory of its own")
    to.add_argument("--wandb", metavar="PROJECT", help="make a run in this project of Weights & Biases")
    to.add_argument("--parquet", metavar="DIR", help="write DIR/calls.parquet and so on (needs pyarrow)")
    to.add_argument("--arrow", metavar="DIR", help="write DIR/calls.arrow and so on (needs pyarrow)")
    to.add_argument("--sqlite", metavar="FILE", help="write a new SQLite database")
    to.add_argument("--jsonl", metavar="DIR", help="write DIR/calls.jsonl and so on")
    to.add_argument("--otlp", metavar="FILE", help="write a new file of spans for OpenTelemetry")
    to.add_argument("--torchtitan", metavar="DIR", help="write markers as torchtitan's structured logger does")
    to.add_argument("--openmetrics", metavar="FILE", help="write, or replace, a file for Prometheus")
    to.add_argument("--flight-recorder", metavar="DIR", help="write files for PyTorch's fr_trace: DIR must be empty")
    parser.add_argument("--prefix", help=f"Flight Recorder: start of the names (default: {flight_recorder.PREFIX})")
    parser.add_argument("--offline", action="store_true", help="Weights & Biases: write into ./wandb, without network")
    parser.add_argument("--follow", metavar="SECONDS", type=_seconds, nargs="?", const=_FOLLOW_S,
                        help="--tensorboard, --wandb, --openmetrics: look again that often, until the job ends "
                             f"(default: {_FOLLOW_S:.0f})")
    parser.add_argument("--run", help="the run among the dumps (titan-analyze --list-runs; default: the newest)")
    parser.add_argument("--attempt", help="of the run, such as 0 (default: the newest)")
    parser.add_argument("--start", help="of the attempt, such as 1, where there are several (default: the newest)")
    parser.add_argument("--role", help="of a job whose roles number their ranks alike, such as trainer")
    parser.add_argument("--titan-analyze", metavar="PROGRAM", help="where it is (default: beside this Python, or PATH)")
    parser.add_argument("dumps", nargs="+", metavar="DUMPS", help="as for titan-analyze: directories, dumps, archives")
    return parser


def _export_metrics(analyzer: Analyzer, arguments: argparse.Namespace) -> int:
    batches: Iterable[List[Row]] = (follow.new_rows(analyzer, arguments.follow) if arguments.follow
                                    else [list(analyzer.records("metrics"))])
    board: Union[_TensorBoard, _Wandb, None] = None
    names: Set[str] = set()
    steps, labels = 0, {}
    try:
        for points in filter(None, map(points_of, batches)):
            if board is None:
                labels = labels_of(analyzer)
                board = (_TensorBoard(arguments.tensorboard, points, labels) if arguments.wandb is None
                         else _Wandb(arguments.wandb, arguments.offline, labels))
                if arguments.follow:
                    say(f"metrics go to {board.place} until the job ends")
            board.add(points)
            names.update(name for _, _, values in points for name in values)
            steps += len(points)
    finally:
        if board is not None:
            board.close()
    if board is None:
        return NOTHING
    say(f"{len(names)} scalars of {steps} steps and {len(labels)} labels are written: {board.place}")
    return WRITTEN


def _export_openmetrics(analyzer: Analyzer, arguments: argparse.Namespace) -> int:
    path, lines = arguments.openmetrics, 0
    if not arguments.follow:
        lines = openmetrics.write(analyzer, path)
    else:
        for _ in follow.looks(analyzer, arguments.follow):
            lines = follow.settled(lambda: openmetrics.write(analyzer, path), arguments.follow)
    if lines == 0:
        return NOTHING
    say(f"{lines} lines are written: {path}")
    return WRITTEN


def _export_tables(analyzer: Analyzer, format_name: str, place: str) -> int:
    written = tables.write_tables(analyzer, format_name, place)
    if not written:
        return NOTHING
    say(f"{', '.join(f'{count:,} {name}' for name, count in written)} are written: {place}")
    return WRITTEN


def _export_flight_recorder(analyzer: Analyzer, directory: str, prefix: str) -> int:
    written = flight_recorder.write(analyzer, directory, prefix)
    for note in written.notes:
        say(f"titantrace.export: {note}", file=sys.stderr)
    if not written.files:
        return NOTHING
    say(f"{written.files} file{'' if written.files == 1 else 's'}, {written.calls:,} calls are written: {directory}")
    return WRITTEN


def export(arguments: argparse.Namespace) -> int:
    which = [word for name in ("run", "attempt", "start", "role") if (value := getattr(arguments, name))
             for word in (f"--{name}", value)]
    analyzer = Analyzer(arguments.titan_analyze, arguments.dumps, which)
    for format_name in tables.FORMATS:
        place = getattr(arguments, format_name)
        if place is not None:
            return _export_tables(analyzer, format_name, place)
    if arguments.torchtitan is not None:
        written = torchtitan_logs.write(analyzer, arguments.torchtitan)
        say(f"{written:,} lines are written: {arguments.torchtitan}")
        return WRITTEN if written else NOTHING
    if arguments.otlp is not None:
        written = otlp.write(analyzer, arguments.otlp)
        say(f"{written:,} spans are written: {arguments.otlp}")
        return WRITTEN if written else NOTHING
    if arguments.openmetrics is not None:
        return _export_openmetrics(analyzer, arguments)
    if arguments.flight_recorder is not None:
        return _export_flight_recorder(analyzer, arguments.flight_recorder,
                                       flight_recorder.PREFIX if arguments.prefix is None else arguments.prefix)
    return _export_metrics(analyzer, arguments)


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.offline and arguments.wandb is None:
        parser.error("--offline goes with --wandb")
    if arguments.follow and not (arguments.tensorboard or arguments.wandb or arguments.openmetrics):
        parser.error("--follow goes with --tensorboard, --wandb or --openmetrics")
    if arguments.prefix is not None and arguments.flight_recorder is None:
        parser.error("--prefix goes with --flight-recorder")
    try:
        return export(arguments)
    except Unusable as error:
        say(f"titantrace.export: {error}", file=sys.stderr)
        return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
