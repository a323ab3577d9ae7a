#!/usr/bin/env python3
"""A program that forks, executes, spawns, loads, unloads and gets signals on many threads while it is recorded and
dumped: it ends as it does without the preload, with no child lost and no deadlock.

    storm_forks.py --build DIR --rounds 1000 [--seed N]     rounds in all, spread over several processes
"""

import random

import storm
from storm import harness

ROUNDS_OF_A_PROCESS = 100  # of each of its three threads
LIMIT_S = 240


class Forks(harness.Case):
    def test_the_same_end(self):
        chance = random.Random(storm.SEED)
        done = 0
        while done < storm.ROUNDS:
            rounds = min(ROUNDS_OF_A_PROCESS, storm.ROUNDS - done)
            settings = dict(STORM_ROUNDS=rounds, STORM_SEED=chance.randrange(1 << 30), RANK=0, WORLD_SIZE=1,
                            LOCAL_RANK=0,
                            LOCAL_WORLD_SIZE=1, TITANTRACE_STACKS=chance.choice(("dump", "off", "collective")))
            argv = [storm.program("storm"), storm.program("libstorm_library.so")]
            plain = self.place.run(argv, self.place.env(preload=False, **settings), LIMIT_S)
            traced = self.place.run(argv, self.place.env(**settings), LIMIT_S)
            self.assertIn(" 0 not as they should be", plain.stdout)
            self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout), settings)
            self.assertEqual(plain.status, 42)
            dumps = self.place.dump_files()
            self.assertTrue(dumps, settings)
            warnings = [warning["kind"] for warning in self.place.analyze(self.place.dumps).json["warnings"]]
            self.assertNotIn("damaged_file", warnings, settings)
            done += rounds
            self.place = self.new_place()
        print(f"counted: {done} rounds on each of 3 threads, seed {storm.SEED}: every child and status as without the "
              f"preload")


if __name__ == "__main__":
    storm.main()
