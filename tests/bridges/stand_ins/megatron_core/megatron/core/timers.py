"""Timers that count, wait and refuse as Megatron's do."""
import time

import torch


class DummyTimer:
    def __init__(self):
        self.name = "dummy timer"

    def start(self, barrier=False):
        pass

    stop = start

    def reset(self):
        pass

    def elapsed(self, reset=True, barrier=False):
        raise Exception("dummy timer should not be used to calculate elapsed time")


class Timer:
    def __init__(self, name):
        self.name = name
        self._elapsed = 0.0
        self._active_time = 0.0
        self._started = False

    @staticmethod
    def _wait(barrier):
        if barrier:
            torch.distributed.barrier(group=None)
        torch.cuda.synchronize()

    def start(self, barrier=False):
        assert not self._started, "timer has already been started"
        self._wait(barrier)
        self._start_time = time.time()
        self._started = True

    def stop(self, barrier=False):
        assert self._started, "timer is not started"
        self._wait(barrier)
        self._elapsed += time.time() - self._start_time
        self._active_time += time.time() - self._start_time
        self._started = False

    def reset(self):
        self._elapsed = 0.0
        self._started = False

    def elapsed(self, reset=True, barrier=False):
        was_started = self._started
        if was_started:
            self.stop(barrier=barrier)
        elapsed = self._elapsed
        if reset:
            self.reset()
        if was_started:
            self.start(barrier=barrier)
        return elapsed

    def active_time(self):
        return self._active_time


class Timers:
    def __init__(self, log_level, log_option):
        self._log_level = log_level
        self._timers = {}
        self._dummy_timer = DummyTimer()

    def __call__(self, name, log_level=None):
        if name not in self._timers:
            if (2 if log_level is None else log_level) > self._log_level:
                return self._dummy_timer
            self._timers[name] = Timer(name)
        return self._timers[name]
