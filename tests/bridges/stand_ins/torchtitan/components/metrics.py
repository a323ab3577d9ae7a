"""Of torchtitan's metrics: a rank that writes a board has a container of loggers, others a logger that does nothing."""


class BaseLogger:
    def log(self, metrics, step):
        pass


class BoardLogger(BaseLogger):
    def __init__(self):
        self.written = []

    def log(self, metrics, step):
        self.written.append((metrics, step))


class LoggerContainer(BaseLogger):
    def __init__(self):
        self.loggers = []

    def log(self, metrics, step):
        for logger in self.loggers:
            logger.log(metrics, step)
