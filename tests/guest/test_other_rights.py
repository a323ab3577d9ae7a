#!/usr/bin/env python3
"""A rank that can no longer reach its ring ends well all the same, and the next start removes the ring."""
import os
import time

import guest
import harness

LOOK_S = 5  # the leader of the node looks each second at who is gone; a new one leads after 3 s


class OtherRights(guest.Case):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: ranks become another user, or take another root directory")

    def ends_well(self, scenario):
        start = lambda rank, words, preload: self.place.start([guest.program("other_rights"), words], self.place.env(
            preload=preload, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2))
        outcomes = []
        for preload in (False, True):
            self.place = self.new_place()
            changed, other = start(0, scenario, preload), start(1, "unchanged", preload)
            changed.wait()
            if preload:
                time.sleep(LOOK_S)
            self.place.go()
            other.wait()
            outcomes.append([(ran.status, ran.stdout) for ran in (changed, other)])
        self.assertEqual(outcomes[0], [(0, "worked\n")] * 2)
        self.assertEqual(outcomes[1], outcomes[0])
        self.assertEqual(self.place.dump_files(), [])

    def expect_rings_removed(self):
        following = self.place.run([guest.program("other_rights"), "unchanged"],
                                   self.place.env(**guest.IDENTITY, TITANTRACE_RUN_ID="next"))
        self.assertEqual((following.status, self.place.ring_files()), (0, []))

    def test_another_user(self):
        self.ends_well("user")
        self.expect_rings_removed()

    def test_another_root_directory(self):
        self.ends_well("root_directory")
        self.expect_rings_removed()

    def test_one_rank_alone(self):
        for scenario in ("user", "root_directory"):
            with self.subTest(scenario):
                self.both([guest.program("other_rights"), scenario])
                self.assertEqual(len(self.place.ring_files()), 1)
                self.place.go()
                self.expect_rings_removed()


if __name__ == "__main__":
    harness.main(at_once=3)
