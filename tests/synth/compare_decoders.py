#!/usr/bin/env python3
"""Both readers must say the same: titan_decode.py and `titan-analyze show --json`, on a job that titan-synth makes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import titan_decode


# By their options; the first are calls.
KINDS = ("", "--work", "--channels", "--cuda-calls", "--markers", "--health")


def compare(analyze, job, files):
    """Which kinds of records there are, beside calls."""
    listed = set()
    for what in KINDS:
        shown = subprocess.run([analyze, "show", job, "--json", "--no-rings", *what.split()], capture_output=True,
                               text=True, check=True)
        ours, theirs = (list(map(json.loads, said)) for said in
                        (shown.stdout.splitlines(), titan_decode.lines(what, files)))
        assert len(ours) == len(theirs), (what, len(ours), len(theirs))
        assert ours or what, job
        for mine, other in zip(ours, theirs):
            for key, value in other.items():
                # Frames, which have names here, are compared by the test of the golden files.
                # Names of native places need the program's files: the second reader leaves them out.
                unnamed = key.endswith("_frames") or (key, value) == ("called_at", None)
                assert mine[key] == value or unnamed, (job, key, mine, other)
        listed.update([what] if ours else [])
    return listed


def main():
    analyze, synth = sys.argv[1:3]
    listed = set()
    with tempfile.TemporaryDirectory() as directory:
        for fault, steps in (("sleep", "6"), ("size", "40"), ("die", "300"), ("gpu", "6"), ("hot", "6")):
            job = os.path.join(directory, fault)
            subprocess.run([synth, job, "--ranks", "4", "--steps", steps, "--fault", fault, "--rank", "2", "--at",
                            "4"], check=True)
            folder = os.path.join(job, "synth", "0")
            files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
            listed |= compare(analyze, job, files)
    # A real job's: titan-synth sets no markers.
    job = pathlib.Path(__file__).resolve().parent.parent / "golden" / "1.0" / "dumps"
    listed |= compare(analyze, str(job), sorted(map(str, job.rglob("*.titan"))))
    assert listed == set(KINDS), listed
    print("both readers agree")


if __name__ == "__main__":
    main()
