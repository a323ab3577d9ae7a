class MetricsProcessor:
    class Config:
        console_log_keys_train = None

    def __init__(self, config):
        self._backends = []

    def log(self, step, metrics, *, is_validation=False):
        reduced = {}
        for record in metrics:
            values = record.value.reduce([record.value])
            reduced.update({f"{record.key}/{suffix}": value for suffix, value in values.items() if value == value})
        for backend in self._backends:
            backend.log(reduced, step)
