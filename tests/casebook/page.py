"""docs/evidence/casebook.md, written from the cases."""
import collections
import pathlib

import casebook

TRACKERS = ("pytorch", "nccl", "megatron_deepspeed", "hugging_face", "serving")
PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "casebook.md"
HEAD = """# Casebook

These are hangs and slow jobs from public issue trackers whose threads found the cause. For each, a small program of
ours does the same on the [simulated node](../../tests/simgpu/README.md), under real torchrun with the preload. The
table says what `titan-analyze` answers, and what the answer is worth. We chose all cases, with what a right verdict
must contain, before we tried the first one, and list all of them. A verdict is *right* if it names the same ranks and
the same kind as the thread, *partly right* if it names one of the two, and *wrong* if it sends you to another rank.

`tests/casebook/test_casebook.py --write` writes this page from [tests/casebook](../../tests/casebook/README.md), which
says how to run a case. `./scripts/test --casebook` runs all cases, and fails if a verdict changes, even for the better.

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
