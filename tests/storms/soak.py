#!/usr/bin/env python3
"""A job of days in minutes: a million steps, a hundred thousand communicators and names of ranges, ten thousand graphs
that are captured, launched once and destroyed. The recorder takes no more memory at its end than after a tenth of it,
and loses nothing."""

import signal
import struct
import time

import storm
import harness

LOSSES_OFFSET, LOSSES, STRINGS_DROPPED = 616, 32, 3  # of the ring's header: formats/FORMAT.md
# Of a hundred thousand names: old ones make room once a second, by a thread that other programs may keep from running.
MOST_NAMES_DROPPED = 100
MORE_KIB = 2048


class Soak(harness.Case):
    def soak(self, **settings):
        """Resident memory early and late, and the running job."""
        job = self.place.start([storm.program("soak"), "soak"],
                               self.place.env(RANK=0, WORLD_SIZE=1, LOCAL_RANK=0, SOAK_STEPS=storm.ROUNDS, **settings))
        deadline = time.monotonic() + 3000
        while "late" not in job.stdout and job.status is None and time.monotonic() < deadline:
            time.sleep(0.5)
        self.assertIn("late", job.stdout, job.stderr)
        return [int(line.split()[1]) for line in job.stdout.splitlines()[:2]], job

    def test_memory_is_constant_and_nothing_is_lost(self):
        started = time.monotonic()
        plain, job = self.soak(preload=False)
        bare_s = time.monotonic() - started
        self.place.go()
        self.assertEqual(job.wait(), 0)
        (self.place.meet / "go").unlink()
        started = time.monotonic()
        traced, job = self.soak()
        traced_s = time.monotonic() - started
        ring, = self.place.ring_files()
        losses = struct.unpack_from(f"<{LOSSES}Q", ring.read_bytes(), LOSSES_OFFSET)
        print(f"counted: {storm.ROUNDS} steps, seed {storm.SEED}: {bare_s:.0f} s without the recorder, {traced_s:.0f} "
              f"s with it; resident memory grew from "
              f"{plain[0]} to {plain[1]} KiB without, from {traced[0]} to {traced[1]} KiB with it; {sum(losses)} lost")
        job.signal(signal.SIGUSR1)
        harness.wait_for(self.place.dump_files, 20, "a dump")
        self.place.go()
        self.assertEqual(job.wait(), 0)
        self.assertLessEqual(losses[STRINGS_DROPPED], MOST_NAMES_DROPPED)
        self.assertEqual(sum(losses), losses[STRINGS_DROPPED], losses)
        self.assertLess(traced[1] - traced[0], max(0, plain[1] - plain[0]) + MORE_KIB)
        newest = self.place.show(*self.place.dump_files(), "--op", "all_reduce", "--last", 1)
        self.assertEqual(newest[0]["step"], storm.ROUNDS - 1)


if __name__ == "__main__":
    storm.main()
