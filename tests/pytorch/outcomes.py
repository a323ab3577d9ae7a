"""Runs a case of cases.py, asks titan-analyze while it hangs and after it has ended, and judges what is said."""
import collections
import json
import re
import shutil
import signal
import time

import harness
import job
from cases import ENDED, FILES, HANGING

RIGHT, NO_FILE, PARTLY, CANNOT_TELL, WRONG, SURELY_WRONG = MARKS = (  # the worst last
    "right", "no file", "partly right", "cannot tell", "wrong", "certain and wrong")
START_S, SETTLED_S, ASK_AFTER_S, END_S = 100, 1, 4.5, 40
Said = collections.namedtuple("Said", "ranks confidence summary finding")
Outcome = collections.namedtuple("Outcome", "mark summary")


def said_by(analysis):
    verdict = (analysis.json or {}).get("verdict")
    if not verdict:
        return None
    return Said(verdict["ranks"], verdict["confidence"], verdict["summary"],
                json.dumps(analysis.json["findings"][0], ensure_ascii=False))


def is_shown(case, said):
    return not case.where or bool(re.search(rf"\b{case.where} at {case.program}\.py", said.finding))


def mark_of(case, said):
    if said is None:
        return RIGHT if case.guilty == () else CANNOT_TELL
    certain, guilty = said.confidence == "certain", case.guilty
    wrong = SURELY_WRONG if certain else WRONG
    if (guilty is None or said.ranks in (list(guilty), *case.also)) and re.search(case.says, said.summary):
        return wrong if certain and not case.certain else RIGHT if is_shown(case, said) else PARTLY
    if guilty and set(guilty) <= set(said.ranks) and not re.search(case.untrue, said.summary):
        return PARTLY
    return wrong if said.ranks or guilty == () else CANNOT_TELL


def outcome_of(case, analysis):
    said = said_by(analysis)
    return Outcome(mark_of(case, said), f"{said.confidence}: {said.summary}" if said else "nothing")


class Run:
    """One case in a place of its own; `keep`: a directory for its evidence, or None."""

    def __init__(self, place, case, keep=None):
        self.place, self.case, self.keep, self.outcomes = place, case, keep, {}
        self.files = place.path / "flight-recorder"
        self.files.mkdir()
        settings = {"TITANTRACE_TIMEOUT_S": case.ours_s * harness.SLOW,
                    "DIST_TIMEOUT_S": case.pytorch_s * harness.SLOW,
                    "TORCH_FR_BUFFER_SIZE": 2000, "TORCH_FR_DUMP_ON_TIMEOUT": 1,
                    "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC": 3000,
                    "TORCH_FR_DUMP_TEMP_FILE": self.files / "nccl_trace_rank_", **case.settings}
        self.job = job.start(place, case.program, "--fault", case.fault, "--rank", *case.makes, *case.arguments,
                             ranks=case.size, torchrun=case.torchrun, **settings)

    def run(self):
        self.job.wait_says("makes a mistake", START_S)
        began = time.monotonic()
        if HANGING in self.case.watch:
            self.see(HANGING, self.while_it_hangs(began))
        self.wait_for_its_end(began)
        if ENDED in self.case.watch:
            some = self.place.dumps if self.place.dump_files() else self.place.rings
            self.see(ENDED, self.place.analyze(some))
        if FILES in self.case.watch:
            if any(self.files.iterdir()):
                self.see(FILES, self.place.analyze(self.files, "--no-rings"))
            else:
                self.outcomes[FILES] = Outcome(NO_FILE, "")
        return self.outcomes

    def see(self, view, analysis):
        if analysis is None:
            return
        self.outcomes[view] = outcome_of(self.case, analysis)
        if self.keep:
            place = self.keep / view.replace(" ", "-").replace("'", "")
            evidence = {"dumps": self.place.dumps, "flight-recorder": self.files}
            if view == ENDED:  # rings are large, and those of ranks that run change
                evidence["rings"] = self.place.rings
            for name, directory in evidence.items():
                shutil.copytree(directory, place / name, dirs_exist_ok=True)
            (place / "verdict.json").write_text(analysis.stdout)
            (place / "output").write_text(self.job.stdout + self.job.stderr)

    def while_it_hangs(self, began):
        """Of the watchdogs' dumps, as soon as they lead to a verdict; else of some that are asked for in time. None for
        a job that ended before."""
        limits = [self.case.ours_s + ASK_AFTER_S, *([self.case.end_s - 2] if self.case.end_s else [])]
        ask_at, analyzed = began + harness.SLOW * min(limits), []
        while self.job.status is None and time.monotonic() < ask_at:
            files = self.place.dump_files()
            time.sleep(SETTLED_S)
            if files not in ([], analyzed) and files == self.place.dump_files():
                analysis, analyzed = self.place.analyze(self.place.dumps), files
                if said_by(analysis):
                    return analysis
        if self.job.status is not None:
            return None
        self.place.run([harness.BUILD / "tools" / "titan-dump", "--job", "e2e", "--ring-dir", self.place.rings],
                       self.place.env(preload=False), 60)
        return self.place.analyze(self.place.dumps)

    def wait_for_its_end(self, began):
        """PyTorch ends it, or the user does."""
        end = began + harness.SLOW * (self.case.end_s or min(self.case.pytorch_s, END_S) + END_S)
        while self.job.status is None and time.monotonic() < end:
            time.sleep(0.1)
        if self.job.status is None:
            self.job.signal(signal.SIGTERM)
            self.job.wait(40)
