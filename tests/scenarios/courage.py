"""The floor on courage: how many answers have to be certain and right.

Who always says "likely" is never certain and wrong, so the other numbers ask no courage. courage.json has, of each set
and class, the numbers of the fixed cases that are certain and right, and how many of fresh ones were. Of fixed cases as
many are needed; of fresh ones as many as chance lets one expect, for each class and in sum.
"""

import collections
import json
import math
import os

import faults

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "courage.json")
FIXED = {"first": 1000, "new": 228}  # numbers below are the fixed cases of a set
DEVIATIONS = 3  # standard deviations below what fresh cases had


class Answers:
    """`rows`: (class, number, is it certain and right?) of one set."""

    def __init__(self, rows, which: str):
        self.fixed = collections.defaultdict(dict)
        self.fresh = collections.defaultdict(list)
        names = faults.SETS[which]
        for name, number, bold in rows:
            if number < FIXED[which] and names[number % len(names)] == name:
                self.fixed[name][number] = bold
            else:
                self.fresh[name].append(bold)


def is_bold(result: str, said: str) -> bool:
    return result == "right" and said == "certain"


def shortfalls(rows, which: str, known=None) -> list:
    """A line for each class with too few answers that are certain and right, and one where the sum has too few."""
    answers = Answers(rows, which)
    lines, had, expected, variance = [], 0, 0.0, 0.0

    def line(name, count, least, cases):
        if count < least:
            lines.append("%s: %d of %d certain and right, at least %d needed" % (name, count, cases, least))

    for name, known_of in (known or load())[which].items():
        cases, fresh = answers.fixed[name], answers.fresh[name]
        share = known_of["certain"] / (known_of["of"] + 1)
        exact = sum(number in cases for number in known_of["fixed"])
        likely, spread = exact + share * len(fresh), share * (1 - share) * len(fresh)
        count = sum(cases.values()) + sum(fresh)
        line(name, count, math.floor(likely - DEVIATIONS * math.sqrt(spread)), len(cases) + len(fresh))
        had, expected, variance = had + count, expected + likely, variance + spread
    line("all", had, math.floor(expected - DEVIATIONS * math.sqrt(variance)), len(rows))
    return lines


def load() -> dict:
    with open(PATH) as file:
        return json.load(file)


def raised(rows, which: str, known: dict) -> dict:
    """The floor after these rows: of each class the higher one."""
    answers = Answers(rows, which)
    floor = dict(known.get(which, {}))
    for name in sorted({*answers.fixed, *answers.fresh}):
        before = floor.get(name, {"fixed": [], "certain": 0, "of": 0})
        fixed = sorted(number for number, bold in answers.fixed[name].items() if bold)
        certain, of = sum(answers.fresh[name]), len(answers.fresh[name])
        after = {"fixed": fixed if len(fixed) >= len(before["fixed"]) else before["fixed"]}
        is_higher = certain * (before["of"] + 1) > before["certain"] * (of + 1)
        after.update({"certain": certain, "of": of} if is_higher else
                     {"certain": before["certain"], "of": before["of"]})
        if after["fixed"] or after["certain"]:
            floor[name] = after
    return {**known, which: floor}


def save(known: dict):
    """A line for each class."""
    sets = ['"%s": {\n%s\n}' % (which, ",\n".join('"%s": %s' % (name, json.dumps(floor[name])) for name in floor))
            for which, floor in sorted(known.items())]
    with open(PATH, "w") as file:
        file.write("{\n" + ",\n".join(sets) + "\n}\n")
