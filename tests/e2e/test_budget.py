#!/usr/bin/env python3
"""A job under the recorder's budget: what is observed, and what the tools say of it."""

import collections
import json

import harness

FULL_GPU_NS = 3500  # what a call with full marks takes (tracer/device/budget.h)
LOOKS_BACK = 40     # steps after which a plan has seen enough
PERCENT = 0.05     # so little that steps of a busy machine, too, are short


class Budget(harness.Case):
    def train(self, *options, **settings):
        """By rank its calls of each step that have marks."""
        self.place.sim("--ranks", "4", "--tp", "2", "--checkpoint-every", "0", *options, TITANTRACE_DUMP_ON="exit",
                       **settings)
        ranks = collections.defaultdict(lambda: collections.defaultdict(list))
        for call in self.place.show(self.place.dumps):
            if call["launch"]:
                ranks[call["rank"]][call["step"]].append(call)
        return ranks

    def said_by(self, command, *options):
        done = self.place.tool("titan-analyze", command, self.place.dumps, *options, "--ring-dir", self.place.rings)
        return done.stdout + done.stderr

    def test_short_steps(self):
        """Steps are observed whole, and each process keeps to its budget, which the tools name."""
        for rank, steps in self.train("--steps", "300", "--step-ms", "1",
                                      TITANTRACE_BUDGET=PERCENT).items():
            marks = {step: {call["marks"] for call in calls} for step, calls in steps.items()}
            self.assertTrue(all(marks[step] == {"writes"} for step in range(4)), f"rank {rank}: the first steps")
            self.assertTrue(all(len(kinds) == 1 for kinds in marks.values()), f"rank {rank}: no step is cut")
            self.assertIn({"events"}, marks.values())
            later = [call for step, calls in steps.items() if step >= LOOKS_BACK for call in calls]
            took_ns = max(call["entered_realtime_ns"] for call in later) - min(call["entered_realtime_ns"]
                                                                               for call in later)
            full = sum(call["marks"] == "writes" for call in later)
            self.assertLessEqual(full * FULL_GPU_NS, 2 * PERCENT / 100 * took_ns)
            self.assertEqual({call["state"] for call in later}, {"finished"})
        for command in (["summary"], ["stragglers"]):
            self.assertRegex(" ".join(self.said_by(*command).split()),
                             r"observed by (stream writes in one step of \d+, )?events around (each launch|one "
                             r"launch in \d+)( of the others)? \(TITANTRACE_BUDGET=0.05, for \d+ calls in ")
        stragglers = json.loads(self.said_by("stragglers", "--json"))
        self.assertIn("TITANTRACE_BUDGET", json.dumps(stragglers))

    def test_long_steps_are_observed_in_full(self):
        for steps in self.train("--steps", "12", "--step-ms", "40").values():
            self.assertEqual({call["marks"] for calls in steps.values() for call in calls}, {"writes"})
        self.assertNotIn("TITANTRACE_BUDGET", self.said_by("summary"))

    def test_no_budget_and_a_method_of_the_user(self):
        self.assertEqual(self.train("--steps", "8", TITANTRACE_BUDGET="0"), {})
        self.place = self.new_place()
        for steps in self.train("--steps", "60", "--step-ms", "1", TITANTRACE_GPU_PROGRESS="writes").values():
            self.assertEqual({call["marks"] for calls in steps.values() for call in calls}, {"writes"})


if __name__ == "__main__":
    harness.main()
