#!/usr/bin/env python3
"""The tracer's threads take nothing over from the thread that happens to call NCCL first."""
import os
import re
import unittest

import guest
import harness


class OwnThreads(guest.Case):
    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "needs two processors")
    def test_policy_and_processors(self):
        ran = self.host([guest.program("real_time"), "policies"], True, 1)
        if "not allowed" in ran.stdout:
            self.skipTest("real-time policies are not allowed here")
        self.assertEqual(ran.status, 0, ran.stderr)
        threads = {name: (int(policy), int(processors)) for policy, processors, name
                   in re.findall(r"policy (\d+), processors (\d+): (.*)", ran.stderr)}
        self.assertEqual(threads["guest-real_time"], (os.SCHED_FIFO, 1))
        ours = {name: had for name, had in threads.items() if name.startswith("titan-")}
        self.assertIn("titan-watch", ours)
        self.assertEqual(set(ours.values()), {(os.SCHED_OTHER, len(os.sched_getaffinity(0)))}, ours)


if __name__ == "__main__":
    harness.main()
