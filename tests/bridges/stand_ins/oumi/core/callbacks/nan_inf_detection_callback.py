import math


class NanInfDetectionCallback:
    def __init__(self, metrics):
        self._metrics = metrics

    def on_log(self, args, state=None, control=None, logs=None, **_):
        for name in self._metrics:
            if not math.isfinite(logs[name]):
                raise RuntimeError(f"NaN is detected for the '{name}' metric.")
