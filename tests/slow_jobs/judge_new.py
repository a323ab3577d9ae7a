"""How far `titan-analyze DIR` (the verdict) and `titan-analyze stragglers DIR` are right about jobs of
`generate.py --new`.

right      the verdict's first finding names the true fault: a class that truth.json allows, and whom
table      only `stragglers` does, with its costliest cause; the verdict says nothing of it
missed     neither says anything
wrong      either says something else; a fault that is named behind another one counts as wrong
small      nothing is said, and the fault costs under 1 % of a step
unseen     nothing is said, the fault is on devices, and nothing was recorded of them
healthy    nothing is said, and nothing is wrong
finding    a healthy job has a finding, of whatever kind
cause      a healthy job has no finding, but a cause in `stragglers`
share      of what is right: its share of a step is within 5 points of the truth

Of two faults the costlier one is asked for; either will do where the other one costs at least 80 % of it.
"""
import os
from typing import Callable, List, NamedTuple, Optional

from layout import PER_HOST

COLUMNS = ("right", "table", "missed", "wrong", "small", "unseen", "healthy", "finding", "cause")
GOOD = ("right", "small", "unseen", "healthy")
KINDS = ("slow_step", "straggler", "slow_collective")
ON_DEVICE = ("slow_gpu", "slow_host", "last_stage", "hot_expert", "uneven_lengths", "slow_communicator", "slow_pair",
             "slow_nic")
NEAR, SMALL, ALIKE = 0.05, 0.01, 0.8


class NewVerdict(NamedTuple):
    job: str
    family: str
    fault: str
    record: str
    result: str  # one of COLUMNS
    share: Optional[bool]
    why: str


def names_whom(part: dict, said: dict, per_host: int) -> bool:
    def hosts_of(some) -> set:
        return {"node-%d" % (rank // per_host) for rank in some}

    ranks, must, among = set(said.get("ranks") or []), set(part["ranks"]), set(part["among"])
    if not among or (part["stage"] is not None and said.get("stage") == part["stage"]):
        return True
    hosts = set(said.get("hosts") or []) or hosts_of(ranks)
    if said.get("class") in ("slow_link", "slow_host") and hosts == hosts_of(among):
        return True
    if not must:
        return ranks == among or (bool(ranks & set(part["any_of"])) and ranks <= among)
    return must <= ranks <= among


def is_right(part: dict, said: dict, per_host: int) -> bool:
    return (said.get("class") is None or said["class"] in part["classes"]) and names_whom(part, said, per_host)


def findings_of(verdict: dict, causes: List[dict]) -> List[dict]:
    """What the verdict says of slow steps, as causes: a finding has no class, but begins with what its cause is."""
    found = []
    for finding in verdict["findings"]:
        if finding["kind"] in KINDS:
            same = [cause for cause in causes if finding["summary"].startswith(cause["what"])]
            same = same or [cause for cause in causes if set(cause["ranks"]) == set(finding["ranks"])]
            found.append({**(same[0] if same else {}), "ranks": finding["ranks"], "summary": finding["summary"]})
    return found


def decide(truth: dict, verdict: dict, causes: List[dict]) -> tuple:
    """The result, and the part of the truth that was named."""
    said = findings_of(verdict, causes)
    per_host = truth["job"].get("per_host", PER_HOST)
    if truth["fault"] == "none":
        return ("finding" if verdict["findings"] else "cause" if causes else "healthy"), None
    second = truth["second"]
    parts = [truth] + ([second] if second and second["share"] >= ALIKE * truth["share"] else [])
    for what, result in ((said, "right"), (causes if not said else [], "table")):
        for part in parts:
            if what and is_right(part, what[0], per_host):
                return result, part
    if said or causes:
        return "wrong", None
    if truth["share"] < SMALL:
        return "small", None
    return ("unseen" if truth["job"]["device"] == "off" and truth["fault"] in ON_DEVICE else "missed"), None


def judge(truth: dict, verdict: dict, table: dict) -> NewVerdict:
    causes = table["causes"]
    result, part = decide(truth, verdict, causes)
    share, job = None, truth["job"]
    if part is not None and causes:
        told = [cause for cause in causes if is_right(part, cause, job.get("per_host", PER_HOST))] or causes
        share = any(abs(told[0]["cost_fraction"] - part[key]) <= NEAR for key in ("share", "share_since"))
    said = "; ".join("%s %s %.1f %%" % (cause["class"], cause["ranks"] or cause["hosts"], 100 * cause["cost_fraction"])
                     for cause in causes[:2]) or "no cause"
    kinds = ", ".join("%s %s" % (finding["kind"], finding["ranks"]) for finding in verdict["findings"][:2])
    also = " and %s %.1f %%" % (truth["second"]["fault"], 100 * truth["second"]["share"]) if truth["second"] else ""
    true = "%s %s of %s, %.1f %%%s" % (truth["fault"], truth["flavour"], truth["ranks"] or truth["among"] or "all",
                                      100 * truth["share"], also) if truth["fault"] != "none" else "healthy"
    record = "%s/%d, marks %s, wait each %d" % (job["device"], job["sample"], job["style"]["marks"],
                                                job["style"]["sync_every"])
    return NewVerdict("%s-%d" % (job["name"], job["seed"]), truth["family"],
                      "two" if truth["faults"] > 1 else truth["fault"], record, result, share,
                      "%s [%s]: %s. Verdict: %s. Table: %s" % (
                          "%d ranks, step %.0f ms" % (job["world"], truth["step_ms"]), record, true,
                          kinds or verdict["status"], said))


def judge_job(ask: Callable, analyzer: str, directory: str, truth: dict) -> NewVerdict:
    try:
        return judge(truth, ask(analyzer, directory, (), "findings"), ask(analyzer, directory))
    except (ValueError, KeyError, TypeError, OSError) as error:
        return NewVerdict(os.path.basename(directory), truth["family"], truth["fault"], "", "wrong", None,
                          "broken: %r" % error)


def row(name: str, verdicts: List[NewVerdict]) -> str:
    counts = [sum(verdict.result == column for verdict in verdicts) for column in COLUMNS]
    asked = [verdict.share for verdict in verdicts if verdict.share is not None]
    return "%-22s %4d%s%8s" % (name, len(verdicts), "".join("%8s" % (count or "-") for count in counts),
                               "%d/%d" % (sum(asked), len(asked)) if asked else "-")


def table(verdicts: List[NewVerdict]) -> str:
    lines = ["%-22s %4s%s%8s" % ("", "jobs", "".join("%8s" % column for column in COLUMNS), "share")]
    for name in sorted({verdict.fault for verdict in verdicts}):
        lines.append(row(name, [verdict for verdict in verdicts if verdict.fault == name]))
    for name in sorted({verdict.family for verdict in verdicts}):
        lines.append(row("of " + name, [verdict for verdict in verdicts if verdict.family == name]))
    return "\n".join(lines + [row("all", verdicts)])
