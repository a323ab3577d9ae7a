#!/usr/bin/env python3
"""Every fault: the verdict of titan-analyze against what was injected."""

import concurrent.futures
import contextlib
import re
import time

import fault_cases
import harness

ROUNDS = harness.take_option("--rounds", 1)  # of each fault, side by side
TIMEOUT_S = 2


def expected_records(case):
    return case.records or int(re.search(r"--ranks (\d+)", case.options).group(1))


def ranks_since(begin_s, place):
    """With a dump since then. The recorder removes old ones meanwhile."""
    ranks = set()
    for path in place.dump_files():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime >= begin_s:
                ranks.add(path.name.split(".")[0])
    return ranks


def let_it_happen(place, case):
    """Runs the job until every rank has left a record of what came after the fault; then ends the job."""
    job = place.start([harness.stand_ins() / "titan-sim", *case.options.split(), "--steps", "100000",
                       *([] if "step-ms" in case.options else ["--step-ms", "1"]),
                       *([] if "checkpoint" in case.options else ["--checkpoint-every", "0"])],
                      place.env(SIMGPU_FAULTS=case.faults, TITANTRACE_TIMEOUT_S=TIMEOUT_S * harness.SLOW,
                                **case.settings))
    not_yet = [time.time()]  # when the fault had not struck

    def strikes():
        now = time.time()
        if job.stderr.count("fault:") == len(case.faults.split(";")):
            return True
        not_yet.append(now)
        return False
    harness.wait_for(strikes, 30, "the fault strikes")
    struck = not_yet[-1] - 0.02  # a file's time is that of the kernel's last tick
    records = expected_records(case)
    harness.wait_for(lambda: len(ranks_since(struck, place)) >= records, 30, f"{records} dumps")
    time.sleep(0.2)
    job.end()


class Faults(harness.Case):
    def check(self, case, analysis):
        self.assertEqual(analysis.status, harness.FINDINGS, analysis.stderr)
        verdict, head = analysis.json["verdict"], analysis.json["findings"][0]
        got = (verdict["kind"], tuple(verdict["ranks"]), (head["communicator"] or {}).get("name"), head["seq"],
               head["op"])
        story = f"{got}: {verdict['summary']}"
        self.assertIn(verdict["kind"], case.kinds, story)
        if case.ranks is not None:
            self.assertEqual(tuple(verdict["ranks"]), case.ranks, story)
        if case.comm is not None:
            self.assertEqual(head["communicator"]["name"].split(":")[0], case.comm, story)
        if case.seq is not None:
            self.assertEqual(head["seq"], case.seq, story)
        if case.op is not None:
            self.assertEqual(head["op"], case.op, story)
        if case.confidence is not None:
            self.assertIn(verdict["confidence"], case.confidence, story)
        for word in case.words:
            self.assertIn(word, verdict["summary"], story)
        self.assertEqual((head["kind"], head["ranks"]), (verdict["kind"], verdict["ranks"]))
        self.assertTrue(head["evidence"], story)
        for word in case.evidence:
            self.assertIn(word, " ".join(head["evidence"]), story)
        self.assertEqual(analysis.json["run"]["missing_ranks"], [], story)

    def run_case(self, case):
        places = [self.new_place() for _ in range(ROUNDS)]
        with concurrent.futures.ThreadPoolExecutor(ROUNDS) as pool:
            list(pool.map(lambda place: let_it_happen(place, case), places))
        whole = [place.analyze(place.dumps) for place in places]
        for analysis in whole:
            self.check(case, analysis)
        self.check_digests(places[0], whole[0])
        env = places[0].env(preload=False, COLUMNS=60)
        env["PATH"] = f"{harness.BUILD / 'analyzer'}:{env['PATH']}"
        report = places[0].run(["titan-analyze", places[0].dumps, "--ring-dir", places[0].rings], env)
        self.paste_what_is_next(places[0], report.stdout, env)

    def check_digests(self, place, whole):
        """Map on this node and reduce without its rings: the report of the whole set."""
        digests = place.path / "digests"
        place.tool("titan-analyze", "digest", place.dumps, "--node", "--into", digests, "--ring-dir", place.rings,
                   status=0)
        self.assertEqual(place.analyze(digests, "--no-rings").json, whole.json)


def add_test(case):
    def test(self):
        self.run_case(case)

    test.__doc__ = f"{case.options}: {case.faults}"
    setattr(Faults, f"test_{case.name}", test if case.name in fault_cases.EACH_TIME else harness.at_night(test))


for row in fault_cases.CASES:
    add_test(row)

if __name__ == "__main__":
    harness.main(at_once=4, rings=harness.SMALL_RINGS)
