"""A case: a thread in a public issue tracker whose cause was found there, a program of our own that does the same, what
a right verdict must contain, and what titan-analyze says. docs/casebook.md is written from these."""
import collections
import re

CASES = {}
Right = collections.namedtuple("Right", "kinds ranks says")
Case = collections.namedtuple("Case", "name link symptom cause right size launcher request seen verdict why run")


def right(kinds, *ranks, says=""):
    """What a right verdict contains: one of these kinds, one of these sets of ranks (any, where none is given), and a
    summary that matches. Written down before the program was tried."""
    return Right(kinds.split(), [list(some) for some in ranks], says)


def case(link, symptom, cause, answer, size=4, launcher="torchrun", request=False, seen=None, partly="", wrong="",
         nothing="", not_run=""):
    """
    size: ranks. launcher: torchrun, or "none" for ranks that nobody ends when one dies. request: dumps are asked for
    while the job runs (slow jobs), the watchdog says nothing. seen: (kind, ranks) of our verdict, None for NOTHING
    WRONG. partly, wrong, nothing: why a verdict that is not right is not.
    """
    marks = {"partly right": partly, "wrong": wrong, "nothing seen": nothing, "not run": not_run}
    verdict, why = next(((mark, why) for mark, why in marks.items() if why), ("right", ""))

    def add(run):
        CASES[run.__name__] = Case(run.__name__, link, symptom, cause, answer, size, launcher, request, seen, verdict,
                                   why, run)
        return run
    return add


def is_right(answer, kind, ranks, summary):
    return (kind in answer.kinds and (not answer.ranks or ranks in answer.ranks) and
            bool(re.search(answer.says, summary)))


def url(link):
    repository, number = link.split("#")
    return f"https://github.com/{repository}/issues/{number}"
