#!/usr/bin/env python3
"""A program that may have no more memory (RLIMIT_AS, RLIMIT_DATA) has what it would have without us, and is dumped."""
import json
import re

import guest
import harness

RINGS = {"TITANTRACE_MARKERS": 1024, "TITANTRACE_COLLECTIVES": 256, "TITANTRACE_CUDA_CALLS": 256,
         "TITANTRACE_STREAM_WORK": 256}  # so that they go round
WRITTEN = 0


class Limits(guest.Case):
    def run_both(self, scenario):
        if harness.SLOW > 1:
            self.skipTest("a sanitizer takes memory of its own whenever it likes")
        argv = [guest.program("memory_limits"), scenario]
        settings = {"TITANTRACE_KEEP": 50, "TITANTRACE_DUMP_ON": "none", **RINGS}
        plain = self.host(argv, False, 0, **settings)
        self.assertEqual(plain.status, 0, plain.stdout)
        self.place = self.new_place()
        traced = self.place.start(argv, self.place.env(**guest.IDENTITY, **settings))
        traced.wait_says("ready", 30)
        self.assertEqual(len(self.place.show(self.place.rings)), RINGS["TITANTRACE_COLLECTIVES"])
        self.place.go()
        self.assertEqual((traced.wait(), traced.stdout), (plain.status, plain.stdout), traced.stderr)
        self.told = re.findall(r"dump (\w+): (-?\d+)", traced.stderr)
        self.assertEqual(self.told[-1], ("raised", str(WRITTEN)), traced.stderr)
        files = self.place.dump_files()
        self.assertEqual(len(files), sum(int(result) == WRITTEN for _, result in self.told))
        if len(files) < len(self.told):
            self.assertRegex(traced.stderr, "titantrace.*(no memory|could not be written)")
        for file in (files[1], files[-1]):
            shown = self.place.show(file, "--no-rings")
            self.assertEqual(len(shown), RINGS["TITANTRACE_COLLECTIVES"], file)
        return plain.stdout

    def of_limit(self, scenario):
        said = self.run_both(scenario)
        self.assertEqual(said.count("afterwards as many: 1, 1"), 6, said)
        # Without a rest there is none, and with one as much as that.
        self.assertIn("of 0 KiB: 0 blocks", said)
        self.assertIn("of 1024 KiB: 64 blocks, 3 of malloc", said)
        self.assertEqual(said.count("bad_alloc of more: 1"), 6, said)

    def taken(self, scenario):
        """What was first called under the limit has its place, too."""
        self.assertIn("0 times there was less", self.run_both(scenario))
        markers = self.place.show(self.place.dump_files()[-1], "--markers", "--no-rings")
        places = {marker["called_at"] for marker in markers if marker["marker"] == "event"}
        self.assertTrue(len(places) == 1 and "taken" in places.pop(), markers[-20:])

    def test_address_space(self):
        self.of_limit("addresses")

    def test_data(self):
        self.of_limit("data")

    def test_address_space_is_taken_meanwhile(self):
        self.taken("addresses_taken")

    @harness.at_night
    def test_data_is_taken_meanwhile(self):
        self.taken("data_taken")

    def test_address_space_that_another_thread_limits(self):
        self.run_both("addresses_meanwhile")

    @harness.at_night
    def test_data_that_another_thread_limits(self):
        self.run_both("data_meanwhile")

    def main_thread(self, file):
        done = self.place.tool("titan-analyze", "stacks", file, "--json", "--no-rings")
        process, = json.loads(done.stdout)["processes"]
        thread, = [thread for thread in process["threads"] if thread["tid"] == process["pid"]]
        return thread["outcome"], [frame["function"] for frame in thread["frames"]], " ".join(process["notes"])

    def test_stack_at_its_end(self):
        """The main thread is in the last bytes of its stack: a signal would end the program."""
        self.run_both("stack_at_its_end")
        _, limited, raised = self.place.dump_files()
        outcome, _, note = self.main_thread(limited)
        self.assertEqual(outcome, "not_asked")
        self.assertIn("RLIMIT_AS", note)
        outcome, functions, _ = self.main_thread(raised)
        self.assertEqual(outcome, "unwound")
        self.assertIn("work_at_the_end", " ".join(functions))


if __name__ == "__main__":
    harness.main()
