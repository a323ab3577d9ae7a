"""What the storms share: the harness of the end-to-end tests, a number of rounds and a seed that is printed."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402

ROUNDS = 10
SEED = random.randrange(1 << 30)


def program(name):
    return harness.BUILD / "tests" / "storms" / name


KEEP = None


def take(option, otherwise, kind=int):
    if option not in sys.argv:
        return otherwise
    place = sys.argv.index(option)
    value = kind(sys.argv[place + 1])
    del sys.argv[place:place + 2]
    return value


def main():
    global ROUNDS, SEED, KEEP
    ROUNDS, SEED, KEEP = take("--rounds", ROUNDS), take("--seed", SEED), take("--keep", KEEP, str)
    print(f"seed {SEED}", flush=True)
    harness.main()
