#!/usr/bin/env python3
"""Asks `titan-analyze stragglers` about generated jobs, and puts its answers beside the truth.

  judge.py --analyzer build/analyzer/titan-analyze /tmp/jobs         a table by cause
  judge.py --analyzer ... /tmp/jobs --cause jit -v                   and each answer that is not right
  judge.py --analyzer ... --fresh 2                                  jobs of 2 seeds that nobody has tried, made for it
  judge.py --analyzer ... --fresh 24 --new                           24 of real programs (generate.py --new)
  judge.py --analyzer ... --fresh 24 --reviewed                      24 as a reviewer made them
  judge.py --analyzer ... --again 50,54                              those of these seeds

class    the costliest cause that it names has the true class
equal    it has a class that these records cannot tell from it (`also` in truth.json; README.md says which and why);
         "none" among those: the records do not show it, and no cause is named
who      it names the true ranks, hosts or stage, where the class has any
without  the step time without the cause is within 5 % of the truth
step     the step time is within 5 % of the truth
since    the step from which on it is there is named to within 3 steps (6 where hosts wait every 5 steps alone), or none
         where it was always there; not asked where no steps are marked
right    class or equal, who, and without; of healthy jobs: no cause is named

Jobs of real programs are judged by judge_new.py, which asks for the verdict, too.

Exit status 1: fewer right than --floor asks for.
"""
import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
from typing import List, NamedTuple, Optional, Sequence

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import generate  # noqa: E402
import judge_new  # noqa: E402

NEAR = 0.05
NEAR_STEPS = 3
COLUMNS = ("class", "equal", "who", "without", "step", "since", "right")


class Verdict(NamedTuple):
    job: str
    cause: str
    record: str  # what is recorded of the GPUs
    holds: dict  # by column; None: not asked
    error: Optional[float]  # of the step time without the cause
    why: str


def ask(analyzer: str, directory: str, subcommand: Sequence[str] = ("stragglers",), key: str = "causes") -> dict:
    done = subprocess.run([analyzer, *subcommand, "--json", "--no-rings", directory],
                          capture_output=True, timeout=300, check=False)
    if done.returncode not in (0, 1, 3):
        raise ValueError("exit status %d: %s" % (done.returncode, done.stderr.decode(errors="replace").strip()[:200]))
    answer = json.loads(done.stdout)
    if key not in answer:
        raise ValueError("no %s in the answer" % key)
    return answer


def names_whom(truth: dict, said: dict) -> Optional[bool]:
    """Its ranks, hosts or stage, whichever the true cause has; more about them may be said."""
    if truth["cause"] == "slow_link":
        return set(truth["hosts"]) <= set(said.get("hosts", [])) <= set(truth["hosts_among"])
    if not truth["ranks"]:
        return None
    return ((truth["stage"] is not None and said.get("stage") == truth["stage"])
            or (bool(truth["hosts"]) and said.get("hosts") == truth["hosts"])
            or sorted(said.get("ranks", [])) == truth["ranks"])


def names_since(truth: dict, since: Optional[int]) -> Optional[bool]:
    """Where the host waits for the device every five steps, so do the markers of steps."""
    style = truth["job"]["style"]
    near = max(NEAR_STEPS, style["sync_every"] + 1)
    if style["marks"] == "none":
        return None
    if truth["since_step"] is None:
        return since is None or since <= style["first"] + near
    return since is not None and abs(since - truth["since_step"]) <= near


def error_of(truth: dict, said: Optional[float]) -> float:
    """How far from the truth, of which there are two where what a stage has too much may vanish or be shared by all."""
    if said is None:
        return 1.0
    true = [truth[key] for key in ("step_ms_without", "step_ms_balanced", "step_ms_without_since") if key in truth]
    return min(((said - one) / one for one in true), key=abs)


def record_of(truth: dict) -> str:
    job = truth["job"]
    return "no GPU times" if job["device"] == "off" else "each launch" if job["sample"] == 1 else "one in %d" % (
        job["sample"])


def judge(truth: dict, answer: dict) -> Verdict:
    job = "%s-%d" % (truth["job"]["name"], truth["job"]["seed"])
    causes: List[dict] = answer["causes"]
    step = (answer.get("step") or {}).get("ms")
    steps = [truth[key] for key in ("step_ms", "step_ms_since") if key in truth]
    holds = dict.fromkeys(COLUMNS)
    holds["step"] = step is not None and any(abs(step - one) <= NEAR * one for one in steps)
    names = ", ".join("%s %s" % (cause["class"], cause.get("ranks") or cause.get("hosts") or cause.get("stage"))
                      for cause in causes[:3]) or "no cause"
    if truth["cause"] == "none":
        holds["right"] = not causes
        return Verdict(job, truth["job"]["name"], record_of(truth), holds, None, names)
    holds["class"] = bool(causes) and causes[0]["class"] == truth["cause"]
    holds["equal"] = not holds["class"] and (causes[0]["class"] if causes else "none") in truth["also"]
    error = None
    if causes:
        said = causes[0]
        error = error_of(truth, said.get("step_ms_without"))
        holds["who"] = names_whom(truth, said)
        holds["without"] = abs(error) <= NEAR
        holds["since"] = names_since(truth, said.get("since_step"))
        names += "; without %.1f ms (true %.1f)" % (said.get("step_ms_without") or 0, truth["step_ms_without"])
        holds["right"] = (holds["class"] or holds["equal"]) and holds["who"] is not False and holds["without"]
    else:
        holds["right"] = holds["equal"]
    whom = (["ranks %s" % truth["ranks"]] if truth["ranks"] else []) + truth["hosts"] + (
        [] if truth["stage"] is None else ["stage %d" % truth["stage"]])
    return Verdict(job, truth["job"]["name"], record_of(truth), holds, error,
                   "%s of %s, loss %.1f %%: said %s" % (truth["cause"], ", ".join(whom) or "all",
                                                       100 * truth["loss_fraction"], names))


def judge_job(task):
    analyzer, directory = task
    with open(os.path.join(directory, "truth.json")) as file:
        truth = json.load(file)
    if "family" in truth:
        return judge_new.judge_job(ask, analyzer, directory, truth)
    try:
        return judge(truth, ask(analyzer, directory))
    except (ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        holds = {**dict.fromkeys(COLUMNS), "right": False}
        return Verdict(os.path.basename(directory), truth["job"]["name"], record_of(truth), holds, None,
                       "broken: %r" % error)


def row(name: str, verdicts: List[Verdict]) -> str:
    cells = []
    for column in COLUMNS:
        asked = [verdict.holds[column] for verdict in verdicts if verdict.holds[column] is not None]
        cells.append("%8s" % ("%d/%d" % (sum(asked), len(asked)) if asked else "-"))
    errors = sorted(abs(verdict.error) for verdict in verdicts if verdict.error is not None)
    cells.append("%8s" % ("%.1f %%" % (100 * errors[len(errors) // 2]) if errors else "-"))
    return "%-30s %4d%s" % (name, len(verdicts), "".join(cells))


def table(verdicts: List[Verdict]) -> str:
    lines = ["%-30s %4s%s%8s" % ("cause", "jobs", "".join("%8s" % column for column in COLUMNS), "error")]
    for name in sorted({verdict.cause for verdict in verdicts}):
        lines.append(row(name, [verdict for verdict in verdicts if verdict.cause == name]))
    slow = [verdict for verdict in verdicts if verdict.holds["class"] is not None]
    for record in sorted({verdict.record for verdict in slow}):
        lines.append(row("of slow jobs, " + record, [verdict for verdict in slow if verdict.record == record]))
    return "\n".join(lines + [row("all", verdicts)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", help="what generate.py --out wrote to")
    parser.add_argument("--fresh", type=int, metavar="N", help="instead: jobs of N fresh seeds")
    parser.add_argument("--again", metavar="SEEDS", help="instead: jobs of real programs, or --reviewed, of these")
    parser.add_argument("--analyzer", required=True)
    parser.add_argument("--new", action="store_true", help="fresh ones: of real programs, N in all")
    parser.add_argument("--reviewed", action="store_true", help="fresh or again: as a reviewer made them")
    parser.add_argument("--cause", help="only jobs of this cause, or family")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--floor", type=float, default=0, help="share of all jobs that must be right")
    parser.add_argument("--verbose", "-v", action="store_true", help="each answer that is not right")
    given = parser.parse_args()
    if [bool(one) for one in (given.directory, given.fresh, given.again)].count(True) != 1:
        parser.error("one of a directory, --fresh N and --again SEEDS, please")
    with tempfile.TemporaryDirectory() as place:
        if given.again:
            for seed in given.again.split(","):
                generate.main(["--out", place, "--reviewed" if given.reviewed else "--new", "--seed", seed])
        given.directory = given.directory or (place if given.again else make_fresh(given, place))
        sys.exit(judge_all(parser, given))


def make_fresh(given: argparse.Namespace, place: str) -> str:
    seed = random.SystemRandom().randrange(10**6, 10**9)
    print("seeds from %d on" % seed, flush=True)
    which = (["--new"] if given.new else ["--reviewed"] if given.reviewed else
             ["--cause", given.cause] if given.cause else ["--all"])
    generate.main(["--out", place, "--seed", str(seed), "--seeds", str(given.fresh), "--jobs", str(given.jobs), *which])
    return place


def judge_all(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    places = sorted(os.path.join(given.directory, name) for name in os.listdir(given.directory)
                    if given.cause in (None, name.rpartition("-")[0]))
    with multiprocessing.Pool(given.jobs) as pool:
        verdicts = pool.map(judge_job, [(given.analyzer, place) for place in places
                                        if os.path.exists(os.path.join(place, "truth.json"))], chunksize=1)
    if not verdicts:
        parser.error("no jobs there")
    new = [verdict for verdict in verdicts if isinstance(verdict, judge_new.NewVerdict)]
    if new:
        for verdict in new:
            if given.verbose and (verdict.result not in judge_new.GOOD or verdict.share is False):
                print("%s: %s%s, %s" % (verdict.job, verdict.result, " but its share" if verdict.share is False else "",
                                        verdict.why))
        print(judge_new.table(new))
        right = sum(verdict.result in judge_new.GOOD for verdict in new) / len(new)
        return 1 if right < given.floor else 0
    if given.verbose:
        for verdict in verdicts:
            if not verdict.holds["right"]:
                missed = [column for column in COLUMNS if verdict.holds[column] is False]
                print("%s: %s [%s]" % (verdict.job, verdict.why, ", ".join(missed)))
    print(table(verdicts))
    right = sum(bool(verdict.holds["right"]) for verdict in verdicts) / len(verdicts)
    return 1 if right < given.floor else 0


if __name__ == "__main__":
    main()
