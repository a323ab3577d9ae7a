#!/usr/bin/env python3
"""Clocks that jump while programs run, machines that sleep, and processors without a counter that can be trusted."""
import platform
import re
import signal
import struct
import subprocess
import time

import guest
import harness

HOUR_S, DAY_S = 3600, 86400


class Clocks(guest.Case):
    """Two ranks that work in rounds; between these the test moves their clocks."""

    def setUp(self):
        self.shifts = self.place.path / "shifts"
        self.jump()

    def jump(self, day_s=0, running_s=0):
        """In place: the programs have the file mapped."""
        with open(self.shifts, "r+b" if self.shifts.exists() else "wb") as file:
            file.write(struct.pack("ll", day_s, running_s))

    def start(self, rounds, missed=0, timeout_s=2):
        clock = harness.BUILD / "tests" / "guest" / "libjumping_clock.so"
        self.ranks = []
        for rank in (0, 1):
            env = self.place.env(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2, GUEST_ROUNDS=rounds,
                                 GUEST_MISSES_ROUND=missed if rank == 1 else 0, JUMPING_CLOCK=self.shifts,
                                 TITANTRACE_TIMEOUT_S=timeout_s, LD_PRELOAD=f"{clock} {harness.tracer()}")
            self.ranks.append(self.place.start([guest.program("clocks"), "rounds"], env))

    def round(self, number):
        self.place.go(f"round{number}")
        for rank in self.ranks:
            rank.wait_says(f"round {number}")

    def ends(self, dumps):
        self.place.go()
        for rank in self.ranks:
            self.assertEqual(rank.wait(), 0, rank.stderr)
        self.assertEqual(len(self.place.dump_files()), dumps, self.ranks[0].stderr)

    def hang_is_found(self, round, older_dumps=0):
        """Rank 1 misses the round: rank 0 waits for it, and the analyzer says so."""
        self.place.go(f"round{round}")
        self.ranks[1].wait_says(f"round {round} missed")
        harness.wait_for(lambda: len(self.place.dump_files()) == older_dumps + 2, 20, "a dump of each rank")
        found = self.place.analyze(self.place.dumps)
        self.assertEqual(found.status, harness.FINDINGS, found.stdout + found.stderr)
        verdict = found.json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["confidence"]),
                         ("rank_not_arrived", [1], "certain"))
        waited_s = float(re.search(r"rank 0 waits for ([0-9.]+) s", verdict["summary"])[1])
        self.assertTrue(2 <= waited_s < 60, verdict["summary"])

    def jumps_before_a_hang(self, day_s):
        self.start(rounds=4, missed=4)
        self.round(1)
        self.jump(day_s)
        time.sleep(1.2)  # an anchor of the clocks is written each second
        self.round(2)
        self.jump(day_s // 2)
        self.round(3)
        self.hang_is_found(4)

    def test_hour_back(self):
        self.jumps_before_a_hang(-HOUR_S)

    def test_day_forward(self):
        self.jumps_before_a_hang(DAY_S)

    def test_newest_dump_after_a_jump_back(self):
        self.start(rounds=2, missed=2)
        self.round(1)
        for number in (1, 2):
            self.ask_all(2 * number)
        self.jump(-HOUR_S)
        self.hang_is_found(2, older_dumps=4)

    def ask_all(self, dumps):
        asked = self.place.run([harness.BUILD / "tools" / "titan-dump", "--job", "e2e", "--ring-dir", self.place.rings],
                               self.place.env(preload=False))
        self.assertEqual(asked.status, 0, asked.report())
        self.assertEqual(len(self.place.dump_files()), dumps)

    def test_no_hang_after_a_jump(self):
        self.start(rounds=3)
        for number, day_s in ((1, DAY_S), (2, -DAY_S), (3, 0)):
            self.jump(day_s)
            self.round(number)
        self.ends(dumps=0)

    def test_asking_after_jumps(self):
        self.start(rounds=2, timeout_s=300)
        self.round(1)
        for number, day_s in ((1, DAY_S), (2, -DAY_S)):
            self.jump(day_s)
            self.ask_all(2 * number)
        self.round(2)
        self.ends(dumps=4)

    def sleep_of_the_machine(self, running_s):
        """All stand still; the counter goes on meanwhile, the clock that only runs while the machine does has
        stopped."""
        self.start(rounds=3)
        self.round(1)
        (self.place.meet / "round2").touch()
        self.ranks[0].wait_says("round 2")
        for rank in self.ranks:
            rank.signal(signal.SIGSTOP)
        time.sleep(5)
        self.jump(running_s=running_s)
        for rank in self.ranks:
            rank.signal(signal.SIGCONT)
        self.round(3)
        time.sleep(2.5)
        self.ends(dumps=0)

    def test_all_stopped(self):
        self.sleep_of_the_machine(0)

    def test_suspend(self):
        self.sleep_of_the_machine(-5)

    def test_hang_that_begins_soon_after_a_dump(self):
        """No clock jumps here: a timeout shorter than the time in which requests join a dump."""
        self.start(rounds=2, missed=2)
        self.round(1)
        self.ask_all(2)
        self.hang_is_found(2, older_dumps=2)


class Counter(guest.Case):
    """The processor's time stamp counter, forbidden or not to be trusted."""

    def setUp(self):
        if platform.machine() != "x86_64":
            self.skipTest("only x86-64 forbids the counter")

    def test_forbidden_before_the_start(self):
        self.both([guest.program("counter"), "before"])

    def test_forbidden_after_the_start(self):
        self.both([guest.program("counter"), "after"], dumps=1, TITANTRACE_TIMEOUT_S=5)

    def test_not_trusted_by_the_kernel(self):
        source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        hpet = self.place.path / "hpet"
        hpet.write_text("hpet\n")
        hidden = ["unshare", "--mount", "sh", "-c", f'mount --bind {hpet} {source} && exec "$@"', "-"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace may be made here: not root")
        self.both([*hidden, guest.program("namespaces"), "files"], dumps=1, TITANTRACE_TIMEOUT_S=5)
        shown = self.place.show(self.place.dumps)
        self.assertTrue(shown)


if __name__ == "__main__":
    harness.main()
