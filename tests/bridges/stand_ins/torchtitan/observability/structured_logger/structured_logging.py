import asyncio
import functools
import importlib
import inspect
import logging
import os

from .step_state import get_step

_structured_logger = logging.getLogger("torchtitan.structured_logger")
_structured_logger.propagate = False
_disabled = False


def _structured_logger_disabled():
    return _disabled


def _log(message, kind, stacklevel, log_type="event", **more):
    extra = {"log_type": log_type, "log_type_name": kind, "event_name": None, "step": get_step(), "value": None,
             "relative_step": None, "task_name": None, **more}
    _structured_logger.info(message, extra=extra, stacklevel=stacklevel + 1)


def init_structured_logger(source, output_dir, rank=None, enable=True):
    global _disabled
    if not enable:
        _disabled = True
        return
    for path in filter(None, os.environ.get("TITAN_STRUCT_LOGGER_HANDLERS", "").split(",")):
        module, _, name = path.rpartition(".")
        getattr(importlib.import_module(module), name)(structured_logger=_structured_logger, rank=rank, source=source,
                                                       output_dir=output_dir)
    _structured_logger.setLevel(logging.INFO)


def log_trace_scalar(scalars, *, stacklevel=2):
    for name, value in scalars.items():
        if not _disabled and isinstance(value, (float, int)) and not isinstance(value, bool):
            _log(f"{name}={value}", "metric_value", stacklevel, "instant", event_name=name, value=value)


def log_trace_instant(event_type, *, stacklevel=2):
    if not _disabled:
        _log(str(event_type), str(event_type), stacklevel, "instant")


class log_trace_span:
    def __init__(self, event_type, description=None, *, stacklevel=2):
        self.given = event_type, description
        self.stacklevel = stacklevel
        self.task_name = None

    def __enter__(self):
        try:
            task = asyncio.current_task()
            self.task_name = task.get_name() if task else None
        except RuntimeError:
            self.task_name = None
        self._tell("start", "")
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self._tell("error", f": {kind.__name__}: {error}")
        self._tell("end", "")

    def _tell(self, what, message):
        if not _disabled:
            name, description = self.given
            words = {"start": f"{description or name} {name}_start", "end": f"{name}_end took 1.00 ms"}
            _log(f"[step {get_step()}] {words.get(what, f'{name}_{what}{message}')}", f"{name}_{what}",
                 self.stacklevel + 1, task_name=self.task_name)

    def __call__(self, func):
        @functools.wraps(func)
        async def async_wrapper(*arguments, **named):
            with log_trace_span(*self.given, stacklevel=self.stacklevel):
                return await func(*arguments, **named)

        @functools.wraps(func)
        def sync_wrapper(*arguments, **named):
            with log_trace_span(*self.given, stacklevel=self.stacklevel + 1):
                return func(*arguments, **named)
        return async_wrapper if inspect.iscoroutinefunction(func) else sync_wrapper
