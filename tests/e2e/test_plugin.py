#!/usr/bin/env python3
"""NCCL's profiler plugin interface: a statically linked NCCL is seen and diagnosed, one call is recorded once, and
channels tell a kernel that started and hangs from one that never got its turn."""

import concurrent.futures

import harness

VERSIONS = range(1, 7)
FROM_PLUGIN = 64
SKIP = "skip rank=1 comm=dp step=5"
VARIABLE = "NCCL_PROFILER_PLUGIN"


class Plugin(harness.Case):
    def hang(self, place, program, faults, **settings):
        """Two ranks until both have left a dump; then the job is ended."""
        settings = {"TITANTRACE_TIMEOUT_S": 2 * harness.SLOW, **settings}
        job = place.start([harness.stand_ins() / program, "--ranks", "2", "--steps", "100000", "--step-ms", "1",
                           "--checkpoint-every", "0"], place.env(SIMGPU_FAULTS=faults, **settings))
        harness.wait_for(lambda: len(place.dump_files()) >= 2, 30, "2 dumps")
        job.end()
        return job

    def short(self, place, program, steps=5, **settings):
        """A healthy job; its calls as the recorder saw them at the end."""
        done = place.run([harness.stand_ins() / program, "--ranks", "2", "--steps", str(steps), "--step-ms", "1",
                          "--checkpoint-every", "0"], place.env(TITANTRACE_DUMP_ON="exit", **settings))
        self.assertEqual(done.status, 0)
        return place.show(place.dumps)

    def check_skip(self, place, version=6):
        analysis = place.analyze(place.dumps)
        self.assertEqual(analysis.status, harness.FINDINGS, analysis.stderr)
        verdict, head = analysis.json["verdict"], analysis.json["findings"][0]
        self.assertEqual((verdict["kind"], verdict["ranks"], head["seq"], head["op"]),
                         ("op_mismatch", [1], 10, "reduce_scatter"), f"version {version}: {verdict['summary']}")
        self.assertEqual(head["communicator"]["name"], "dp")

    def test_static_nccl_of_every_version(self):
        places = {version: self.new_place() for version in VERSIONS}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda version: self.hang(places[version], "titan-sim-static-nccl", SKIP,
                                                    SIMGPU_PROFILER_MAX_VERSION=version), VERSIONS))
        for version, place in places.items():
            self.check_skip(place, version)
            calls = place.show(place.dumps)
            self.assertTrue(all(call["flags"] & FROM_PLUGIN for call in calls), version)
            self.assertEqual({call["reduction"] for call in calls}, {"none"}, version)  # not told, never guessed

    def test_static_nccl_gives_the_calls_that_wrappers_see(self):
        story = lambda calls: sorted((call["rank"], call["communicator_name"], call["seq"], call["op"], call["count"])
                                     for call in calls if call["seq"] is not None and call["op"] != "comm_init"
                                     and not call["op"].startswith("comm_"))
        wrapped = story(self.short(self.place, "titan-sim"))
        unseen = story(self.short(self.new_place(), "titan-sim-static-nccl"))
        self.assertGreater(len(wrapped), 20)
        named = lambda rows: [row for row in rows if row[1] in ("dp", "tp")]
        self.assertEqual(named(unseen), named(wrapped))
        self.assertEqual(len(unseen), len(wrapped))

    def test_loaded_by_its_path_without_the_preload(self):
        self.hang(self.place, "titan-sim", SKIP, LD_PRELOAD=None, NCCL_PROFILER_PLUGIN=harness.tracer())
        self.check_skip(self.place)

    def test_one_call_is_recorded_once(self):
        plain = self.short(self.new_place(), "titan-sim", TITANTRACE_NCCL_PLUGIN="off")
        self.assertEqual({call["channels"] for call in plain}, {0})
        for version in VERSIONS:
            calls = self.short(self.new_place(), "titan-sim", TITANTRACE_NCCL_PLUGIN="progress",
                               SIMGPU_PROFILER_MAX_VERSION=version)
            self.assertEqual(len(calls), len(plain), version)
            self.assertFalse(any(call["flags"] & FROM_PLUGIN for call in calls), version)
            launched = [call for call in calls if call["op"] == "all_reduce"]
            self.assertTrue(all(call["channels"] > 0 for call in launched), version)
            self.assertEqual({(call["algorithm"], call["protocol"]) for call in launched}, {("ring", "simple")},
                             version)
            if version >= 3:  # the first with kernel channels
                self.assertTrue(all(call["channels_finished"] == call["channels"] for call in launched), version)

    def test_auto_asks_nothing_of_an_nccl_that_wrappers_see(self):
        self.assertEqual({call["channels"] for call in self.short(self.place, "titan-sim")}, {0})

    def started(self, faults):
        """{rank: (channels, started, finished)} of the collective that hangs; nothing else watches the device."""
        place = self.new_place()
        self.hang(place, "titan-sim", faults, TITANTRACE_NCCL_PLUGIN="progress", TITANTRACE_GPU_PROGRESS="off")
        calls = place.show(place.dumps, "--op", "reduce_scatter")
        return {call["rank"]: (call["channels"], call["channels_started"], call["channels_finished"])
                for call in calls if call["seq"] == 10 and call["communicator_name"] == "dp"}

    def test_started_and_hung(self):
        self.assertEqual(self.started("stuck comm=dp step=5"), {0: (2, 2, 0), 1: (2, 2, 0)})

    def test_one_channel_hung(self):
        self.assertEqual(self.started("stuck-channel comm=dp step=5"), {0: (2, 2, 1), 1: (2, 2, 1)})

    def test_never_scheduled(self):
        self.assertEqual(self.started("hang-kernel comm=dp step=5"), {0: (2, 0, 0), 1: (2, 0, 0)})

    def variable_of_a_program(self, **settings):
        done = self.place.run(["env"], self.place.env(**settings))
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line).get(VARIABLE)

    def test_the_user_comes_first(self):
        self.assertEqual(self.variable_of_a_program(), "STATIC_PLUGIN")
        self.assertEqual(self.variable_of_a_program(NCCL_PROFILER_PLUGIN="mine"), "mine")
        self.assertIsNone(self.variable_of_a_program(TITANTRACE_NCCL_PLUGIN="off"))
        self.assertIsNone(self.variable_of_a_program(TITANTRACE="0"))
        self.assertIsNone(self.variable_of_a_program(LD_PRELOAD=None))

    def test_a_plugin_of_the_users_is_left_alone_and_named_once(self):
        quiet = self.place.run([harness.stand_ins() / "titan-sim", "--ranks", "1", "--steps", "2"], self.place.env())
        self.assertNotIn(VARIABLE, quiet.stderr)
        run = self.place.run([harness.stand_ins() / "titan-sim", "--ranks", "1", "--steps", "2"],
                             self.place.env(NCCL_PROFILER_PLUGIN="none"))
        self.assertEqual(run.status, 0)
        self.assertEqual(run.stderr.count(VARIABLE), 1, run.stderr)

    def test_off_leaves_a_static_nccl_unseen(self):
        place = self.new_place()
        done = place.run([harness.stand_ins() / "titan-sim-static-nccl", "--ranks", "2", "--steps", "3", "--step-ms",
                          "1"],
                         place.env(TITANTRACE_NCCL_PLUGIN="off", TITANTRACE_DUMP_ON="exit"))
        self.assertEqual(done.status, 0)
        calls = place.show(place.dumps) if place.dump_files() else []
        self.assertEqual([call for call in calls if call["flags"] & FROM_PLUGIN], [])


if __name__ == "__main__":
    harness.main(at_once=3, rings=harness.SMALL_RINGS)
