#!/usr/bin/env python3
"""TITANTRACE_CUDA=cupti: callbacks name the kernel that is in the way, also where no wrapper stands in front of the
runtime; a profiler comes first, and then the calls are interposed as usual, which is said once."""

import harness


class Cupti(harness.Case):
    def run_it(self, **settings):
        run = self.place.sim("--ranks", "2", "--steps", "3", TITANTRACE_CUDA="cupti", TITANTRACE_DUMP_ON="exit",
                             **settings)
        self.assertGreater(len(self.place.show(self.place.dumps)), 5)
        return run

    def test_a_profiler_comes_first(self):
        said = self.run_it(CUDA_INJECTION64_PATH="/a/profiler.so").stderr
        self.assertEqual(said.count("a profiler is injected"), 2, said)
        self.assertIn("interposed instead", said)

    def blocked(self, program, **settings):
        """The summary of a job in which a kernel never ends."""
        place = self.new_place()
        job = place.start([harness.stand_ins() / program, "--ranks", "2", "--steps", "100000", "--step-ms", "1",
                           "--checkpoint-every", "0"],
                          place.env(SIMGPU_FAULTS="hang-kernel comm=dp step=5", TITANTRACE_TIMEOUT_S=2 * harness.SLOW,
                                    **settings))
        harness.wait_for(lambda: len(place.dump_files()) >= 2, 30, "2 dumps")
        analysis = place.analyze(place.dumps)
        job.end()
        self.assertNotIn("interposed instead", job.stderr)
        self.assertEqual(analysis.json["verdict"]["kind"], "gpu_queue_blocked")
        return analysis.json["verdict"]["summary"]

    def test_callbacks_name_the_kernel(self):
        if not list(harness.stand_ins().glob("libcupti.so*")):
            self.skipTest("the toolkit has no CUPTI headers, so that there is no stand-in CUPTI")
        for program in ("titan-sim", "titan-sim-static-cudart"):
            self.assertIn("simgpu_hang_kernel", self.blocked(program, TITANTRACE_CUDA="cupti"), program)
        self.assertNotIn("simgpu_hang_kernel",
                         self.blocked("titan-sim", TITANTRACE_CUDA="off"))  # it was not the wrappers

    def test_no_profiler_is_mentioned_where_there_is_none(self):
        self.assertNotIn("a profiler is injected", self.run_it().stderr)


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
