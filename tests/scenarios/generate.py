#!/usr/bin/env python3
"""Writes one case for a person to look at: its files, and truth.json beside them (what is wrong, who, and what the
hosts did).

  generate.py --class send_to_the_wrong_peer --seed 28 --into /tmp/case
  titan-analyze --no-rings /tmp/case/dumps

The same class and seed give the same files everywhere.
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import case as cases  # noqa: E402
import faults  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--class", dest="name", required=True, metavar="NAME",
                        choices=sorted(faults.LABELS + faults.NEW_LABELS),
                        help="one of: " + ", ".join(sorted(faults.LABELS + faults.NEW_LABELS)))
    parser.add_argument("--seed", type=int, default=0, help="number of the case (default: 0)")
    parser.add_argument("--into", required=True, metavar="DIR", help="an empty or new directory")
    args = parser.parse_args()
    if os.path.isdir(args.into) and os.listdir(args.into):
        parser.error("%s is not empty" % args.into)
    case = cases.build(args.name, args.seed, os.path.join(args.into, "dumps"))
    with open(os.path.join(args.into, "truth.json"), "w") as file:
        json.dump(case.describe(), file, indent=1)
    print("%s: %s" % (args.into, json.dumps(case.truth.describe())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
