"""What PyTorch's own tests of its Flight Recorder analyzer (test/distributed/flight_recorder/test_fr_analysis.py,
PyTorch 2.13) put to it, as dumps of two ranks, and what titan-analyze must say of the same files.

Theirs are dictionaries in memory with one state for all; ours are files as PyTorch writes them: numbers count up, calls
that can never end are still scheduled.
"""

import dataclasses
import itertools
import pathlib
import sys
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "synth"))
import fr_files  # noqa: E402

FOUR = [[4, 4]]
FIVE = [[5, 5]]


def call(name, inputs=FOUR, outputs=None, state="completed", dtype="Float", group="0"):
    return {"name": name, "inputs": inputs, "outputs": inputs if outputs is None else outputs, "state": state,
            "dtype": dtype,
            "group": group}


def waiting(*arguments, **options):
    return call(*arguments, state="scheduled", **options)


def coalesced(name, *inner, state="completed"):
    """Calls that share a number, and the entry that ends them."""
    return [*inner, call(name, [[]], [[]], state=state)]


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    ranks: tuple  # the calls of each rank; a list in it is a coalesced group
    fr_trace: str  # a word of what fr_trace says; empty where it finds nothing
    kind: typing.Optional[str]  # of our verdict; None: nothing wrong
    culprits: typing.Optional[tuple] = None
    better: str = ""  # where our outcome differs from fr_trace's: why it is the better one


GATHERED = [[32]]  # 2 ranks x 4 x 4
OF_TWO = "with two ranks nothing tells which of them is wrong: both are named; fr_trace takes its first rank for right"
BEFORE = [call("all_reduce"), call("all_reduce")]

SCENARIOS = (
    Scenario("same all_reduce", ([call("all_reduce")], [call("all_reduce")]), "", None),
    Scenario("another operation", ([*BEFORE, waiting("all_reduce")], [*BEFORE, waiting("all_gather", FOUR, GATHERED)]),
             "COLLECTIVE_TYPE_MISMATCH", "op_mismatch", (0, 1),
             OF_TWO),
    Scenario("same all_to_all", ([call("all_to_all")], [call("all_to_all")]), "", None),
    Scenario("other input sizes", ([*BEFORE, waiting("all_reduce", [[5, 4]])], [*BEFORE, waiting("all_reduce")]),
             "SIZE_OR_SYNTAX_MISMATCH", "size_mismatch", (0, 1), OF_TWO),
    Scenario("other output sizes", ([*BEFORE, waiting("all_reduce")], [*BEFORE, waiting("all_reduce", FOUR, FIVE)]),
             "SIZE_OR_SYNTAX_MISMATCH", "size_mismatch", (0, 1), OF_TWO),
    Scenario("other datatype", ([*BEFORE, waiting("all_reduce")], [*BEFORE, waiting("all_reduce", dtype="Half")]),
             "COLLECTIVE_DTYPE_MISMATCH", "dtype_mismatch", (0, 1), OF_TWO),
    Scenario("gather with outputs on its root only",
             ([call("gather", FOUR, [[4, 4], [4, 4]])], [call("gather", FOUR, [[]])]),
             "", None),
    Scenario("one has finished, one has not", ([*BEFORE, waiting("all_reduce")], [*BEFORE, call("all_reduce")]),
             "COLLECTIVE_STATE_MISMATCH", "stuck_in_flight", (0,),
             "a call that ended on one member only is stuck on the others, which are named"),
    Scenario("a group of one on each rank", ([call("all_reduce"), call("all_reduce", FIVE, group="1")],
                                             [call("all_reduce"), call("all_reduce", FIVE, group="2")]), "", None),
    Scenario("allreduce_coalesced", ([call("allreduce_coalesced")], [call("allreduce_coalesced")]), "", None),
    Scenario("two broadcasts in a group", ([coalesced("coalesced", call("broadcast"), call("broadcast"))],
                                           [coalesced("coalesced", call("broadcast"), call("broadcast"))]), "", None),
    Scenario("uneven all_gather that differs",
             ([*BEFORE, coalesced("ALLGATHER_coalesced", waiting("_broadcast_oop"), waiting("_broadcast_oop", FIVE),
                                  state="scheduled")],
              [*BEFORE, coalesced("ALLGATHER_coalesced", waiting("_broadcast_oop"), waiting("_broadcast_oop"),
                                  state="scheduled")]),
             "SIZE_OR_SYNTAX_MISMATCH", "size_mismatch", (0, 1), OF_TWO),
    Scenario("uneven reduce_scatter",
             ([coalesced("REDUCE_SCATTER_coalesced", call("_reduce_oop"), call("_reduce_oop"))],
              [coalesced("REDUCE_SCATTER_coalesced", call("_reduce_oop"), call("_reduce_oop"))]), "", None),
    Scenario("a group that one rank never entered",
             ([*BEFORE], [*BEFORE, coalesced("REDUCE_SCATTER_coalesced", waiting("_reduce_oop"), waiting("_reduce_oop"),
                                             state="scheduled")]),
             "missing ranks: {0}", "rank_not_arrived", (0,)),
    # Not in PyTorch's tests: what its users complain of.
    Scenario("the first rank is the wrong one",
             ([*BEFORE, waiting("reduce")], *([*BEFORE, waiting("all_reduce")] for _ in range(3))),
             "Culprit rank 1", "op_mismatch", (0,), "by majority rank 0; fr_trace blames ranks 1, 2 and 3"),
    Scenario("a rank that is missing", (*([*BEFORE, waiting("all_reduce")] for _ in range(3)), [*BEFORE]),
             "missing ranks: {3}", "rank_not_arrived", (3,)),
    Scenario("two groups in opposite orders",
             ([*BEFORE, call("all_reduce", group="1"), waiting("all_reduce", group="1"), waiting("all_reduce")],
              [*BEFORE, call("all_reduce", group="1"), waiting("all_reduce"), waiting("all_reduce", group="1")]),
             "", "order_inversion", None, "fr_trace finds nothing wrong: all calls match"),
)


def job_of(scenario):
    """Group 0 is the world; the others are of the ranks that call them."""
    job = fr_files.Job(len(scenario.ranks))
    members = {}
    for rank, calls in enumerate(scenario.ranks):
        for one in itertools.chain.from_iterable(item if isinstance(item, list) else [item] for item in calls):
            members.setdefault(one["group"], set()).add(rank)
    for name in members.keys() - {"0"}:
        job.group(name, f"group_{name}", sorted(members[name]))
    for rank, calls in enumerate(scenario.ranks):
        for item in calls:
            if isinstance(item, list):
                *inner, end = item
                job.coalesced(rank, end["group"], [(one["name"], one["inputs"], one["outputs"]) for one in inner],
                              end["name"],
                              end["state"])
            else:
                job.call(rank, item["group"], item["name"], item["inputs"], item["outputs"], item["state"],
                         input_dtypes=[item["dtype"]] * len(item["inputs"]),
                         output_dtypes=[item["dtype"]] * len(item["outputs"]))
    return job
