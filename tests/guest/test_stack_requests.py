#!/usr/bin/env python3
"""A dump asks threads for their stacks; no wait of the program ends early because of that."""
import guest
import harness


class Waits(guest.Case):
    def test_semaphore(self):
        self.both([guest.program("waits"), "semaphore"], dumps=1)


if __name__ == "__main__":
    harness.main()
