#!/usr/bin/env python3
"""Both readers must say the same: titan_decode.py and `titan-analyze show --json`, on a job that titan-synth makes."""
import json
import os
import subprocess
import sys
import tempfile


def lines(command, path_of_rank=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        print("skipped:", done.stderr.strip())
        sys.exit(77)
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    analyze, synth, decode = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as directory:
        for fault, steps in (("sleep", "6"), ("size", "40"), ("die", "300"), ("gpu", "6")):
            job = os.path.join(directory, fault)
            subprocess.run([synth, job, "--ranks", "4", "--steps", steps, "--fault", fault, "--rank", "2", "--at",
                            "4"], check=True)
            folder = os.path.join(job, "synth", "0")
            files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
            for what in ([], ["--work"], ["--channels"]):
                ours = lines([analyze, "show", job, "--json", "--no-rings"] + what)
                theirs = lines([sys.executable, decode] + what + files)
                assert len(ours) == len(theirs), (what, len(ours), len(theirs))
                assert ours or (what and fault != "gpu"), (fault, what)
                for mine, other in zip(ours, theirs):
                    for key, value in other.items():
                        assert mine[key] == value, (fault, key, mine, other)
    print("both readers agree")


if __name__ == "__main__":
    main()
