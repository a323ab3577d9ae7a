"""A case: a thread in a public issue tracker whose cause was found there, a program of our own that does the same, what
a right verdict must contain, and what titan-analyze says. docs/evidence/casebook.md is written from these."""
import collections
import re

CASES = {}
Right = collections.namedtuple("Right", "kinds ranks says")
Case = collections.namedtuple("Case", "name link symptom cause right size launcher hang_s request_s seen verdict why "
                                      "run")


def right(kinds, *ranks, says=""):
    """What a right verdict contains: one of these kinds, one of these sets of ranks (any, where none is given), and a
    summary that matches. Written down before the program was tried."""
    return Right(kinds.split(), [list(some) for some in ranks], says)


def case(link, symptom, cause, answer, size=4, launcher="torchrun", hang_s=3, request_s=0, seen=None, partly="",
         wrong="", nothing="", not_run=""):
    """
    size: ranks. launcher: torchrun, or "none" for ranks that nobody ends when one dies. hang_s: TITANTRACE_TIMEOUT_S
    (300 by default; more than 3 where a rank needs time to end). request_s: of a slow job dumps are asked for after so
    many seconds. seen: (kind, ranks) of our verdict, None for NOTHING WRONG; ranks are None where they differ from run
    to run. partly, wrong, nothing: why a verdict that is not right is not.
    """
    marks = {"partly right": partly, "wrong": wrong, "nothing seen": nothing, "not run": not_run}
    verdict, why = next(((mark, why) for mark, why in marks.items() if why), ("right", ""))

    def add(run):
        CASES[run.__name__] = Case(run.__name__, link, symptom, cause, answer, size, launcher, hang_s, request_s, seen,
                                   verdict, why, run)
        return run
    return add


def is_right(answer, kind, ranks, summary):
    return (kind in answer.kinds and (not answer.ranks or ranks in answer.ranks) and
            bool(re.search(answer.says, summary)))


def url(link):
    repository, number = link.split("#")
    return f"https://github.com/{repository}/issues/{number}"
