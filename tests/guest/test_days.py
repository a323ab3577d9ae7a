#!/usr/bin/env python3
"""A program that marks all that it does for a day, by a clock that runs fast: after the first hour nothing of the
recorder grows, and the last one can be read."""
import collections
import json
import re

import guest
import harness

HOUR_S = 3600
MIB = 1 << 20
JOURNAL_MIB = 32
JOURNAL_FILES = 8
MORE_KIB = 1024  # of resident memory: pages that the program touches for the first time

Hour = collections.namedtuple("Hour", "number steps resident_kib addresses_kib descriptors threads files bytes")


class Days(guest.Case):
    def live(self, hours, numbers, hours_per_s, limit_s):
        clock = harness.BUILD / "tests" / "guest" / "libfast_clock.so"
        ran = self.host([guest.program("days"), "live"], True, 0, limit_s, GUEST_HOURS=hours, GUEST_NUMBERS=numbers,
                        FAST_CLOCK=hours_per_s * HOUR_S, LD_PRELOAD=f"{clock} {harness.tracer()}",
                        TITANTRACE_JOURNAL_MIB=JOURNAL_MIB, TITANTRACE_DUMP_ON="none", TITANTRACE_MARKERS=65536)
        self.assertEqual(ran.status, 0, ran.stderr)
        said = [line for line in ran.stderr.splitlines() if line.startswith("titantrace:")]
        self.assertEqual([line for line in said if "markers are kept in" not in line], [])
        said = [Hour(*map(int, re.findall(r"\d+", line))) for line in ran.stdout.splitlines() if "hour " in line]
        self.assertEqual([hour.number for hour in said], list(range(1, hours + 1)), ran.stdout)
        return said

    def assert_no_growth(self, hours):
        first = hours[0]
        for hour in hours[1:]:
            self.assertLessEqual(hour.threads, first.threads, hours)
            self.assertLessEqual(hour.descriptors, first.descriptors + 1, hours)  # which is open for a moment
            self.assertLessEqual(hour.addresses_kib, first.addresses_kib, hours)
            self.assertLessEqual(hour.resident_kib, first.resident_kib + MORE_KIB, hours)
            self.assertTrue(1 <= hour.files <= JOURNAL_FILES, hours)
            self.assertLessEqual(hour.bytes, JOURNAL_MIB * MIB, hours)

    def assert_last_hour_is_read(self, hours, numbers):
        """Every step of it, with all its numbers."""
        done = self.place.run([harness.BUILD / "analyzer" / "titan-analyze", "metrics", self.place.dumps, "--no-rings",
                               "--json"], self.place.env(preload=False), 60)
        self.assertEqual(done.status, 0, done.stderr)
        values = {row["step"]: row["values"] for row in map(json.loads, done.stdout.splitlines())}
        last = range(hours[-2].steps + 1, hours[-1].steps + 1)
        self.assertEqual({step: values.get(step) for step in last}, dict.fromkeys(last, numbers))

    def test_hours(self):
        hours = self.live(hours=3, numbers=20, hours_per_s=2, limit_s=30)
        self.assert_no_growth(hours)
        self.assert_last_hour_is_read(hours, 20)

    @harness.at_night
    def test_day(self):
        """More than the journal may keep."""
        hours = self.live(hours=24, numbers=400, hours_per_s=1, limit_s=120)
        self.assert_no_growth(hours)
        self.assertGreater(hours[-1].bytes, JOURNAL_MIB * MIB * 3 // 4)
        self.assert_last_hour_is_read(hours, 400)


if __name__ == "__main__":
    harness.main()
