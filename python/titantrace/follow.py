"""A job while it runs: what its rings on this node and its journal have that is new, again and again."""
import sys
import time
from typing import Callable, Iterator, List, Optional, Tuple, TypeVar

from .analyzer import Analyzer, Row, Unusable
from .said import say

_GONE = frozenset(("exited", "crashed", "killed", "ended"))
_NO_STEP = -1
_Answer = TypeVar("_Answer")


def _progress(analyzer: Analyzer) -> Tuple[int, bool]:
    """The newest step that no rank is in any more, and whether the job has ended."""
    ranks = analyzer.sql("SELECT status, step FROM ranks")
    steps = [_NO_STEP if rank["step"] is None else int(rank["step"]) for rank in ranks]
    running = [step for step, rank in zip(steps, ranks) if rank["status"] not in _GONE]
    return (min(running) - 1, False) if running else (max(steps), True)


def looks(analyzer: Analyzer, every_s: float) -> Iterator[int]:
    """The newest complete step, again and again, from when something is on record until the job has ended, or the user
    ends this."""
    is_waiting = is_over = False
    try:
        while not is_over:
            try:
                newest, is_over = _progress(analyzer)
                yield newest
            except Unusable:
                if not is_waiting:
                    say("nothing is on record yet: waiting", file=sys.stderr)
                is_waiting = True
            if not is_over:
                time.sleep(every_s)
    except KeyboardInterrupt:
        pass


def settled(ask: Callable[[], _Answer], every_s: float) -> _Answer:
    """Asks again, once, where nothing was to be read: a rank's record may begin, or end, between two questions."""
    try:
        return ask()
    except Unusable:
        time.sleep(every_s)
        return ask()


def new_rows(analyzer: Analyzer, every_s: float) -> Iterator[List[Row]]:
    """Of titan-analyze metrics: each step once, in their order. What a restart does again is not told again."""
    told: Optional[int] = None
    for newest in looks(analyzer, every_s):
        if newest >= _NO_STEP and (told is None or newest > told):
            wanted = [] if told is None else ["--steps", f"{told + 1}-{newest}"]
            rows = settled(lambda: list(analyzer.records("metrics", *wanted)), every_s)
            yield [row for row in rows if row["step"] <= newest]
            told = newest
