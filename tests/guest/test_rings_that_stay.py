#!/usr/bin/env python3
"""Rings of processes that ended: which ones stay as evidence, and that what goes is said."""
import signal

import guest
import harness


class RestartLoop(guest.Case):
    ATTEMPTS = 20

    def test_the_first_death_and_the_newest_attempts_are_still_there(self):
        """The first attempt is killed, the others fail; the rings of some five attempts are allowed."""
        for attempt in range(self.ATTEMPTS):
            ran = self.place.run([guest.program("ends"), "in_failure" if attempt else "killed"],
                                 self.place.env(**guest.IDENTITY, TORCHELASTIC_RESTART_COUNT=attempt,
                                                TITANTRACE_RINGS_MIB=40, TITANTRACE_DUMP_ON="none"))
            self.assertEqual(ran.status, 1 if attempt else -signal.SIGKILL)
        listed = self.place.run([harness.BUILD / "analyzer" / "titan-analyze", "rings", "--ring-dir", self.place.rings],
                                self.place.env(preload=False)).stdout
        attempts = sorted(int(line.split("e2e/")[1].split()[0]) for line in listed.splitlines()[1:])
        self.assertEqual((attempts[0], attempts[-1]), (0, self.ATTEMPTS - 1), listed)
        self.assertIn(len(attempts), range(4, 10), listed)
        self.assertEqual(attempts[1:], list(range(attempts[1], self.ATTEMPTS)), "the newest of the others")
        self.assertIn("removed 1 ring of processes that ended", ran.stderr)
        verdict = self.place.analyze(self.place.rings, "--attempt", "0").json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_dead", [0]))


if __name__ == "__main__":
    harness.main()
