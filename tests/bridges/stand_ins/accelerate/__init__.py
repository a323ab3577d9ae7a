"""A stand-in for accelerate 1.15: the Accelerator with its trackers."""
from .tracking import GeneralTracker


class Accelerator:
    def __init__(self, log_with, cpu=True):
        self.log_with = log_with
        self.trackers = []

    def init_trackers(self, project_name, config=None):
        self.trackers = [tracker for tracker in self.log_with if isinstance(tracker, GeneralTracker)]
        for tracker in self.trackers:
            tracker.start()
        for tracker in self.trackers:
            tracker.store_init_configuration(config or {})

    def log(self, values, step=None):
        for tracker in self.trackers:
            tracker.log(values, step=step)

    def end_training(self):
        for tracker in self.trackers:
            tracker.finish()
