"""The floor on courage: how many answers have to be certain and right.

Who always says "likely" is never certain and wrong, so the other numbers ask no courage. courage.json has, of each set
and class, the numbers of the fixed cases that are certain and right, and how many of fresh ones were. Of fixed cases as
many are needed; of fresh ones so many that as few as that are no chance, for each class and in sum. What fresh ones had
before is a sample, too: twelve cases of a class do not tell its share.
"""

import collections
import json
import math
import os

import faults

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "courage.json")
FIXED = {"first": 1000, "new": 228}  # numbers below are the fixed cases of a set
CHANCE = 1e-4  # that a class falls below its floor though it is as bold as before: there are 130 classes
DEVIATIONS = 4  # standard deviations that the sum may be below what is to be expected


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


def chance_of_so_few(count: int, cases: int, certain: int, of: int) -> float:
    """That no more than `count` of `cases` are bold where `certain` of `of` others were, and both have one share
    (Fisher's exact test)."""
    bold = count + certain
    return sum(math.comb(bold, few) * math.comb(cases + of - bold, cases - few)
               for few in range(count + 1) if few <= bold and cases - few <= cases + of - bold
               ) / math.comb(cases + of, cases)


def least_fresh(cases: int, certain: int, of: int) -> int:
    return next(count for count in range(cases + 1) if chance_of_so_few(count, cases, certain, of) >= CHANCE)


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
        count = sum(cases.values()) + sum(fresh)
        line(name, count, exact + least_fresh(len(fresh), known_of["certain"], known_of["of"]), len(cases) + len(fresh))
        had, expected = had + count, expected + exact + share * len(fresh)
        variance += share * (1 - share) * len(fresh) * (1 + len(fresh) / (known_of["of"] + 1))
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
