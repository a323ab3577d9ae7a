#!/usr/bin/env python3
"""Limits that a program sets for itself are as it set them, also while it is dumped."""
import guest
import harness


class Limits(guest.Case):
    def test_open_files(self):
        ran = self.both([guest.program("limits"), "files"], dumps=20, TITANTRACE_KEEP=50)
        self.assertIn("0 times a raise was undone, 0 times", ran.traced.stdout)

    def test_lowest_number(self):
        self.both([guest.program("limits"), "lowest_number"], dumps=3, TITANTRACE_KEEP=9)


if __name__ == "__main__":
    harness.main()
