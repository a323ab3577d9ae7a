#!/usr/bin/env python3
"""A rank that becomes another program by exec has not died."""
import signal
import time

import guest
import harness

# The leader of the node looks each second at who is gone; where it is gone itself another one leads after 3 s.
LOOK_S = 5
# What was replaced without a word is known by its silence.
SILENCE_S = 6


class Replaced(guest.Case):
    def ranks(self, scenario, preload=True, **settings):
        self.place = self.new_place()
        return [self.place.start([guest.program("replaced"), scenario],
                                 self.place.env(preload=preload, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank,
                                                LOCAL_WORLD_SIZE=2, **settings))
                for rank in range(2)]

    def job(self, way, preload, lives_s):
        first, second = self.ranks("rank", preload, BY=way)
        second.wait_says("ready")
        if preload:
            time.sleep(lives_s)
        self.place.go("end")
        first.wait()
        if preload:
            time.sleep(LOOK_S)
        self.place.go()
        second.wait()
        return [(ran.status, ran.stdout) for ran in (first, second)]

    def expect_no_death(self, way, lives_s=0.0):
        plain = self.job(way, False, 0)
        self.assertEqual([status for status, _ in plain], [0, 0])
        self.assertNotEqual(plain[0][1], "")
        self.assertEqual(self.job(way, True, lives_s), plain)
        self.assertEqual(self.place.dump_files(), [])
        self.assertEqual(self.place.ring_files(), [])

    def test_itself(self):
        self.expect_no_death("itself")

    def test_without_libc(self):
        self.expect_no_death("syscall", SILENCE_S)

    def test_while_it_lives_as_another_program(self):
        first, second = self.ranks("rank", BY="execv")
        second.wait_says("ready")
        listed = harness.wait_for(lambda: self.listed(first), 20, "the ring tells that the rank has left")
        self.assertNotIn("running", listed)
        self.place.go("end")
        self.place.go()

    def listed(self, ran):
        listed = self.place.tool("titan-analyze", "rings", "--ring-dir", self.place.rings)
        return next((line for line in listed.stdout.splitlines() if line.split()[:2] == [str(ran.pid), "exited"]), "")

    def test_an_exec_that_fails(self):
        """Then the rank records on, and its death is one."""
        first, second = self.ranks("stays")
        for ran in (first, second):
            ran.wait_says("ready")
        self.assertEqual(len(self.place.show(self.place.rings, "--op", "all_reduce", "--rank", "0")), 2)
        self.assertEqual(self.listed(first), "")
        first.signal(signal.SIGKILL)
        harness.wait_for(lambda: len(self.place.dump_files()) == 2, 20, "the death is noticed")
        self.place.go()
        self.assertEqual(second.wait(), 0)
        self.assertIn("died", second.stderr)


for name in ("execv", "execvp", "execve", "execvpe", "fexecve", "execveat", "execl", "execlp", "execle"):
    setattr(Replaced, f"test_{name}", lambda self, way=name: self.expect_no_death(way))


if __name__ == "__main__":
    harness.main(at_once=6)
