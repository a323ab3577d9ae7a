#!/usr/bin/env python3
"""Exit handlers that still use CUDA and NCCL: some run after ours, and after the destructors of the main thread's
data."""
import guest
import harness


class ExitHandlers(guest.Case):
    def end(self, scenario):
        both = self.both([guest.program("exit_handlers"), scenario])
        self.assertEqual((both.plain.status, both.plain.stdout), (0, "ready\nhandled\n"))

    def test_communicator_of_the_main_program(self):
        self.end("with_a_communicator")

    def test_first_use_of_all(self):
        self.end("without_one")


if __name__ == "__main__":
    harness.main(at_once=2)
