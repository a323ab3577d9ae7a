#!/usr/bin/env python3
"""Ways out of a process and calls that are to save it never wait for the loader, whose lock a hanging dlopen holds."""

import signal

import harness


class WaysOut(harness.Case):
    def same(self, scenario, **settings):
        """With and without the preload: the same words, the same status, at once."""
        ran = []
        for preload in (False, True):
            self.place = self.new_place()
            settings = {"RANK": 0, "WORLD_SIZE": 1, "E2E_SLOW_LIBRARY": harness.client("libslow_library.so"),
                        **settings}
            ran.append(self.place.run([harness.client("e2e-ways-out"), scenario],
                                      self.place.env(preload=preload, **settings), limit_s=10))
        plain, traced = ran
        self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout))
        self.assertNotEqual(plain.stdout, "")
        return traced

    def test_leaving_at_once_without_nccl(self):
        self.assertEqual(self.same("dormant").status, 3)

    def test_leaving_at_once(self):
        for way in ("_exit", "_Exit", "quick_exit"):
            with self.subTest(way):
                self.assertEqual(self.same(way).status, 3)

    def test_quick_exit_is_an_end_in_order(self):
        self.assertEqual(self.same("quick_exit-in-order").status, 0)
        self.assertEqual(self.place.ring_files(), [])

    def test_one_rank_alone_is_told_to_end(self):
        """Nobody ends the other: after some seconds the one counts as dead."""
        staying, told = self.place.start_ranks("e2e-processes", "linger", 2)
        for rank in (staying, told):
            rank.wait_says("done")
        told.signal(signal.SIGTERM)
        self.assertEqual(told.wait(), -signal.SIGTERM)
        self.assertEqual(self.place.dump_files(), [], "it may be the first of all")
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1}, 15, "the other dumps, and saves its ring")
        self.assertIn(f"rank 1 (pid {told.pid}) died", staying.stderr)

    def test_first_abort(self):
        self.assertIn("abort returned 0", self.same("abort", TITANTRACE_DUMP_ON="none").stdout)

    def test_first_cuda_calls(self):
        self.assertEqual(self.same("first-calls").status, 5)

    def test_first_signal_actions(self):
        self.assertEqual(self.same("first-signal-actions").status, 6)

    def test_error_of_the_loader_is_kept(self):
        self.assertIn("no_such_function", self.same("loader-error").stdout)


if __name__ == "__main__":
    harness.main(at_once=3)
