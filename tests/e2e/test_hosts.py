#!/usr/bin/env python3
"""Two hosts that share nothing but the dump directory: when a rank of one dumps, those of the other do."""

import os
import signal

import harness
from test_healthy import pids_of


class Hosts(harness.Case):
    def test_signal_reaches_the_other_host(self):
        place = self.place
        for host in "01":
            (place.path / f"rings-{host}").mkdir()
        pid_file = place.path / "pids"
        place.start([harness.stand_ins() / "titan-sim", "--ranks", "8", "--tp", "2", "--hosts", "2", "--steps",
                     "100000",
                     "--step-ms", "2", "--pid-file", pid_file],
                    place.env(TITANTRACE_RING_DIR=place.path / "rings-%h"))
        rings = lambda: [len(list((place.path / f"rings-{host}").glob("*/*.ring"))) for host in "01"]
        harness.wait_for(lambda: rings() == [4, 4], 20, "four ranks on each host")
        newest = lambda: place.show(*place.path.glob("rings-*"), "--rank", 0, "--last", 1, starting=True)
        harness.wait_for(lambda: any(call["step"] > 20 for call in newest()), 20,
                         "both hosts have looked for requests of before")
        os.kill(pids_of(pid_file)[6], signal.SIGUSR1)
        harness.wait_for(lambda: place.dumped_ranks() >= {4, 5, 6, 7}, 10, "its own host dumps")
        harness.wait_for(lambda: len(place.dumped_ranks()) == 8, 30, "the other host dumps")
        analysis = place.analyze(place.dumps)
        self.assert_healthy(analysis)


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
