import time


class TracingTimestamp:
    def __init__(self, seconds_since_epoch, perf_counter_seconds):
        self.seconds_since_epoch = seconds_since_epoch
        self.perf_counter_seconds = perf_counter_seconds

    @classmethod
    def now(cls):
        return cls(time.time(), time.perf_counter())

    @classmethod
    def for_timestamp(cls, timestamp_sec):
        return cls(timestamp_sec, time.perf_counter() - (time.time() - timestamp_sec))
