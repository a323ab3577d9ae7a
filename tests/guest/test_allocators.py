#!/usr/bin/env python3
"""Other allocators, loaded before and after us."""
import pathlib

import guest
import harness

LIBRARIES = "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"


class Allocators(guest.Case):
    def with_allocator(self, name, **settings):
        found = [str(path) for path in (pathlib.Path(where) / name for where in LIBRARIES) if path.exists()]
        if not found:
            self.skipTest(f"no {name} on this machine")
        argv = [guest.program("allocations"), "work"]
        plain = self.host(argv, False, 1, LD_PRELOAD=found[0], **settings)
        self.assertIn("0 wrong blocks", plain.stdout)
        for order in ([found[0], str(harness.tracer())], [str(harness.tracer()), found[0]]):
            traced = self.host(argv, True, 1, LD_PRELOAD=" ".join(order), TITANTRACE_TIMEOUT_S=5, **settings)
            self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout), traced.stderr)
            self.assertEqual(len(self.place.dump_files()), 1)

    def test_libc(self):
        self.both([guest.program("allocations"), "work"], dumps=1, TITANTRACE_TIMEOUT_S=5)

    def test_jemalloc(self):
        self.with_allocator("libjemalloc.so.2")

    def test_jemalloc_with_threads_of_its_own(self):
        self.with_allocator("libjemalloc.so.2", MALLOC_CONF="background_thread:true,dirty_decay_ms:0")

    def test_tcmalloc(self):
        self.with_allocator("libtcmalloc_minimal.so.4")


if __name__ == "__main__":
    harness.main()
