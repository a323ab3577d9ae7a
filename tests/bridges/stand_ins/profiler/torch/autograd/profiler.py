"""Of PyTorch's profiler no more than its ranges; `entered` and `left` stand for what a profiler would see."""
import contextlib

entered, left = [], []


class record_function(contextlib.ContextDecorator):
    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.record = None

    def __enter__(self):
        self.record = object()
        entered.append(self.name)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        assert self.record is not None
        left.append(self.name)
