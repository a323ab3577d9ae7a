import sys

import transformers
from oumi.performance.telemetry import TelemetryTracker


class TelemetryCallback(transformers.TrainerCallback):
    def __init__(self, skip_first_steps=1):
        self._telemetry = TelemetryTracker()
        self._running = {}
        self._skip, self._step = skip_first_steps, 0

    def _complete(self, name):
        timer = self._running.pop(name, None)
        if timer is not None:
            timer.__exit__(*sys.exc_info())

    def _start(self, name):
        self._running[name] = self._telemetry.timer(name)
        self._running[name].__enter__()

    def on_step_begin(self, args, state=None, control=None, **_):
        self._step += 1
        if self._step > self._skip:
            for name in ("microsteps", "steps"):
                self._complete(name)
                self._start(name)

    def on_substep_end(self, args, state=None, control=None, **_):
        if self._step > self._skip:
            self._complete("microsteps")
            self._start("microsteps")

    def on_epoch_begin(self, args, state=None, control=None, **_):
        self._start("epochs")

    def on_epoch_end(self, args, state=None, control=None, **_):
        self._complete("epochs")

    def on_step_end(self, args, state=None, control=None, **_):
        self._complete("microsteps")
        self._complete("steps")
