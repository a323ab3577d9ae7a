#!/usr/bin/env python3
"""A call that the program leaves by longjmp is over: no timeout is called for it, and what comes later is recorded."""
import guest
import harness


class Jumps(guest.Case):
    def left(self, scenario):
        both = self.both([guest.program("jumps"), scenario], TITANTRACE_TIMEOUT_S=1)
        self.assertIn("done", both.traced.stdout)

    def test_wait(self):
        self.left("wait")

    def test_creation(self):
        self.left("creation")


if __name__ == "__main__":
    harness.main(at_once=2)
