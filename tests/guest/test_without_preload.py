#!/usr/bin/env python3
"""What a program does not want preloaded is left alone, although the environment still has variables that we set."""
import pathlib

import guest
import harness


class WithoutPreload(guest.Case):
    def setUp(self):
        if not pathlib.Path(guest.program("nvtx")).exists():
            self.skipTest("built without NVTX's headers")

    def test_a_helper_that_uses_nvtx(self):
        ran = self.both([guest.program("nvtx"), "rank"])
        self.assertEqual(ran.traced.stdout, "no tool listens, 1 thread, SIGTERM as it was\n")
        self.assertEqual(self.place.ring_files(), [])


if __name__ == "__main__":
    harness.main()
