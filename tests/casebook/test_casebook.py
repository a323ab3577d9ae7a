#!/usr/bin/env python3
"""Runs each case of the casebook on the simulated node and compares our verdict with the one that was written down.

    test_casebook.py --build DIR [Cases.test_NAME]   the cases, or one
    test_casebook.py --build DIR --say NAME          runs one and prints the report and the verdict; asserts nothing
    test_casebook.py --write                         writes docs/evidence/casebook.md
"""
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
import page  # noqa: E402
import start  # noqa: E402,F401
from casebook import CASES, is_right  # noqa: E402

TORCHRUN = harness.ROOT / ".venv" / "bin" / "torchrun"
PATIENCE_S = 9    # and hang_s, after which dumps are asked for, where the watchdog is silent
LIMIT_S = 60      # for a case


class Ranks:
    """The processes of a case: torchrun, or ranks that nobody ends."""

    def __init__(self, place, case):
        env = place.env(SIMGPU_DIR=harness.stand_ins(), LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1",
                        CASEBOOK_STORE=place.meet,
                        TITANTRACE_TIMEOUT_S=600 if case.request_s else case.hang_s * harness.SLOW)
        program = [HERE / "start.py", case.name]
        if case.launcher == "torchrun":
            self.started = [place.start([TORCHRUN, f"--nproc-per-node={case.size}", "--master-port=0",
                                         "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *program], env)]
            return
        of_rank = lambda rank: {"RANK": rank, "WORLD_SIZE": case.size, "LOCAL_RANK": rank,
                                "LOCAL_WORLD_SIZE": case.size}
        self.started = [place.start([TORCHRUN.parent / "python", *program],
                                    {**env, **{name: str(value) for name, value in of_rank(rank).items()}})
                        for rank in range(case.size)]

    def over(self):
        return all(one.status is not None for one in self.started)


def record(place, case):
    """Runs the case until it is over, or its ranks have dumped: by themselves, or because they were asked."""
    ranks = Ranks(place, case)
    began, asked, dumps, since = None, False, [], 0
    end = time.monotonic() + LIMIT_S * harness.SLOW
    while not ranks.over() and time.monotonic() < end:
        now = time.monotonic()
        if began is None:  # ranks import PyTorch; who never calls NCCL never records
            began = now if place.ring_files() else None
            time.sleep(0.05)
            continue
        if place.dump_files() != dumps:
            dumps, since = place.dump_files(), now
        if dumps and now > since + 1:
            break
        if not dumps and not asked and now > began + (case.request_s or PATIENCE_S + case.hang_s) * harness.SLOW:
            place.run([harness.BUILD / "tools" / "titan-dump", "--job", "e2e", "--ring-dir", place.rings],
                      place.env(preload=False), 60)
            asked = True
        time.sleep(0.05)


def say(place, case):
    """(kind, ranks, confidence, summary) of our verdict, and the whole report."""
    record(place, case)
    analysis = place.analyze(place.dumps)
    report = place.run([harness.BUILD / "analyzer" / "titan-analyze", place.dumps, "--ring-dir", place.rings],
                       place.env(preload=False)).stdout
    if not (analysis.json or {}).get("verdict"):
        return (None, [], "", f"status {analysis.status}: {analysis.stdout[:200]}"), report
    first = analysis.json["findings"][0]
    return (first["kind"], first["ranks"], first["confidence"], first["summary"]), report


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class Cases(harness.Case):
    def check(self, case):
        if case.verdict == "not run":
            self.skipTest(f"not run: {case.why}")
        (kind, ranks, confidence, summary), report = say(self.place, case)
        said = f"{kind} {ranks} ({confidence}): {summary}\n{report}"
        was_kind, was_ranks = case.seen or (None, [])
        self.assertEqual((kind, ranks if was_ranks is not None else None), (was_kind, was_ranks), said)
        self.assertEqual(is_right(case.right, kind, ranks, summary), case.verdict == "right", said)


class Page(unittest.TestCase):
    def test_page_is_what_the_cases_say(self):
        self.assertEqual(page.PATH.read_text(), page.text(CASES), "casebook.md is old: test_casebook.py --write")


for one in CASES.values():
    setattr(Cases, f"test_{one.name}", lambda self, one=one: self.check(one))


def say_aloud(case):
    place = harness.Place()
    try:
        (kind, ranks, confidence, summary), report = say(place, case)
    finally:
        place.close()
    print(f"{report}\n{case.name} ({case.link}): {kind} {ranks} {confidence}\n  said:  {summary}\n"
          f"  right: {' or '.join(case.right.kinds)}, ranks {case.right.ranks or 'any'}"
          f"{', ' + case.right.says if case.right.says else ''}", flush=True)


def main():
    if "--write" in sys.argv:
        page.PATH.write_text(page.text(CASES))
    elif "--say" in sys.argv:
        harness.BUILD = pathlib.Path(harness.take_option("--build", "build", str)).resolve()
        for name in sys.argv[sys.argv.index("--say") + 1:]:
            say_aloud(CASES[name])
    else:
        harness.main()


if __name__ == "__main__":
    main()
