#!/usr/bin/env python3
"""Checks generated jobs by what `titan-analyze show` lists of their files: it is possible in a job, agrees with
truth.json, and is read without a warning. And the judge, by answers that are true and false.

  selfcheck.py --analyzer build/analyzer/titan-analyze                        a few small jobs, made for it
  selfcheck.py --analyzer build/analyzer/titan-analyze --directory /tmp/jobs  those of generate.py
"""
import argparse
import collections
import filecmp
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import families  # noqa: E402
import faults  # noqa: E402
import generate  # noqa: E402
import judge  # noqa: E402
import judge_new  # noqa: E402
from layout import Layout  # noqa: E402
from training import step_means  # noqa: E402

LATE_NS = 2.2e6  # how late the device's progress is seen
EXACT = 1e-3
NEVER = 1 << 63
SAMPLES = (("slow_rank_gpu", 1), ("harmless", 16))
NEW_SEED = 5


def check(holds: bool, what: str):
    if not holds:
        raise SystemExit("selfcheck: " + what)


class Files:
    def __init__(self, analyzer: str, place: str):
        self.analyzer, self.place, self.name = analyzer, place, os.path.basename(place)
        with open(os.path.join(place, "truth.json")) as file:
            self.truth = json.load(file)
        self.job = self.truth["job"]

    def run(self, *arguments: str) -> str:
        done = subprocess.run([self.analyzer, *arguments, "--no-rings", self.place], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 0 and not done.stderr, "%s: %s: status %d: %s" % (
            self.name, " ".join(arguments), done.returncode, done.stderr))
        return done.stdout

    def records(self, *what: str) -> list:
        return [json.loads(line) for line in self.run("show", "--json", *what).splitlines()]

    def whole(self):
        """The reader has nothing to object to, and sees every rank."""
        ranks = {call["rank"] for call in self.records()}
        check(ranks == set(range(self.job["world"])), self.name + ": ranks are missing")
        check(bool(self.run("summary")), self.name + ": no summary")

    def steps_take(self, wanted_ms: float):
        """The mean time from one marker of a step to the next."""
        if self.job["style"]["marks"] == "none":
            return
        marks = collections.defaultdict(list)
        for mark in self.records("--markers"):
            if mark["marker"] == "step":
                marks[mark["rank"]].append(mark["ticks"])
        check(len(marks) == self.job["world"] or self.truth.get("family") == "rl", self.name + ": ranks without steps")
        means = [(ticks[-1] - ticks[0]) / (len(ticks) - 1) / 1e6 for ticks in marks.values()]
        found = sum(means) / len(means)
        check(abs(found - wanted_ms) < EXACT * found, "%s: steps take %.3f ms, truth says %.3f" % (
            self.name, found, wanted_ms))

    def calls_are_possible(self):
        """Calls of a host follow each other; a collective ends behind its last member's start, a receive behind its
        send's. Only ranks of one host share a clock."""
        calls = [call for call in self.records() if call["op"] != "comm_init"]
        newest, meetings = {}, collections.defaultdict(list)
        members = {}
        for call in calls:
            check((call["returned_ticks"] or NEVER) >= call["entered_ticks"] >= newest.get(call["rank"], 0),
                  self.name + ": calls that overlap")
            newest[call["rank"]] = call["entered_ticks"]
            members.setdefault(call["communicator"], {})[call["comm_rank"]] = call["rank"]
        for call in calls:
            if call["gpu_finished_ticks"] is None:
                continue
            check(call["gpu_started_ticks"] <= call["gpu_finished_ticks"], self.name + ": ends before it starts")
            if call["op"] in ("send", "recv"):
                pair = (call["rank"], members[call["communicator"]][call["peer"]])
                key = pair if call["op"] == "send" else pair[::-1]
            else:
                key = (call["op"],)
            meetings[(call["communicator"], *key, call["seq"], call["rank"] // 8)].append(call)
        shared = 0
        for key, together in meetings.items():
            last = max(call["gpu_started_ticks"] for call in together)
            shared += len(together) > 1
            for call in together:
                check(call["gpu_finished_ticks"] >= last - LATE_NS, "%s: %s ends before a member starts" % (
                    self.name, key))
        check(shared > 0 or self.job["device"] == "off", self.name + ": no member's start was seen")

    def loss_is_true(self):
        truth = self.truth
        if "family" in truth:  # not scaled: it costs what it costs
            check(-0.02 < truth["share"] < 0.8, "%s: loss of %.3f" % (self.name, truth["share"]))
            return
        lost = truth["step_ms"] - truth["step_ms_without"]
        check(abs(truth["loss_fraction"] - lost / truth["step_ms"]) < 1e-9, self.name + ": loss_fraction")
        if truth["cause"] == "none":
            check(abs(truth["loss_fraction"]) < 0.005, self.name + ": no harmless job: %.4f" % truth["loss_fraction"])
        else:
            check(0.02 < truth["loss_fraction"] < 0.5, "%s: loss of %.3f" % (self.name, truth["loss_fraction"]))

    def check_all(self):
        self.whole()
        self.steps_take(self.truth["step_ms"])
        self.calls_are_possible()
        self.loss_is_true()


def seeds_decide(directory: str):
    """The same seed gives the same bytes."""
    again = os.path.join(directory, "again")
    for name, seed, *new in (SAMPLES[0], ("moe", NEW_SEED, "slow_gpu", True)):
        generate.make((again, generate.NewJob, seed, name, *new) if new else (again, name, seed))
        job = "%s-%d" % (name, seed)
        files = [os.path.relpath(os.path.join(place, file), directory)
                 for place, _, found in os.walk(os.path.join(directory, job)) for file in found]
        _, other, missing = filecmp.cmpfiles(directory, again, files, False)
        check(bool(files) and not other and not missing, "the same seed gives other files: %s" % (other + missing))


def truth_of_without(analyzer: str, directory: str):
    """The same job without its cause, written down: do its steps take what the truth of the slow one says?"""
    name, seed = SAMPLES[0]
    job = generate.Job(name, seed)
    wanted = job.truth()["step_ms_without"]
    job.scale, job.times = 0.0, job.training.graph.times(0)
    place = os.path.join(directory, "without")
    job.write(place)
    Files(analyzer, os.path.join(place, "%s-%d" % (name, seed))).steps_take(wanted)


def judge_tells(directory: str):
    """The truth as an answer is right, and each thing spoiled in it is not."""
    name, seed = SAMPLES[0]
    with open(os.path.join(directory, "%s-%d" % (name, seed), "truth.json")) as file:
        truth = json.load(file)
    said = {"class": truth["cause"], **{key: truth[key] for key in (
        "ranks", "hosts", "stage", "since_step", "step_ms", "step_ms_without")}}
    other = {"class": "jit", "ranks": [truth["ranks"][0] + 1], "step_ms_without": 1.1 * truth["step_ms_without"]}
    step = {"ms": truth["step_ms"]}
    check(judge.judge(truth, {"causes": [said], "step": step}).holds["right"], "the judge calls the truth wrong")
    for key, value in other.items():
        check(not judge.judge(truth, {"causes": [{**said, key: value}], "step": step}).holds["right"],
              "the judge lets a wrong %s pass" % key)
    check(not judge.judge(truth, {"causes": [], "step": step}).holds["right"], "the judge lets silence pass")
    healthy = {**truth, "cause": "none"}
    check(judge.judge(healthy, {"causes": [], "step": step}).holds["right"]
          and not judge.judge(healthy, {"causes": [said], "step": step}).holds["right"],
          "the judge lets a healthy job be accused")


def new_ones_hold(analyzer: str, directory: str):
    """A job of each family is possible; without its fault it takes what the same job, played without it, takes."""
    for name in families.FAMILIES:
        job = generate.NewJob(NEW_SEED, name, "slow_gpu", small=True)
        job.write(directory)
        Files(analyzer, os.path.join(directory, "%s-%d" % (name, job.seed))).check_all()
        told = job.without(job.parts[0], 0)
        job.parts[0].muted = True
        again = job.play()
        found = step_means(again, again.graph.times(1))
        check(abs(found - told) < 1e-6 * found, "%s: %.3f ms without its fault, told %.3f" % (name, found, told))


def steps_are_textbook():
    """With even work and little beside it, steps take what textbooks say. An interleaved pipeline waits (stages - 1) /
    chunks micro-batches, a plain one stages - 1; experts add four exchanges a layer; two turns of an engine add up."""
    for name, place, micro in (("ddp", (1, 1, 4, 1), 2), ("fsdp2", (1, 1, 4, 1), 2), ("megatron_1f1b", (1, 1, 1, 4), 8),
                               ("megatron_interleaved", (1, 1, 1, 4), 8), ("moe", (1, 1, 4, 1), 1)):
        family = families.FAMILIES[name]
        layout = Layout(*place)
        layout.regroup("ep", [list(range(layout.world))] if name == "moe" else [])
        style = families.draw(family, layout, random.Random(1))._replace(
            steps=12, micro_batches=micro, forward_ns=20e6, launch_share=0.1, data_ns=0, optimizer_ns=0, layers=4,
            bucket_ns=1e5, noise=0, jitter=0, sync_every=1, sync_messages=False, recompute=False, even_buckets=True)
        job = family(layout, style, faults.healthy(layout, style, name), random.Random(2))
        waits = 0 if layout.pp == 1 else (layout.pp - 1) / style.chunks
        wanted = 60 * (micro * style.chunks + waits * style.chunks) + (60 * 0.2 if name == "moe" else 0)
        found = step_means(job, job.graph.times(0))
        check(wanted * 0.98 < found < wanted * 1.12, "%s: a step of %.1f ms, textbooks say %.1f" % (
            name, found, wanted))


def new_judge_tells():
    """As judge_tells, of the verdict."""
    truth = {"family": "ddp", "fault": "slow_gpu", "flavour": "x2", "faults": 1, "second": None, "ranks": [3],
             "among": [3], "any_of": [], "classes": ["slow_rank_gpu"], "stage": None, "step_ms": 100.0, "share": 0.3,
             "share_since": 0.3, "job": {"name": "ddp", "seed": 1, "world": 8, "device": "timing", "sample": 1,
                                         "style": {"marks": "steps", "sync_every": 1}}}
    said = {"class": "slow_rank_gpu", "what": "the GPU of rank 3", "ranks": [3], "hosts": [], "cost_fraction": 0.29}
    finding = {"kind": "slow_step", "ranks": [3], "summary": "the GPU of rank 3 is slow"}
    other = {**said, "ranks": [4]}
    for wanted, findings, causes, true in (
            ("right", [finding], [said], truth), ("table", [], [said], truth), ("missed", [], [], truth),
            ("small", [], [], {**truth, "share": 0.002}), ("wrong", [{**finding, "ranks": [4]}], [other], truth),
            ("wrong", [], [{**said, "class": "jit"}], truth), ("healthy", [], [], {**truth, "fault": "none"}),
            ("finding", [finding], [said], {**truth, "fault": "none"}),
            ("cause", [], [said], {**truth, "fault": "none"})):
        found = judge_new.judge(true, {"status": "", "findings": findings}, {"causes": causes})
        check(found.result == wanted, "the new judge says %s, not %s" % (found.result, wanted))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", required=True)
    parser.add_argument("--directory", help="jobs of generate.py")
    given = parser.parse_args()
    if given.directory:
        for name in sorted(os.listdir(given.directory)):
            Files(given.analyzer, os.path.join(given.directory, name)).check_all()
            print(name, "holds", flush=True)
        return
    with tempfile.TemporaryDirectory() as directory:
        for name, seed in SAMPLES:
            generate.make((directory, name, seed))
            Files(given.analyzer, os.path.join(directory, "%s-%d" % (name, seed))).check_all()
        judge_tells(directory)
        new_judge_tells()
        steps_are_textbook()
        new_ones_hold(given.analyzer, directory)
        seeds_decide(directory)
        truth_of_without(given.analyzer, directory)


if __name__ == "__main__":
    main()
