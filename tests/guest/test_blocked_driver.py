#!/usr/bin/env python3
"""Each function of the driver hangs in turn: no other thread waits, neither in an abort nor in anything else, as
without the preload."""
import guest
import harness


# What hangs without the preload, too: the stand-in's runtime holds a lock of its own meanwhile.
HANG_ALWAYS = {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxReset_v2"}


class Blocked(guest.Case):
    def names(self, preload):
        ran = self.host([guest.program("blocked_driver"), "all"], preload, 0)
        self.assertEqual(ran.status, 0, ran.report())
        return set(ran.stdout.split())

    def test_every_function(self):
        theirs = self.names(False)
        ours = self.names(True) - theirs
        self.assertLessEqual({"cuMemHostRegister_v2", "cuStreamGetCaptureInfo_v2", "cuStreamGetCtx"}, ours)
        for name in sorted((theirs | ours) - HANG_ALWAYS):
            with self.subTest(name):
                # An abort while the driver hangs is worth a dump, and none is asked for here.
                self.both([guest.program("blocked_driver"), name], limit_s=5, TITANTRACE_DUMP_ON="none")


if __name__ == "__main__":
    harness.main()
