"""docs/evidence/casebook.md, written from the cases."""
import collections
import pathlib

import casebook

TRACKERS = ("pytorch", "nccl", "megatron_deepspeed", "hugging_face", "serving")
PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "casebook.md"
HEAD = """# Casebook

Hangs and slow jobs out of public issue trackers whose cause was found in the thread. For each a small program of our
own does the same on the [simulated node](../../tests/simgpu/README.md), under real torchrun with the preload;
`titan-analyze` gives its verdict, and here stands what it is worth. All were chosen, with what a right verdict must
contain, before the first was tried, and all that were chosen are listed. A verdict is *right* if it names the ranks
and the kind that the thread does, *partly right* if one of the two, *wrong* if it sends you to another rank.

Written by `tests/casebook/test_casebook.py --write` from [tests/casebook](../../tests/casebook/README.md), which says
how to run one; `./scripts/test --casebook` runs all, and fails when a verdict changes, for the better, too.

"""


def row(case):
    said = f"`{case.seen[0]}`, {ranks_of(case.seen[1])}" if case.seen else "-"
    why = f": {case.why}" if case.why else ""
    return (f"| [{case.link}]({casebook.url(case.link)}) | {case.symptom} | {case.cause} | {said} | "
            f"**{case.verdict}**{why} | `{case.name}` |")


def ranks_of(ranks):
    if ranks is None:
        return "other ranks each time"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else "no rank"


def text(cases):
    counts = collections.Counter(case.verdict for case in cases.values())
    order = ("right", "partly right", "wrong", "nothing seen", "not run")
    table = "".join(f"| {verdict} | {counts[verdict]} |\n" for verdict in order)
    in_order = sorted(cases.values(), key=lambda case: TRACKERS.index(case.run.__module__))
    rows = "\n".join(row(case) for case in in_order)
    return (f"{HEAD}| verdict | cases |\n|---|---|\n{table}\n"
            "| thread | symptom | cause according to the thread | we say | verdict | case |\n"
            "|---|---|---|---|---|---|\n"
            f"{rows}\n")
