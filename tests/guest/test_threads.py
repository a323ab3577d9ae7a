#!/usr/bin/env python3
"""Thousands of threads, and threads that end while a dump looks at them: dumps come in bounded time, nothing else
changes."""
import guest
import harness

class Threads(guest.Case):
    def with_threads(self, scenario, dumps=2):
        self.both([guest.program("many_threads"), scenario], dumps=dumps,
                  TITANTRACE_TIMEOUT_S=60)  # beside others a call of 4,000 threads may take long

    def test_idle(self):
        self.with_threads("idle")

    def test_users_of_cuda(self):
        self.with_threads("cuda")

    @harness.at_night
    def test_users_of_nccl(self):
        self.with_threads("nccl")

    def test_threads_that_end(self):
        self.with_threads("churn", dumps=3)


if __name__ == "__main__":
    harness.main()
