#!/usr/bin/env python3
"""Clocks that jump while programs run, machines that sleep, and processors without a counter that can be trusted."""
import json
import platform
import re
import signal
import struct
import subprocess
import threading
import time

import guest
import harness

HOUR_S, DAY_S = 3600, 86400
CLOCKS_DIFFER_S = 0.005  # times of a record and those of the test


class Ranks(guest.Case):
    """Two ranks that work in rounds; between these the test moves their clocks."""

    def setUp(self):
        self.shifts = self.place.path / "shifts"
        self.jump()

    def jump(self, day_s=0, running_s=0):
        """In place: the programs have the file mapped."""
        with open(self.shifts, "r+b" if self.shifts.exists() else "wb") as file:
            file.write(struct.pack("ll", day_s, running_s))

    def start(self, rounds, missed=0, timeout_s=2, scenario="rounds", **settings):
        clock = harness.client("libjumping_clock.so")
        self.ranks = []
        for rank in (0, 1):
            env = self.place.env(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2, GUEST_ROUNDS=rounds,
                                 GUEST_MISSES_ROUND=missed if rank == 1 else 0, JUMPING_CLOCK=self.shifts,
                                 TITANTRACE_TIMEOUT_S=timeout_s, LD_PRELOAD=f"{clock} {harness.tracer()}", **settings)
            self.ranks.append(self.place.start([guest.program("clocks"), scenario], env))

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
        self.place.go(f"half{round}")
        self.ranks[1].wait_says(f"round {round} missed")
        self.hang_is_seen(older_dumps)

    def hang_is_seen(self, older_dumps=0):
        harness.wait_for(lambda: len(self.place.dump_files()) == older_dumps + 2, 20, "a dump of each rank")
        found = self.place.analyze(self.place.dumps)
        self.assertEqual(found.status, harness.FINDINGS, found.stdout + found.stderr)
        verdict = found.json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"], verdict["confidence"]),
                         ("rank_not_arrived", [1], "certain"))
        waited_s = float(re.search(r"rank 0 waits for ([0-9.]+) s", verdict["summary"])[1])
        self.assertTrue(2 <= waited_s < 60, verdict["summary"])

    def ask_all(self, dumps):
        asked = self.place.tool("titan-dump", "--job", "e2e", "--ring-dir", self.place.rings)
        self.assertEqual(asked.status, 0, asked.report())
        self.assertEqual(len(self.place.dump_files()), dumps)


class Clocks(Ranks):
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
        self.start(rounds=3, scenario="marked")
        self.place.go("half1")
        self.round(1)
        self.place.go("round2")
        for rank in self.ranks:
            rank.wait_says("in round 2")
        time.sleep(0.3)  # rank 0 waits in its call for rank 1
        for rank in self.ranks:
            rank.signal(signal.SIGSTOP)
        time.sleep(5)
        self.jump(running_s=running_s)
        for rank in self.ranks:
            rank.signal(signal.SIGCONT)
        time.sleep(0.5)
        for name in ("half2", "half3"):
            self.place.go(name)
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


class Marked(Ranks):
    """Spans and calls that the test stretches, and that clocks jump in: each lasts as long as it did."""

    def stretch(self, number, day_s, after_s=0.1):
        """A round in whose middle the clock jumps; notes between which times its span may last."""
        self.place.go(f"round{number}")
        began = time.monotonic()
        for rank in self.ranks:
            rank.wait_says(f"in round {number}")
        inside = time.monotonic()
        time.sleep(0.15)
        self.jump(day_s)
        time.sleep(after_s)
        waited_s = time.monotonic() - inside
        self.place.go(f"half{number}")
        for rank in self.ranks:
            rank.wait_says(f"\nround {number}\n")
        self.lasted[number] = (waited_s, time.monotonic() - began)

    def assert_summed_as_long(self, *where):
        done = self.place.tool("titan-analyze", "summary", *where, "--json")
        spans, = [row for row in map(json.loads, done.stdout.splitlines())
                  if (row["kind"], row["name"]) == ("span", "round")]
        self.assertEqual(spans["count"], 2 * len(self.lasted))
        least_s, most_s = (chosen(limits) for chosen, limits in zip((min, max), zip(*self.lasted.values())))
        self.assertLessEqual(least_s - CLOCKS_DIFFER_S, spans["min_ns"] / 1e9)
        self.assertLessEqual(spans["max_ns"] / 1e9, most_s + CLOCKS_DIFFER_S)

    def assert_as_long(self, rounds, *where):
        rows = self.place.show(*where, "--markers")
        begun = {(row["rank"], row["span"]): row for row in rows if row["marker"] == "span_begin"}
        ended = [row for row in rows if row["marker"] == "span_end"]
        self.assertEqual({(row["rank"], row["step"]) for row in ended},
                         {(rank, number) for rank in (0, 1) for number in rounds})
        for row in ended:
            least_s, most_s = self.lasted[row["step"]]
            began_ns = begun[row["rank"], row["span"]]["realtime_ns"]
            took_s = (row["realtime_ns"] - began_ns) / 1e9
            self.assertTrue(least_s - CLOCKS_DIFFER_S <= took_s <= most_s + CLOCKS_DIFFER_S,
                            (row, took_s, least_s, most_s))

    def setUp(self):
        super().setUp()
        self.lasted = {}

    def test_spans_calls_and_dumps(self):
        """An hour ahead, a day back: dumps of before and after, with spans and calls as long as they were."""
        self.start(rounds=4, missed=4, scenario="marked")
        self.stretch(1, 0)
        self.ask_all(2)
        self.stretch(2, HOUR_S)
        self.ask_all(4)
        self.stretch(3, HOUR_S - DAY_S)
        self.hang_is_found(4, older_dumps=4)
        for rank in (0, 1):
            files = [file for file in self.place.dump_files() if file.name.startswith(f"rank{rank:05}.")]
            self.assertEqual([file.name.split(".")[1] for file in files], ["0", "1", "2"])
        for number in (1, 2, 3):
            files = [file for file in self.place.dump_files() if file.name.endswith(f".{number - 1}.titan")]
            self.assert_as_long(range(1, number + 1), *files, "--no-rings")
        self.assert_summed_as_long(*self.place.dump_files()[2::3], "--no-rings")

    def test_spans_in_a_journal(self):
        """Each block of a journal has read the clocks for itself."""
        self.start(rounds=3, scenario="marked", TITANTRACE_JOURNAL_MIB=32, TITANTRACE_JOURNAL_S=0.1, timeout_s=60)
        for number, day_s in ((1, HOUR_S), (2, HOUR_S - DAY_S), (3, 0)):
            self.stretch(number, day_s, after_s=1.2)  # an anchor of the clocks is written each second
        self.ends(dumps=0)
        self.assert_as_long([1, 2, 3], self.place.dumps, "--no-rings")
        self.assert_summed_as_long(self.place.dumps, "--no-rings")

    def test_no_hang_in_calls(self):
        """A call that another rank is late for, but not for as long as the timeout."""
        self.start(rounds=2, scenario="marked", timeout_s=60)
        self.stretch(1, HOUR_S)
        self.stretch(2, HOUR_S - DAY_S)
        self.ends(dumps=0)

    def test_while_a_hang_is_waited_for(self):
        self.start(rounds=2, missed=2, scenario="marked")
        self.stretch(1, 0)
        self.place.go("round2")
        self.place.go("half2")
        self.ranks[1].wait_says("round 2 missed")
        for day_s in (HOUR_S, HOUR_S - DAY_S):
            time.sleep(0.7)
            self.jump(day_s)
        self.hang_is_seen()

    def test_while_dumps_are_written(self):
        self.start(rounds=2, missed=2, scenario="marked")
        self.stretch(1, 0)
        over = threading.Event()

        def jump_about():
            while not over.is_set():
                for day_s in (HOUR_S, -DAY_S, 0):
                    self.jump(day_s)
                    time.sleep(0.0007)

        jumps = threading.Thread(target=jump_about)
        jumps.start()
        try:
            self.hang_is_found(2)
            self.ask_all(4)
        finally:
            over.set()
            jumps.join()
        self.assert_as_long([1], *self.place.dump_files()[1::2], "--no-rings")


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
    harness.main(at_once=3)
