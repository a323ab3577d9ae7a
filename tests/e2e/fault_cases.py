"""The rows of faults.txt: how each is made to happen, and what the verdict must be."""

import dataclasses
import pathlib
import typing

SHORT = {
    # 2 dp groups of 4 and 4 tp groups of 2; 2 tp groups of 4; 4 stages of 2.
    "DP4": "--ranks 8 --tp 2", "TP4": "--ranks 8 --tp 4", "WIDE": "--ranks 16 --tp 4 --pp 2", "PP2": "--ranks 4 --pp 2",
    "DP2": "--ranks 2", "SLOW": "--step-ms 100",
    "STRICT": "SIMGPU_STRICT_MATCHING=1",  # else another reduction computes nonsense and hangs nobody
    "UNWATCHED": "TITANTRACE_GPU_PROGRESS=off",
}


@dataclasses.dataclass(frozen=True)
class FaultCase:
    name: str
    options: str
    faults: str
    kinds: tuple  # of the verdict, any of these
    ranks: tuple
    comm: typing.Optional[str]
    seq: typing.Optional[int]
    op: typing.Optional[str]
    confidence: typing.Optional[tuple] = None
    words: tuple = ()  # in the summary
    evidence: tuple = ()  # words somewhere in its lines
    settings: dict = dataclasses.field(default_factory=dict)
    records: typing.Optional[int] = None  # dumps to wait for; one per rank when None


# Each time: that the chain from the process to the verdict works. Which verdict a fault gets is asked of the analyzer
# alone (tests/unit/analyzer/verdicts); all rows together run at night.
EACH_TIME = {"skip", "spin", "killed", "kernel_hangs", "channel_hangs", "captured_not_run", "never_inits",
             "send_missing"}


def case_of(row):
    in_full = lambda text: " ".join(SHORT.get(word, word) for word in text.split())
    name, options, faults, verdict, more, *_ = [part.strip() for part in row.split(" | ")] + [""]
    kinds, ranks, *call = verdict.split()
    comm, seq, op = [None if word == "-" else word for word in call]
    settings = [word.split("=", 1) for word in in_full(more).split()]
    of = lambda key: tuple(value.replace("~", " ") for name, value in settings if name == key)
    return FaultCase(name, in_full(options), faults, tuple(kinds.split("/")), tuple(map(int, ranks.split(","))), comm,
                     seq and int(seq), op, of("confidence") or None, of("word"), of("evidence"),
                     {key: value for key, value in settings if key.isupper()},
                     next((int(value) for key, value in settings if key == "records"), None))


def rows():
    text = pathlib.Path(__file__).with_name("faults.txt").read_text(encoding="utf-8").replace("\n  ", " ")
    return [row for row in text.splitlines() if row and not row.startswith("#")]


CASES = [case_of(row) for row in rows()]
