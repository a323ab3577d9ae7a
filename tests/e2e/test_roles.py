#!/usr/bin/env python3
"""A trainer and generators are one job, and number their ranks alike: neither hides the other."""

import sys

import harness

TRAIN = harness.ROOT / "tests" / "simgpu" / "train.py"
# The GPUs of a healthy world are threads: on a busy machine one may be late, which a ring does not explain.
NOTHING_OR_LATE = "(nothing wrong there$|straggler|slow_step|waiting: .* for \\d+ ms; reported)"


class Roles(harness.Case):
    def start(self, role, ranks, faults="", says_it=True):
        return [self.place.start([sys.executable, TRAIN, "--steps", "100000", "--step-ms", "10",
                                  *(["--role", role] if says_it else [])],
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
        self.place.tool("titan-dump", generators[1].pid, "--ring-dir", self.place.rings)
        for source in (self.place.dumps, self.place.rings):
            with self.subTest(source=source.name):
                trainer = self.place.analyze(source)
                self.assert_trainer_hangs(trainer)
                told, judged = [warning["summary"] for warning in trainer.json["warnings"]
                                if warning["kind"] == "other_role"]
                self.assertIn("6 processes say that they are ranks 0-3", told)
                self.assertIn("this is trainer; --role reads generator (2 ranks)", told)
                self.assertRegex(judged, f"^generator: {NOTHING_OR_LATE}")
                self.assert_trainer_hangs(self.place.analyze(source, "--role", "trainer"))
                generator = self.place.analyze(source, "--role", "generator")
                found = {finding["kind"] for finding in generator.json["findings"]} - {"straggler", "slow_step"}
                self.assertEqual((found, generator.json["run"]["world_size"]), (set(), 2), generator.stdout)
                of_dumps = ("stragglers", "layout", "show --labels", "summary --goodput")
                for command in ("summary", *(of_dumps if source == self.place.dumps else ())):
                    ask = [*command.split(), source, "--no-rings"]
                    self.assertIn("2 roles have ranks of the same numbers: this is ",
                                  self.place.tool("titan-analyze", *ask).stderr, command)
                    self.assertNotIn("2 roles", self.place.tool("titan-analyze", *ask, "--role", "trainer").stderr)
                made = self.place.run([sys.executable, "-m", "titantrace.export", "--titan-analyze",
                                       harness.BUILD / "analyzer" / "titan-analyze", "--jsonl",
                                       self.place.path / f"of-{source.name}", source],
                                      self.place.env(preload=False, PYTHONPATH=harness.ROOT / "python"))
                self.assertEqual((made.status, made.stderr.count("2 roles have ranks")), (0, 1), made.stderr)
        nobody = self.place.analyze(self.place.dumps, "--role", "critic")
        self.assertEqual(nobody.status, harness.UNUSABLE)
        self.assertIn("no role critic; found: generator (2 ranks), trainer (4 ranks)", nobody.stderr)

    def test_worlds_that_do_not_say_what_they_are_are_told_apart_and_judged(self):
        quiet = self.start("quiet", 2, says_it=False)
        harness.wait_for(lambda: len(self.place.ring_files()) == 2, 30, "the first world records")
        stuck = self.start("stuck", 2, "spin rank=1 step=20", says_it=False)
        harness.wait_for(lambda: len(self.place.dump_files()) >= 2, 60, "the second world dumps")
        self.place.tool("titan-dump", quiet[1].pid, "--ring-dir", self.place.rings)
        harness.wait_for(lambda: len(self.place.dump_files()) >= 3, 60, "the first world dumps")
        for source in (self.place.dumps, self.place.rings):
            with self.subTest(source=source.name):
                analysis = self.place.analyze(source)
                verdict = analysis.json["verdict"]
                self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_not_arrived", [1]), analysis.stdout)
                told, judged = [warning["summary"] for warning in analysis.json["warnings"]
                                if warning["kind"] == "other_role"]
                self.assertIn("4 processes say that they are ranks 0-1: 2 worlds have ranks of the same numbers: this "
                              f"is world-2 of pids {stuck[0].pid}, {stuck[1].pid}; --role reads world-1 of pids "
                              f"{quiet[0].pid}, {quiet[1].pid} (2 ranks)", told)
                self.assertRegex(judged, f"^world-1 of pids {quiet[0].pid}, {quiet[1].pid}: {NOTHING_OR_LATE}")
                self.assert_healthy(self.place.analyze(source, "--role", "world-1"))


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
