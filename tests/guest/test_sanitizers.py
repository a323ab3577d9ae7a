#!/usr/bin/env python3
"""Programs built with sanitizers: what these say and do is the same beside us."""
import re

import guest
import harness

class Sanitizers(guest.Case):
    """A dump is asked for before each program makes its error."""

    def same_report(self, sanitizer, scenario, dumps=1, **settings):
        program = guest.program(f"sanitized-{sanitizer}")
        if not program.exists():
            self.skipTest(f"the compiler has no -fsanitize={sanitizer}, or the tree is built with a sanitizer itself")
        plain = self.host([program, scenario], False, 1, **settings)
        traced = self.host([program, scenario], True, 1, TITANTRACE_TIMEOUT_S=20, **settings)
        self.assertNotEqual(plain.stdout, "")
        self.assertEqual((traced.status, traced.stdout, self.summary(traced)),
                         (plain.status, plain.stdout, self.summary(plain)), traced.stderr)
        self.assertEqual(len(self.place.dump_files()), dumps, traced.stderr)

    def summary(self, ran):
        """Which error, in which function."""
        return re.findall(r"^SUMMARY: .*", ran.stderr, re.M)

    def test_address(self):
        for scenario in "sound", "leak", "use_after_free", "null":
            with self.subTest(scenario):
                self.same_report("address", scenario)

    def test_address_with_options_of_the_user(self):
        self.same_report("address", "null", ASAN_OPTIONS="exitcode=45")

    def test_address_abort(self):
        self.same_report("address", "abort", dumps=2)  # a crash has a dump of its own

    def test_thread(self):
        for scenario in "sound", "race", "null":
            with self.subTest(scenario):
                self.same_report("thread", scenario)

    def test_undefined(self):
        for scenario in "sound", "overflow":
            with self.subTest(scenario):
                self.same_report("undefined", scenario)


if __name__ == "__main__":
    harness.main()
