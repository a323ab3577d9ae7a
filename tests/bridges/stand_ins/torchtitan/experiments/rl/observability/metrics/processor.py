class MetricsProcessor:
    class Config:
        console_log_keys_train = None

    def __init__(self, config):
        self._backends = []

    def log(self, step, metrics, *, is_validation=False):
        reduced = {}
        for record in metrics:
            reduced.update({record.key + "/" + suffix: value for suffix, value in record.value.reduce([record.value]).items()
                            if value == value})
        for backend in self._backends:
            backend.log(reduced, step)
