"""The table of cases.py in docs/evidence/compatibility.md: written from runs, and what the test holds later runs
against."""
import collections
import concurrent.futures
import datetime
import pathlib
import re
import sys

import harness
import outcomes
from cases import CASES, ENDED, FILES, HANGING

PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "compatibility.md"
BEGIN = "<!-- begin: written by tests/pytorch/test_pytorch.py --write -->\n"
END = "<!-- end: test_pytorch -->"
VIEWS = (HANGING, ENDED, FILES)
NOT_ASKED, NOT_RUN = "-", "not run"
HEAD = ["program and mistake", "cause", *VIEWS, "what titan-analyze says", "why not right"]
BETWEEN = " or "  # runs of one case may end differently


def table_text():
    return PATH.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def rows():
    """name: cells, of the table as it stands."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table_text().splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells] for cells in lines}


def marks(name):
    """view: the marks that the table gives to a case; {} where it was not run."""
    cells = rows().get(name, [])
    found = dict(zip(VIEWS, cells[2:2 + len(VIEWS)]))
    return {view: cell.split(BETWEEN) for view, cell in found.items() if cell not in (NOT_ASKED, NOT_RUN)}


def row(name, runs):
    case = CASES[name]

    def cell(view):
        seen = {run[view].mark for run in runs if view in run}
        return BETWEEN.join(mark for mark in outcomes.MARKS if mark in seen) or NOT_ASKED
    worst = max((outcome for run in runs for view, outcome in run.items() if view != FILES),
                key=lambda outcome: outcomes.MARKS.index(outcome.mark), default=outcomes.Outcome("", ""))
    return [f"`{name}`", case.cause, *map(cell, VIEWS), worst.summary.replace("|", "\\|"), case.why]


def write(runs):
    """Replaces the rows of the cases that ran."""
    before = rows()
    lines = [row(name, runs[name]) if name in runs else
             before.get(name, [f"`{name}`", case.cause, *[NOT_RUN] * len(VIEWS), "", case.why])
             for name, case in CASES.items()]
    counts = collections.Counter((view, mark) for line in lines for view, cell in zip(VIEWS, line[2:])
                                 for mark in cell.split(BETWEEN)[-1:])
    sums = [["", *VIEWS], *([mark, *(counts[view, mark] for view in VIEWS)] for mark in (*outcomes.MARKS, NOT_RUN))]
    text = (f"Written {datetime.date.today()}; the worst of all runs of a case counts.\n\n"
            f"{grid(sums)}\n{grid([HEAD, *lines])}")
    head, _, rest = PATH.read_text(encoding="utf-8").partition(BEGIN)
    PATH.write_text(head + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


def grid(lines):
    ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in ruled)


def run(name, keep):
    print(f"{name} ...", file=sys.stderr, flush=True)
    place = harness.Place()
    try:
        found = outcomes.Run(place, CASES[name], keep and keep / name.replace("/", "-")).run()
    except (AssertionError, OSError) as error:
        print(f"{name}: {error}\n{place.ran[0].report()}", file=sys.stderr, flush=True)
        return None
    finally:
        place.close()
    for view, outcome in found.items():
        print(f"{name}, {view}: {outcome.mark}: {outcome.summary}", flush=True)
    return found


def run_all(names, repeat, keep, at_once):
    """name: outcomes of its runs, of those that ran."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        jobs = [(name, pool.submit(run, name, keep and (keep / str(number) if repeat > 1 else keep)))
                for number in range(repeat) for name in names]
        found = collections.defaultdict(list)
        for name, one in jobs:
            if one.result():
                found[name].append(one.result())
    return found
