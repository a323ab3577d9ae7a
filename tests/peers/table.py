"""The rows of a comparison as two Markdown tables: in sum, and by class."""

import statistics

from compare import OURS
from verdict import RESULTS

NAMES = {"fr_trace": "fr_trace", "nvrx": "NVIDIA's", OURS: "titan-analyze"}
LARGE = 512


def grid(lines: list) -> list:
    return ["| " + " | ".join(map(str, line)) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]]]


def of(rows: list, tool: str) -> list:
    return [(row, row["tools"][tool]) for row in rows if tool in row["tools"]]


def counts(rows: list, tool: str) -> dict:
    return {result: sum(said["result"] == result for _, said in of(rows, tool)) for result in RESULTS}


def in_sum(rows: list, tools: list) -> list:
    """Tools side by side on the cases that all of them were asked."""
    common = [row for row in rows if all(tool in row["tools"] for tool in tools)]
    hangs, healthy, slow = ([row for row in common if row["outcome"] == outcome]
                            for outcome in ("hang", "healthy", "slow"))
    lines = [["", *(NAMES[tool] for tool in tools)]]

    def line(title, value):
        lines.append([title, *(value(tool) for tool in tools)])
    for result, words in RESULTS.items():
        line(f"**{len(hangs)} hangs**: {words}" if result == "right" else words,
             lambda tool: counts(hangs, tool)[result])
    line(f"**{len(healthy)} healthy runs**: a rank is accused",
         lambda tool: sum(counts(healthy, tool)[name] for name in ("among", "wrong")))
    line("failed", lambda tool: counts(healthy, tool)["failed"])
    line(f"**{len(slow)} slow runs**: right", lambda tool: counts(slow, tool)["right"])
    for title, some in ((f"{LARGE} ranks", [row for row in common if row["ranks"] >= LARGE]), ("all cases", common)):
        if some:
            line(f"**{title}**: time on a core, median", lambda tool: median(some, tool, "core_s", seconds))
            line("peak memory, median",
                 lambda tool: median(some, tool, "peak_bytes", lambda value: f"{value / 1e6:.0f} MB"))
    return grid(lines)


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def median(rows: list, tool: str, unit: str, show) -> str:
    values = [said[unit] for _, said in of(rows, tool) if not said["failed"]]
    return show(statistics.median(values)) if values else ""


def cell(rows: list, tool: str) -> str:
    found = counts(rows, tool)
    total = sum(found.values())
    if not total:
        return ""
    others = ", ".join(f"{count} {result}" for result, count in found.items() if count and result != "right")
    return f"{found['right']} of {total}" + (f" ({others})" if others else "")


def by_class(rows: list, tools: list) -> list:
    names = list(dict.fromkeys(row["class"] for row in rows))
    return grid([["class", *(NAMES[tool] for tool in tools)]]
                + [[name.replace("_", " "),
                    *(cell([row for row in rows if row["class"] == name], tool) for tool in tools)]
                   for name in names])


def recorded(rows: list, tools: list) -> list:
    def shown(said: dict) -> str:
        return said["result"] + (": " + ", ".join(map(str, said["named"][0])) if said["named"] else "")
    return grid([["recorded run", "fault at ranks", *(NAMES[tool] for tool in tools)]]
                + [[row["class"], ", ".join(map(str, row["guilty"])), *(shown(row["tools"][tool]) for tool in tools)]
                   for row in rows])


def ours_by_kind(rows: list) -> str:
    """What the stricter judge says of ours, in a sentence."""
    ours = [said for _, said in of(rows, OURS)]
    certain = [said for said in ours if said["said"] == "certain"]
    alarms = [said for row, said in of(rows, OURS) if row["outcome"] == "healthy" and said["kind"] != "right"]
    healthy = sum(row["outcome"] == "healthy" for row in rows)
    return (f"With the kind of the fault right as well (the judge of `tests/scenarios`), `titan-analyze` is right in "
            f"{sum(said['kind'] == 'right' for said in ours)} of {len(ours)}; of {len(certain)} verdicts called "
            f"certain "
            f"{sum(said['certain_wrong'] for said in certain)} are wrong; {len(alarms)} false alarms in {healthy} "
            f"healthy runs.")
