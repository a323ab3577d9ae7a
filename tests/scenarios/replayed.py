#!/usr/bin/env python3
"""What a verdict says of its replay is true: `titan-analyze whatif` with the same edits comes to the same.

  replayed.py --analyzer build/analyzer/titan-analyze [--set first] [--seed 0] [--count 65]

And most right verdicts of a hang are replayed, and end all waits.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile

import case as cases
import faults
import judge
import run

LEAST_ENDING = 0.9  # of the right verdicts of a hang; 96 to 98 % are seen


def contradiction(analyzer: str, directory: str, replay: dict) -> str:
    """Empty where the command agrees."""
    done = subprocess.run([analyzer, "whatif", directory, "--no-rings", "--json", *shlex.split(replay["options"])],
                          capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1):
        return "status %d: %s" % (done.returncode, done.stderr.strip()[:200])
    stays = set(replay["waiting"]) - set(json.loads(done.stdout)["go_on"])
    return "" if stays == set(replay["still"]) else "%s stay, not %s" % (sorted(stays), replay["still"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyzer", required=True)
    parser.add_argument("--set", dest="which", default="first", choices=list(faults.SETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=65)
    args = parser.parse_args()
    wrong = right = ends = 0
    for number in range(args.seed, args.seed + args.count):
        name = run.class_of(number, faults.SETS[args.which])
        directory = tempfile.mkdtemp(prefix="replayed.")
        try:
            truth = cases.build(name, number, directory).truth
            answer = judge.ask(args.analyzer, directory)
            head = answer.findings[0] if answer.findings else {}
            replay = head.get("replay")
            if head.get("hangs") and judge.judge(truth, answer).result == "right":
                right += 1
                ends += bool(replay and not replay["still"])
            if replay and (why := contradiction(args.analyzer, directory, replay)):
                wrong += 1
                print("%s %d: %s: whatif %s" % (name, number, why, replay["options"]))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    print("%d right verdicts of a hang, %d replayed with success; %d contradictions" % (right, ends, wrong))
    return 0 if wrong == 0 and ends >= LEAST_ENDING * right else 1


if __name__ == "__main__":
    sys.exit(main())
