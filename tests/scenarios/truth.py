"""What is true of a case, and what an expert could say who has only the records."""

from typing import Iterable, List, Set

ABSENT = {"rank_not_arrived", "p2p_unmatched", "rank_dead", "comm_init_stuck"}
MISMATCH = {"op_mismatch", "size_mismatch", "dtype_mismatch", "redop_mismatch", "root_mismatch"}
CYCLE = {"order_inversion", "p2p_cycle"}
STUCK = {"stuck_in_flight", "gpu_queue_blocked"}
SLOW_RANK = {"straggler", "slow_step"}
SLOW = SLOW_RANK | {"slow_collective"}
HANGS = ABSENT | MISMATCH | CYCLE | STUCK


class Cause:
    """A story: kinds of finding that tell it, and the ranks that it accuses."""

    def __init__(self, kinds: Set[str], ranks: Iterable[int]):
        self.kinds = set(kinds)
        self.ranks = set(ranks)

    def describe(self) -> dict:
        return {"kinds": sorted(self.kinds), "ranks": sorted(self.ranks)}


class Truth:
    """
    causes: what is wrong; empty for a healthy job.
    weaker: stories that the same records fit as well. They are right, too, unless called certain.
    among: where the records cannot tell which ranks, any set of these that holds the guilty ones is right, unless
    certain. among_without_history: the same where the ring holds little more than a step: habits cannot be seen.
    one_is_enough: of several causes; the others may be hidden by it.
    any_member: of what all are in, naming some of them is right.
    silent_is_right: the records hold nothing of it, so that "nothing wrong" cannot be held against the reader.
    facts: stories that the records show as well as the causes: right, even if certain.
    beside: what is true, too, and may stand behind the first finding, though it is not the cause.
    waiting_is_right: it is too early, or too little of it was seen, to call it a hang; but who waits must be said.
    nobody_skipped: the guilty stand still or are gone: "skipped" is no certain answer, though the rank is right.
    possible_is_right: the records contradict each other, and whatever is only called possible is right.
    rings_are_small: that what waits may be overwritten, and who is to blame cannot be told, is right if only possible.
    over: the job had ended when it was looked at: nobody waits any more, and nothing "would be called a hang" later.
    cannot_tell_is_right: most ranks left no record, so that a reader may say that it cannot tell (exit status 3).
    """

    def __init__(self, outcome: str, causes: List[Cause] = (), weaker: List[Cause] = (), among: Iterable[int] = (),
                 silent_is_right: bool = False, note: str = "", among_without_history: Iterable[int] = ()):
        self.outcome = outcome
        self.causes = list(causes)
        self.weaker = list(weaker)
        self.among = set(among)
        self.among_without_history = set(among_without_history)
        self.silent_is_right = silent_is_right
        self.note = note
        self.one_is_enough = False
        self.any_member = False
        self.cannot_tell_is_right = False
        self.facts: List[Cause] = []
        self.beside: List[Cause] = []
        self.waiting_is_right = False
        self.over = False
        self.rings_are_small = False
        self.possible_is_right = False
        self.nobody_skipped = False

    def describe(self) -> dict:
        return {"outcome": self.outcome, "causes": [cause.describe() for cause in self.causes],
                "weaker": [cause.describe() for cause in self.weaker], "among": sorted(self.among),
                "silent_is_right": self.silent_is_right, "note": self.note, **self.more()}

    def more(self) -> dict:
        """What only some cases have."""
        found = {name: [cause.describe() for cause in getattr(self, name)] for name in ("facts", "beside")}
        found.update({name: getattr(self, name) for name in ("waiting_is_right", "possible_is_right", "over",
                                                             "nobody_skipped", "cannot_tell_is_right")})
        return {name: value for name, value in found.items() if value}


def healthy(note: str = "") -> Truth:
    return Truth("healthy", note=note)


def hang(kinds: Set[str], ranks: Iterable[int], **more) -> Truth:
    return Truth("hang", [Cause(kinds, ranks)], **more)
