"""What titan-analyze says of one slow job by all its commands, and what of it cannot be true together."""
import json
import os
import re
import subprocess
from typing import Iterator, List, NamedTuple, Optional

SLOW = ("slow_step", "straggler")
COSTLY = 0.05  # --slow-percent
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}
DURATION = r"(-?[\d.,]+) (us|ms|s|min|h)\b(?: (\d\d) (s|min)\b)?"
STEP = re.compile(r"the step takes " + DURATION)
WITHOUT = re.compile(r"the step takes " + DURATION + r"; " + DURATION)
EACH = re.compile(r"steps -?\d+ to -?\d+, " + DURATION + r" each")
SHARE = re.compile(r"\((\d+)% of the step\)")

NONSENSE = (
    (re.compile(r"(?<![\w/.-])-?(?:inf|nan|infinity)\b", re.I), "is no number"),
    (re.compile(r"(?<![\w.,/-])-\d[\d.,]* (?:us|ms|s|min|h)\b(?! to)"), "a negative duration"),
    (re.compile(r"instead of 0 us"), "usually no time at all"),
    (re.compile(r"(?<!no )(?<!other )(?<!all )\branks? (?:$|[,;:.)]|is\b|are\b)"), "ranks without their numbers"),
    (re.compile(r"\b(?:between|within) (?:hosts?|ranks?) *(?:take|$|[,;:.)])"), "between nobody"),
    (re.compile(r"\bno rank(?:s)? (?:is|are) (?:slow|throttled)"), "a cause of no rank"),
    (re.compile(r"\b(?:between|among) rank \d+ "), "between one rank"),
    (re.compile(r"(?<![\w.])\(\s*\)"), "empty parentheses"),
    (re.compile(r"\s[,;](?:\s|$)|, ,|; ;|: :|,,"), "a list with a hole"),
    (re.compile(r"\{\}"), "words that were not filled in"),
)
SPACES = re.compile(r"\S  +\S")
LAID_OUT = re.compile(r"^(?:VERDICT|ALSO)  |  # ")
OF_STEPS = re.compile(r"\bin (\d+) of (\d+) steps")
PERCENT = re.compile(r"([\d.]+) ?% of (?:the|a|each) step|of each step in the mean \(([\d.]+)%\)")


class Said(NamedTuple):
    """A command, and what it answered."""
    name: str
    status: int
    text: str
    errors: str


def ms_of(match: tuple) -> float:
    """Of the four groups of DURATION."""
    return float(match[0].replace(",", "")) * UNITS[match[1]] + (float(match[2]) * UNITS[match[3]] if match[2] else 0)


def as_written(match: tuple, wanted_ms: float) -> bool:
    """Whether a duration is this one, as far as it is written."""
    digit = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 2e3, "h": 1.2e5}[match[1]] / (10 if "." in match[0] else 1)
    return abs(ms_of(match) - wanted_ms) <= 0.51 * digit


def near(a: float, b: float) -> bool:
    """Of steps that are seen elsewhere: from marker to marker, the newest one too."""
    return abs(a - b) <= 0.1 * max(a, b)


def equal(a: float, b: float) -> bool:
    """Numbers of JSON, some of which are whole nanoseconds."""
    return abs(a - b) <= 1e-6 + 1e-6 * abs(a)


def strings(value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def joined(text: str) -> str:
    """Paragraphs that were broken into lines, in one."""
    return re.sub(r"\s*\n\s+(?=[a-z0-9(])", " ", text)


def ranks_in(text: str) -> List[int]:
    """Of "0-2,5"."""
    found: List[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Answers:
    def __init__(self, analyzer: str, place: str, other: Optional[str] = None):
        self.analyzer, self.place = analyzer, place
        self.complaints: List[str] = []
        self.verdict = self.run("verdict", "--all")
        self.json_said = self.run("--json", "--json")
        self.one_line = self.run("--oneline", "--oneline")
        self.table = self.run("stragglers", "stragglers", "--all")
        self.table_said = self.run("stragglers --json", "stragglers", "--json")
        self.summary = self.run("summary", "summary")
        self.summary_said = self.run("summary --json", "summary", "--json")
        self.page_said = self.run("report --json", "report", "--json")
        self.said = [self.verdict, self.json_said, self.one_line, self.table, self.table_said, self.summary,
                     self.summary_said, self.page_said]
        self.answer = self.parsed(self.json_said)
        self.slow = self.parsed(self.table_said)
        self.page = self.parsed(self.page_said)
        self.rows = [json.loads(line) for line in self.summary_said.text.splitlines()]
        self.about = self.first_rank()
        self.why = self.why_json = self.compare = None
        if self.about is not None:
            self.why = self.run("why", "why", str(self.about))
            self.why_json = self.run("why --json", "why", str(self.about), "--json")
            self.said += [self.why, self.why_json]
        if other is not None:
            self.compare = self.run("compare --json", "compare", "--json", other)
            self.compare_text = self.run("compare", "compare", other)
            self.said += [self.compare, self.compare_text]

    def run(self, name: str, *arguments: str) -> Said:
        paths = [*arguments, "--no-rings", self.place] if arguments[0] != "compare" else [*arguments, self.place]
        done = subprocess.run([self.analyzer, *paths], capture_output=True, timeout=600, check=False)
        return Said(name, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def parsed(self, said: Said) -> dict:
        try:
            return json.loads(said.text)
        except ValueError:
            self.complain(said.name, "no JSON: " + (said.errors or said.text)[:200])
            return {}

    def first_rank(self) -> Optional[int]:
        findings = self.answer.get("findings") or []
        ranks = findings[0]["ranks"] if findings else []
        rows = self.page.get("ranks", {}).get("rows") or [[None]]
        return ranks[0] if ranks else rows[0][0]

    def complain(self, where: str, what: str):
        self.complaints.append("%s: %s: %s" % (os.path.basename(self.place), where, what))

    def check(self) -> List[str]:
        for said in self.said:
            if said.status not in (0, 1, 3):
                self.complain(said.name, "status %d: %s" % (said.status, said.errors.strip()[:200]))
        if not self.complaints:
            self.statuses()
            self.step_is_one()
            self.findings_are_causes()
            self.causes_are_told()
            self.page_agrees()
            self.nothing_denies()
            self.no_nonsense()
        return self.complaints

    def statuses(self):
        """1 exactly where there is a finding, or something in the table."""
        found = bool(self.answer["findings"])
        for said in (self.verdict, self.json_said, self.one_line):
            if (said.status == 1) != found:
                self.complain(said.name, "status %d with %d findings" % (said.status, len(self.answer["findings"])))
        listed = bool(self.slow["causes"] or any(rank["pattern"] != "none" for rank in self.slow["ranks"]))
        for said in (self.table, self.table_said):
            if (said.status == 1) != listed:
                self.complain(said.name, "status %d with%s causes" % (said.status, "" if listed else "out"))
        slow = any(finding["kind"] in (*SLOW, "slow_collective") for finding in self.answer["findings"])
        if slow and not listed:
            self.complain("stragglers", "nothing, and the verdict has a slow finding")

    def step_is_one(self):
        step = (self.slow["step"] or {}).get("ms")
        # What began in the middle is told by the steps since then.
        lengths = [one for one in [step, *(cause["step_ms"] for cause in self.slow["causes"])] if one is not None]
        for said in self.said:
            if said.name.startswith("compare"):
                continue
            text = joined(said.text)
            for pattern in (STEP, EACH):
                for match in pattern.findall(text):
                    if not any(as_written(match, length) for length in lengths):
                        self.complain(said.name, "a step of %g ms, stragglers --json has %s" % (ms_of(match), lengths))
        if step is None:
            return
        for name, found in (("steps of stragglers --json", (self.slow["steps"] or {}).get("length_ns")),
                            ("lateness of the page", self.page["lateness"].get("length_ns")
                             if self.page["lateness"].get("steps") else None)):
            if found is not None and not equal(found * 1e-6, step):
                self.complain(name, "a step of %.3f ms, stragglers has %.3f" % (found * 1e-6, step))
        for row in self.rows:
            if row["kind"] == "job" and not near(row["step_ns"] * 1e-6, step):
                self.complain("summary", "a step of %.3f ms, stragglers has %.3f" % (row["step_ns"] * 1e-6, step))
        if self.compare and self.compare.status in (0, 1):
            compared = json.loads(self.compare.text)
            if any("has no steps" in note for note in compared["notes"]) and min(
                    compared["a"]["steps"], compared["b"]["steps"]) > 0:
                self.complain("compare", "no steps, but it counts some: %s" % compared["notes"])
            told = re.search(r"a step of B takes ([\d.]+)(%| times)", self.compare_text.text)
            changes = [row["change"] for row in compared["steps"] if row["change"] is not None]
            if told and not any(abs(float(told.group(1)) - one) <= 0.006 * one + 0.06 for change in changes
                                for one in [1 + change if told.group(2) == " times" else 100 * abs(change)]):
                self.complain("compare", "'%s', its rows have %s" % (told.group(0), changes))
            for row in compared["steps"]:
                if row["compared"] == "mean_step" and not near(row["b_ns"] * 1e-6, step):
                    self.complain("compare", "a mean step of %.3f ms, stragglers has %.3f" % (
                        row["b_ns"] * 1e-6, step))

    def findings_are_causes(self):
        """A finding's numbers are those of a cause with these ranks."""
        for finding in self.answer["findings"]:
            text = finding["summary"]
            if finding["kind"] not in SLOW:
                continue
            for said in (self.verdict, self.page_said):
                inside = " ".join(strings(json.loads(said.text)["document"])) if said is self.page_said else said.text
                if re.sub(r"\s+", " ", text) not in re.sub(r"\s+", " ", inside):
                    self.complain(said.name, "does not say: " + text)
            if self.slow["step"] is None:
                continue
            told = WITHOUT.search(text)
            if not told:
                late = [rank for rank in self.slow["ranks"] if rank["rank"] in finding["ranks"]]
                if not re.search(r"in the mean \(|% of the time seen\)", text) or not late:
                    self.complain(finding["kind"], "no cost: " + text)
                continue
            causes = [cause for cause in self.slow["causes"] if set(finding["ranks"]) <= set(cause["ranks"])]
            same = [cause for cause in causes if as_written(told.groups()[:4], cause["step_ms"])
                    and as_written(told.groups()[4:], cause["step_ms_without"])
                    and abs(int(SHARE.search(text).group(1)) - 100 * cause["cost_fraction"]) <= 0.51]
            if not same:
                self.complain(finding["kind"], "no cause of stragglers has these ranks and numbers: " + text)
            elif finding["kind"] == "slow_step" and not any(
                    text.startswith(cause["what"]) and cause["ranks"] == finding["ranks"] for cause in same):
                self.complain(finding["kind"], "its cause has other words or ranks: " + text)
            elif finding["kind"] == "straggler" and not any(cause["what"] in finding["evidence"] for cause in same):
                self.complain(finding["kind"], "does not say of its rank: " + same[0]["what"])
            elif finding["remedy"] not in [cause["next"] for cause in same]:
                self.complain(finding["kind"], "another next step than its cause: " + finding["remedy"])
        if self.answer["findings"]:
            first = self.answer["findings"][0]
            said = re.sub(r"\s+", " ", first["summary"])[:390]
            for one in (self.one_line, *([self.why] if self.about in first["ranks"] else [])):
                if said not in one.text:
                    self.complain(one.name, "does not say: " + said)
            if self.about in first["ranks"] and self.why.status != 1:
                self.complain("why", "status %d of a rank with a finding" % self.why.status)

    def causes_are_told(self):
        """What costs more than 5 % is a finding, unless overcommitted processors explain it; each cause is in text."""
        text = re.sub(r"\s+", " ", self.table.text)
        for cause in self.slow["causes"]:
            for wanted in (cause["what"], *cause["evidence"], cause["next"]):
                if re.sub(r"\s+", " ", wanted) not in text:
                    self.complain("stragglers", "does not say: " + wanted)
            if not equal(cause["cost_ms_per_step"], cause["step_ms"] - cause["step_ms_without"]) or not equal(
                    cause["cost_fraction"], cause["cost_ms_per_step"] / cause["step_ms"]):
                self.complain("stragglers", "numbers that do not add up: %s" % cause)
            if not 0 <= cause["cost_fraction"] <= 1 or cause["step_ms_without"] < 0:
                self.complain("stragglers", "a share of %.2f: %s" % (cause["cost_fraction"], cause["what"]))
            # Where somebody waits right now, that is the answer.
            told = self.answer["waiting"] or [
                finding for finding in self.answer["findings"]
                if finding["hangs"] or finding["summary"].startswith(cause["what"])
                or (finding["kind"] != "slow_step" and set(finding["ranks"]) & set(cause["ranks"]))]
            if cause["cost_fraction"] > COSTLY and not told and "processors" not in self.verdict.text:
                self.complain("verdict", "no finding of: %s, %.1f %%" % (cause["what"], 100 * cause["cost_fraction"]))
        if self.slow["causes"] and not self.answer["findings"] and not self.answer["waiting"]:
            first = self.slow["causes"][0]
            if "%.1f%% of a step: %s" % (100 * first["cost_fraction"], first["what"]) not in re.sub(
                    r"\s+", " ", self.verdict.text):
                self.complain("verdict", "does not have the line of: " + first["what"])

    def page_agrees(self):
        def brief(findings):
            return [(one["kind"], one["confidence"], one["ranks"] if isinstance(one["ranks"], list)
                     else ranks_in(one["ranks"]), one["remedy"]) for one in findings]
        if not any(" and " in one["ranks"] or "..." in one["ranks"] for one in self.page["findings"]):
            if brief(self.page["findings"]) != brief(self.answer["findings"]):
                self.complain("page", "other findings: %s, --json has %s" % (
                    brief(self.page["findings"]), brief(self.answer["findings"])))
        costs = {rank["rank"]: rank for rank in self.slow["ranks"]}
        for row in self.page["lateness"].get("rows", []):
            rank = costs.get(row["rank"])
            if rank is None:
                self.complain("page", "rank %d is late, stragglers does not have it" % row["rank"])
            elif not equal(row["cost_ns"] * 1e-6, rank["cost_ms_per_step"]) or not equal(
                    row["share"], rank["cost_fraction"]):
                self.complain("page", "rank %d costs %.3f ms (%.4f), stragglers has %.3f (%.4f)" % (
                    row["rank"], row["cost_ns"] * 1e-6, row["share"], rank["cost_ms_per_step"],
                    rank["cost_fraction"]))

    def nothing_denies(self):
        """What one sentence says, another does not deny."""
        table, verdict = joined(self.table.text), joined(self.verdict.text)
        causes = self.slow["causes"]
        if causes and ("no rank is late" in table or "nothing that the records show costs" in table):
            self.complain("stragglers", "denies its causes")
        if self.answer["findings"] and re.search("NOTHING WRONG|nothing wrong", verdict + self.one_line.text):
            self.complain("verdict", "nothing wrong, and findings")
        for said in (table, verdict):
            if "makes the calls in time" in said and re.search(r"rank \d+'s program makes|its program makes the calls "
                                                               "late", said):
                self.complain("evidence", "its calls are in time, and they are late")
        for missing in self.slow["missing"]:
            if re.sub(r"\s+", " ", missing) not in re.sub(r"\s+", " ", table):
                self.complain("stragglers", "does not say: " + missing)

    def no_nonsense(self):
        for said in self.said:
            for text in self.texts_of(said):
                for pattern, what in NONSENSE:
                    if found := pattern.search(text):
                        self.complain(said.name, "%s, '%s': %s" % (what, found.group(0), text[:300]))
                for part, whole in OF_STEPS.findall(text):
                    if int(part) > int(whole):
                        self.complain(said.name, "more steps than there are: " + text[:300])
                for numbers in PERCENT.findall(text):
                    if float(numbers[0] or numbers[1]) > 100:
                        self.complain(said.name, "more than a whole step: " + text[:300])
                if said.name.endswith("json") and SPACES.search(text) and not LAID_OUT.search(text):
                    self.complain(said.name, "two spaces in a sentence: " + text[:300])

    @staticmethod
    def texts_of(said: Said) -> List[str]:
        """Sentences: all of JSON's texts, and lines that have no columns."""
        if said.name.endswith("json"):
            lines = said.text.splitlines() if said.name.startswith("summary") else [said.text]
            return [text.strip() for line in lines for text in strings(json.loads(line))]
        return [line.strip() for line in joined(said.text).splitlines() if not re.search(r"\S   +\S|^  what ", line)]
