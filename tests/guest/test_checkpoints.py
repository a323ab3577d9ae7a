#!/usr/bin/env python3
"""Programs that go on from a copy of themselves."""
import guest
import harness

class Checkpoints(guest.Case):
    def test_copy_of_a_killed_process(self):
        self.both([guest.program("checkpoints"), "copy"], dumps=0, TITANTRACE_TIMEOUT_S=5)

    def test_program_that_runs_itself_again(self):
        self.both([guest.program("checkpoints"), "exec"], dumps=0, TITANTRACE_TIMEOUT_S=5)


if __name__ == "__main__":
    harness.main()
