"""What the storms share: the harness of the end-to-end tests, a number of rounds and a seed that is printed."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402

ROUNDS = 10
KEEP = None
SEED = random.randrange(1 << 30)


def program(name):
    return harness.BUILD / "tests" / "storms" / name


def main():
    global ROUNDS, SEED, KEEP
    ROUNDS = harness.take_option("--rounds", ROUNDS)
    SEED = harness.take_option("--seed", SEED)
    KEEP = harness.take_option("--keep", KEEP, str)
    print(f"seed {SEED}", flush=True)
    harness.main()
