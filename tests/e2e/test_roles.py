#!/usr/bin/env python3
"""A trainer and generators are one job, and number their ranks alike: neither hides the other."""

import sys

import harness

TRAIN = harness.ROOT / "tests" / "simgpu" / "train.py"


class Roles(harness.Case):
    def start(self, role, ranks, faults=""):
        return [self.place.start([sys.executable, TRAIN, "--steps", "100000", "--step-ms", "10", "--role", role],
                                 self.place.env(RANK=rank, WORLD_SIZE=ranks, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks,
                                                SIMTRAIN_STORE=self.place.path / role, SIMGPU_DIR=harness.stand_ins(),
                                                SIMGPU_FAULTS=faults, TITANTRACE_TIMEOUT_S=2 * harness.SLOW))
                for rank in range(ranks)]

    def assert_trainer_hangs(self, analysis):
        self.assertEqual(analysis.status, harness.FINDINGS, analysis.stdout + analysis.stderr)
        verdict = analysis.json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"], analysis.json["run"]["world_size"]),
                         ("rank_not_arrived", [2], 4), analysis.stdout)

    def test_the_one_that_hangs_is_read_and_the_other_can_be(self):
        generators = self.start("generator", 2)
        harness.wait_for(lambda: len(self.place.ring_files()) == 2, 30, "generators record")
        self.start("trainer", 4, "spin rank=2 step=20")
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 4, 60, "the trainer dumps")
        self.place.run([harness.BUILD / "tools" / "titan-dump", generators[1].pid, "--ring-dir", self.place.rings],
                       self.place.env(preload=False))
        for source in (self.place.dumps, self.place.rings):
            with self.subTest(source=source.name):
                trainer = self.place.analyze(source)
                self.assert_trainer_hangs(trainer)
                told, = [warning for warning in trainer.json["warnings"] if warning["kind"] == "other_role"]
                self.assertIn("this is trainer; --role reads generator (2 ranks)", told["summary"])
                self.assert_trainer_hangs(self.place.analyze(source, "--role", "trainer"))
                generator = self.place.analyze(source, "--role", "generator")
                self.assertEqual((generator.status, generator.json["run"]["world_size"]), (harness.HEALTHY, 2),
                                 generator.stdout)
        nobody = self.place.analyze(self.place.dumps, "--role", "critic")
        self.assertEqual(nobody.status, harness.UNUSABLE)
        self.assertIn("no role critic; found: generator (2 ranks), trainer (4 ranks)", nobody.stderr)


if __name__ == "__main__":
    harness.main()
