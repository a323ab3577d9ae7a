#!/usr/bin/env python3
"""Programs that wait in io_uring_enter, beside threads of the kernel that belong to them."""

import guest
import harness

class IoUring(guest.Case):
    def with_ring(self, scenario, dumps=1):
        self.both([guest.program("io_uring"), scenario], dumps=dumps, TITANTRACE_TIMEOUT_S=5)

    def test_traffic(self):
        self.with_ring("traffic", dumps=3)

    def test_wait(self):
        self.with_ring("wait")

    def test_bare_wait(self):
        self.with_ring("bare_wait")

    def test_thread_of_the_kernel(self):
        self.with_ring("sqpoll")

    def test_worker_of_the_kernel(self):
        self.with_ring("worker")

    def test_without_stacks(self):
        self.both([guest.program("io_uring"), "bare_wait"], dumps=1, TITANTRACE_STACKS="off")


if __name__ == "__main__":
    harness.main()
