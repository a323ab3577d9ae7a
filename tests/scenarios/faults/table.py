"""The table of classes, and what choosing a place for a fault needs.

A class is a function that takes a case, chooses a job, edits it, and says the truth.
"""

from typing import Callable, Dict

from case import Case
from program import Op
from truth import ABSENT, CYCLE, MISMATCH

CLASSES: Dict[str, Callable[[Case], None]] = {}


def fault(build: Callable[[Case], None]):
    CLASSES[build.__name__] = build
    return build


# Classes made later, which have numbers of their own: name -> (how to make it, recorders).
NEWER: Dict[str, Callable[[Case], None]] = {}
NEWER_RECORDERS: Dict[str, tuple] = {}


def newer(*recorders: str):
    """A newer class, of dumps of `own` format or files of `pytorch` (both if none is named)."""
    def register(build: Callable[[Case], None]):
        NEWER[build.__name__] = build
        NEWER_RECORDERS[build.__name__] = recorders or ("pytorch", "own")
        return build
    return register


WIDE = ("ddp", "fsdp", "hsdp", "moe", "coalesced", "rollout")  # groups of more than two ranks
GRIDS = ("megatron", "megatron_deep", "context", "hsdp", "rollout", "moe", "interleaved",
         "experts")  # several groups a rank
PIPES = ("megatron", "megatron_deep", "context", "interleaved")
# With a group of two, one call more or less of either is the same record.
SHIFTED = ABSENT | MISMATCH | CYCLE


def is_call(op: Op) -> bool:
    return op.kind == "call"


def wide(op: Op) -> bool:
    return len(op.group.ranks) > 2


def pair_may_be_either(case: Case, op: Op) -> list:
    """In a group of two nothing but other groups can tell who is wrong."""
    return op.group.ranks if len(op.group.ranks) == 2 else []
