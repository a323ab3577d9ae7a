"""Puts titan-analyze's answer beside the truth."""

import json
import subprocess
from typing import Optional

from truth import Cause, Truth

# Kinds that are said as findings although nobody is accused of anything.
REMARKS = {"missing_dump", "lost_entries"}


class Answer:
    """What titan-analyze said, or why it said nothing."""

    def __init__(self, status: int, text: str, errors: str):
        self.status = status
        self.errors = errors
        self.report: Optional[dict] = None
        self.broken = ""
        if status not in (0, 1, 2, 3):
            self.broken = "exit status %d" % status
            return
        try:
            self.report = json.loads(text)
        except ValueError as error:
            self.broken = "no JSON (status %d): %s %s" % (status, error, errors.strip()[:200])

    @property
    def findings(self) -> list:
        return [f for f in (self.report or {}).get("findings", []) if f["kind"] not in REMARKS]

    @property
    def said(self) -> str:
        return self.findings[0]["confidence"] if self.findings else "nothing"


def ask(analyzer: str, directory: str, options=()) -> Answer:
    try:
        done = subprocess.run([analyzer, "--no-rings", "--json", *options, directory], capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return Answer(-1, "", "timeout")
    return Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


class Judgement:
    """`result`: right, partly or wrong; `certain_wrong`: an answer called certain that is not right."""

    def __init__(self, result: str, why: str, answer: Answer):
        self.result = result
        self.why = why
        self.said = answer.said
        self.certain_wrong = result != "right" and self.said == "certain"
        self.also_certain_wrong = False


def tells(finding: dict, cause: Cause) -> bool:
    return finding["kind"] in cause.kinds and set(finding["ranks"]) == cause.ranks


def judge(truth: Truth, answer: Answer) -> Judgement:
    if answer.broken:
        return Judgement("wrong", answer.broken, answer)
    findings = answer.findings
    judgement = Judgement(*_judge(truth, findings, answer), answer)
    guilty = set().union(*(cause.ranks for cause in truth.causes + truth.weaker + truth.facts + truth.beside))
    guilty |= truth.among
    judgement.also_certain_wrong = any(
        finding["confidence"] == "certain" and not set(finding["ranks"]) <= guilty for finding in findings[1:])
    return judgement


def waiting_words(truth: Truth, waits: list) -> str:
    """What is wrong with what is said under WAITING; empty if nothing is."""
    if waits and truth.over:
        return "waits, though the job is over"
    for wait in waits:
        if wait.get("hang_after_ns") and wait.get("waited_ns", 0) > wait["hang_after_ns"]:
            return "nothing is overdue, and yet waits longer than its limit: " + wait["summary"]
    missing = set().union(*(wait.get("missing") or [] for wait in waits))
    guilty = set().union(*(cause.ranks for cause in truth.causes)) if truth.causes else set()
    if missing and guilty and not guilty & missing and not truth.silent_is_right:
        return "waits for %s" % sorted(missing)
    return ""


def _judge(truth: Truth, findings: list, answer: Answer):
    if not findings:
        if answer.status == 3:
            why = "" if truth.cannot_tell_is_right else "cannot tell: " + answer.report["cannot_tell"]
            return "wrong" if why else "right", why
        waits = answer.report.get("waiting")
        why = waiting_words(truth, waits or [])
        if why:
            return "wrong", why
        if not truth.causes or truth.silent_is_right or (waits and truth.waiting_is_right):
            return "right", ""
        return "wrong", "waits" if waits else "nothing wrong, status %d" % answer.status
    head = findings[0]
    if truth.nobody_skipped and head["confidence"] == "certain" and " skipped " in head["summary"]:
        return "partly", "nobody skipped a call: " + head["summary"]
    if truth.possible_is_right and all(finding["confidence"] == "possible" for finding in findings):
        return "right", ""
    if (truth.rings_are_small and head["confidence"] == "possible" and "rings are too small" in head["summary"]
            and all(cause.ranks <= set(head["ranks"]) for cause in truth.causes)):
        return "right", ""
    said = "%s (%s) of %s" % (head["kind"], head["confidence"], head["ranks"])
    ranks = set(head["ranks"])
    guilty = set().union(*(cause.ranks for cause in truth.causes)) if truth.causes else set()
    if any(tells(head, cause) for cause in truth.facts):
        return "right", ""
    for cause in truth.causes:
        if tells(head, cause):
            named = set().union(*(f["ranks"] for f in findings))
            if guilty <= named or truth.one_is_enough:
                return "right", ""
            return "partly", "%s is not named" % sorted(guilty - named)
    if truth.any_member and ranks and any(head["kind"] in cause.kinds and ranks <= cause.ranks
                                          for cause in truth.causes):
        return "right", ""
    together = [cause for cause in truth.causes if head["kind"] in cause.kinds and cause.ranks <= ranks]
    if together and set().union(*(cause.ranks for cause in together)) == ranks:
        return "right", ""
    if head["confidence"] != "certain":
        if any(tells(head, cause) for cause in truth.weaker):
            return "right", ""
        kinds = set().union(*(cause.kinds for cause in truth.causes)) if truth.causes else set()
        if truth.among and head["kind"] in kinds and guilty <= ranks <= truth.among:
            return "right", ""
    if truth.causes and guilty:
        if any(tells(f, cause) for f in findings for cause in truth.causes):
            return "partly", "head: " + said
        if guilty <= ranks or (truth.one_is_enough and any(cause.ranks <= ranks for cause in truth.causes)):
            return "partly", said
    return "wrong", said
