#!/usr/bin/env python3
"""Settings: a bad value is reported once and the default is used; some ranks may be left out."""

import re
import signal

import harness

BAD = "no-such-value"
ANY = {"TITANTRACE_DIR", "TITANTRACE_RING_DIR", "TITANTRACE_RUN_ID", "TITANTRACE_SPANS"}  # take any text


class Settings(harness.Case):
    def works(self, **settings):
        """It records and dumps on SIGUSR1. Returns what it said."""
        run = self.place.start_rank("e2e-processes", "linger", **settings)
        run.wait_says("done")
        said = run.stderr
        run.signal(signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 10, "a dump")
        self.place.go()
        self.assertEqual(run.wait(), 0)
        self.assertEqual(len(self.place.show(self.place.dumps, "--op", "all_reduce")), 5)
        return said

    def test_bad_values(self):
        table = (harness.ROOT / "tracer" / "settings" / "config.def").read_text()
        known = set(re.findall(r"^TITAN_CONFIG_ROW\((\w+),", table, re.MULTILINE))
        for names in (sorted(known - ANY)[::2], sorted(known - ANY)[1::2]):  # of all at once 20 would be told
            self.place = self.new_place()
            said = self.works(**dict.fromkeys(names, BAD)).splitlines()
            told = [name for line in said for name in re.findall(rf'(TITANTRACE\w*)="{BAD}" cannot be used', line)]
            self.assertEqual((sorted(told), len(said)), (names, len(told)), said)

    def test_only_good_values_say_nothing(self):
        self.assertEqual(self.works(TITANTRACE_TIMEOUT_S="60", TITANTRACE_KEEP="2", TITANTRACE_COLLECTIVES="1024"), "")

    def test_rank_left_out(self):
        run = self.place.start_rank("e2e-processes", "linger", TITANTRACE_RANKS="1-3,8")
        run.wait_says("done")
        self.assertEqual((run.stderr, self.place.traces()), ("", []))
        self.place.go()
        self.assertEqual(run.wait(), 0)

    def test_rank_chosen(self):
        self.works(TITANTRACE_RANKS="%8")

    def test_chosen_ranks_of_a_job(self):
        jobs = self.place.start_ranks("e2e-pairs", "ring", 4, TITANTRACE_RANKS="0,2-3")
        for job in jobs:
            job.wait_says("done")
        self.assertEqual(len(self.place.ring_files()), 3)
        self.assertEqual(self.place.analyze(self.place.rings).status, harness.HEALTHY)
        self.place.go()
        self.assertEqual([job.wait() for job in jobs], [0] * 4)

    def test_run_id_with_odd_characters(self):
        self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_RUN_ID="../a b/$(x)")
        inside = [path for path in self.place.dumps.rglob("*.titan")]
        self.assertEqual(len(inside), 1, "it stays inside the dump directory")

    def test_run_id_from_torchrun(self):
        self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_RUN_ID=None, TORCHELASTIC_RUN_ID="job-17")
        self.assertEqual(len(self.place.dump_files("job-17")), 1)


if __name__ == "__main__":
    harness.main()
