#!/usr/bin/env python3
"""Four hosts, with host names, boots, processes and clocks of their own, and one dump directory whose file server is
slow, hangs, or goes and comes back: one verdict of the whole, no job that waits for us, nothing lost but what is
counted."""

import re
import signal
import time
import unittest

import harness
import hosts

NAMES = ("host-a", "host-b", "host-c", "host-d")
CLOCKS = (0, 37, -3600, 2)  # one nobody ever set
PER_HOST = 2
RANKS = PER_HOST * len(NAMES)
VICTIM = 5  # on host-c
RUN = "host-a-29500"  # nobody names it: the address of rank 0 does
NO_HOSTS = hosts.missing()


@unittest.skipIf(NO_HOSTS, NO_HOSTS)
class SeveralHosts(harness.Case):
    def start(self, steps=1000000, fault="", ranks=RANKS, server="fast", timeout=3, **settings):
        self.hosts = hosts.Hosts(self.place, NAMES, PER_HOST, CLOCKS)
        self.hosts.server_is(server)
        return self.hosts.start([*hosts.titan_run("--timeout", timeout * harness.SLOW),
                                 *hosts.simulated_job(steps, "--ranks", ranks)],
                                SIMGPU_FAULTS=fault, **settings)

    def dumped(self):
        return self.place.dumped_ranks(RUN)

    def wait_for_dumps(self, limit_s=30):
        harness.wait_for(lambda: len(self.dumped()) == RANKS or self.hosts.any_ended(), limit_s,
                         "all ranks dump into the shared directory")
        self.assertEqual(self.dumped(), set(range(RANKS)))

    def expect_verdict(self, *sources):
        analysis = self.place.analyze(*sources, "--no-rings")
        verdict = analysis.json["verdict"]
        self.assertEqual((analysis.status, verdict["kind"], verdict["ranks"]),
                         (harness.FINDINGS, "rank_not_arrived", [VICTIM]), analysis.stdout)
        self.assertIn("host-c", analysis.stdout)
        return analysis

    def test_slow(self):
        """15 ms for each operation. Each host packs its own ranks; the verdict of the digests is that of the dumps."""
        self.start(fault=f"spin rank={VICTIM} step=40", server=15)
        self.wait_for_dumps(60)
        whole = self.expect_verdict(self.place.dumps)
        self.hosts.server_is("fast")
        for index in range(len(NAMES)):
            packed = self.hosts.on_host(index, harness.BUILD / "analyzer" / "titan-analyze", "digest",
                                        self.hosts.shared, "--node", "--into",
                                        self.place.path / "digests")
            self.assertEqual(packed.status, 0, packed.stderr)
        self.assertEqual(len(list((self.place.path / "digests").rglob("*.digest"))), len(NAMES))
        packed = self.expect_verdict(self.place.path / "digests")
        summaries = {re.sub(r"[\d.]+ s\b", "N s", analysis.json["findings"][0]["summary"])
                     for analysis in (whole, packed)}
        self.assertEqual(len(summaries), 1, summaries)
        for index in range(len(NAMES)):
            self.hosts.signal(index, signal.SIGTERM)
        for ran in self.hosts.ran:
            self.assertNotEqual(ran.wait(30), 0)
            self.assertRegex(ran.stderr, rf"VERDICT  rank_not_arrived[\s\S]*rank {VICTIM}")

    def test_hangs_and_comes_back(self):
        """Nobody can write, nor tell the others. Every host's own timeout ends; what they copied then is written when
        the server answers."""
        self.start(fault=f"spin rank={VICTIM} step=40")
        harness.wait_for(lambda: self.place.meet.exists() and len(list(self.place.meet.glob("*.id"))) > 0, 20,
                         "the job starts")
        time.sleep(1)
        self.hosts.server_is("hang")
        time.sleep(6 * harness.SLOW)
        self.assertEqual(self.dumped(), set())
        self.hosts.server_is("fast")
        self.wait_for_dumps()
        self.expect_verdict(self.place.dumps)

    def test_goes_and_comes_back(self):
        """Dumps go to each host's own disk, which is said; once the server is back, to the shared directory again."""
        ran = self.start(fault=f"spin rank={VICTIM} step=40")
        harness.wait_for(lambda: self.place.meet.exists() and len(list(self.place.meet.glob("*.id"))) > 0, 20,
                         "the job starts")
        self.hosts.server_is("gone")
        local = lambda: {path.name[:9] for path in self.place.tmp.glob(f"*/titantrace-*/{RUN}/0/rank*.titan")}
        harness.wait_for(lambda: len(local()) == RANKS, 30, "all ranks dump to their hosts' disks")
        self.assertEqual(self.dumped(), set())
        for one, name in zip(ran, NAMES):
            self.assertEqual(
                len(re.findall(rf"dump written to {self.place.tmp}/{name}/.* as {self.hosts.shared} cannot be "
                               rf"written: ", one.stderr)),
                             PER_HOST, one.stderr)
        self.expect_verdict(*sorted(self.place.tmp.glob("*/titantrace-*")))
        self.hosts.server_is("fast")
        time.sleep(5.5)  # other nodes are asked every 5 s at most
        asked = self.hosts.on_host(0, "sh", "-c", "pkill -USR1 --oldest titan-sim")
        self.assertEqual(asked.status, 0, asked.stderr)
        self.wait_for_dumps()
        self.expect_verdict(self.place.dumps)

    def test_a_job_starts_and_ends_while_it_hangs(self):
        """titan-run and each rank's last dump wait for a few seconds, no longer; the status is the job's."""
        started = time.monotonic()
        ran = self.start(steps=20, server="hang", TITANTRACE_DUMP_ON="exit")
        for one in ran:
            self.assertEqual(one.wait(60), 0, one.stderr)
            self.assertIn("does not answer", one.stderr)
        took_s = time.monotonic() - started
        self.assertLess(took_s, 40 * harness.SLOW)
        self.assertEqual(self.dumped(), set())

    def test_a_job_is_ended_while_it_hangs(self):
        """Of a hang, with every watch thread stuck in the directory: SIGTERM ends it within what
        docs/operate/restricted.md says."""
        ran = self.start(fault=f"spin rank={VICTIM} step=40")
        harness.wait_for(lambda: self.place.meet.exists() and len(list(self.place.meet.glob("*.id"))) > 0, 20,
                         "the job starts")
        time.sleep(1)
        self.hosts.server_is("hang")
        time.sleep(5 * harness.SLOW)
        started = time.monotonic()
        for index in range(len(NAMES)):
            self.hosts.signal(index, signal.SIGTERM)
        for one in ran:
            self.assertNotEqual(one.wait(60), 0)
        self.assertLess(time.monotonic() - started, 30 * harness.SLOW)


if __name__ == "__main__":
    harness.main()
