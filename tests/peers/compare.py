"""Puts every tool to the same cases, several processes at a time; returns a row for each case."""

import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile

import cases
import judge
from verdict import verdict

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = "titan"
asked = {}
known = {}  # digest of files -> what the other tools have said of them before


class Tool:
    """A worker process of one tool."""

    def __init__(self, adapter: str, python: str, options: list):
        self.adapter = adapter
        self.process = subprocess.Popen([python, os.path.join(HERE, "worker.py"), adapter, *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{adapter} does not start: {self.process.communicate()[1].strip()[-600:]}")
        self.version = json.loads(line)["version"]

    def ask(self, directory: str, limit_s: float) -> dict:
        self.process.stdin.write(json.dumps({"directory": directory, "limit_s": limit_s}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.communicate()


def start(tools: dict, before: dict):
    """In each process of the pool: workers of its own."""
    known.update(before)
    for adapter, (python, options) in tools.items():
        asked[adapter] = Tool(adapter, python, options)


def one(work) -> dict:
    number, peers_too, limit_s = work
    scratch = tempfile.mkdtemp(prefix=f"peers.{number}.")
    try:
        files = os.path.join(scratch, "files")
        case = cases.make(number, files)
        row = {"number": number, "class": case.label, "ranks": case.job.world, "outcome": case.truth.outcome,
               "files": "", "tools": {}}
        peers_too = peers_too and len(asked) > 1 and cases.for_all(case)
        if peers_too:
            row["files"] = cases.digest(files)
        pickles = cases.as_pickles(files, os.path.join(scratch, "pickles")) if peers_too else ""
        for adapter, tool in asked.items():
            if adapter != OURS and not peers_too:
                continue
            said = known.get(row["files"], {}).get(adapter) or tool.ask(files if adapter == OURS else pickles, limit_s)
            result = {"result": verdict(case.truth, said)}
            if adapter == OURS:
                result.update(by_kind(case.truth, said))
            row["tools"][adapter] = {**said, **result}
        return row
    finally:
        shutil.rmtree(scratch)


def recorded(tools: dict, source: str, limit_s: float) -> list:
    """The same of files of real runs, a row for each; none where `source` has none."""
    runs = cases.recorded(source)
    workers = {adapter: Tool(adapter, *how) for adapter, how in tools.items()} if runs else {}
    rows = []
    for name, (directory, truth) in runs.items():
        said = {adapter: tool.ask(directory, limit_s) for adapter, tool in workers.items()}
        rows.append({"class": name, "guilty": sorted(truth.causes[0].ranks), "tools": {
            adapter: {**answer, "result": verdict(truth, answer)} for adapter, answer in said.items()}})
    for tool in workers.values():
        tool.end()
    return rows


def by_kind(truth, said: dict) -> dict:
    """The stricter judge of tests/scenarios: the kind must be right as well, and what is called certain must be."""
    judged = judge.judge(truth, judge.Answer(said.pop("status"), said.pop("text"), said.pop("errors")))
    return {"kind": judged.result, "said": judged.said, "certain_wrong": judged.certain_wrong, "why": judged.why}


def others(rows: list) -> dict:
    """What rows of an earlier comparison tell of the other tools, by files."""
    return {row["files"]: {adapter: said for adapter, said in row["tools"].items() if adapter != OURS}
            for row in rows if row["files"]}


def all_cases(tools: dict, numbers, peer_numbers, limit_s: float, jobs: int, before=None, progress=None) -> list:
    """`tools`: adapter -> (python, options). Asks ours about all `numbers`, the others about `peer_numbers`."""
    work = [(number, number in peer_numbers, limit_s) for number in numbers]
    rows = []
    with multiprocessing.Pool(jobs, start, (tools, before or {})) as pool:
        for row in pool.imap_unordered(one, work):
            rows.append(row)
            if progress:
                progress(len(rows), len(work))
    return sorted(rows, key=lambda row: row["number"])
