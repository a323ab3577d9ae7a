"""The markers: step, span, metric, event and label, and what goes with them.

These five are what a bridge from another library's instrumentation calls. Every function may be called from any thread,
never raises and does nothing where the tracer is not loaded; without it a call costs what a call in Python costs.
"""
import ctypes
from contextlib import ContextDecorator
from types import TracebackType
from typing import Callable, Optional, Type


def _nothing(*_: object) -> int:
    return -1


def function(load: Callable[..., ctypes.CDLL], name: str, *types: object, result: object = None) -> Callable[..., int]:
    """A function of the tracer; where it is not loaded, one that does nothing and returns -1."""
    try:
        found = getattr(load(None), name)
    except (AttributeError, OSError):
        return _nothing
    found.argtypes = types
    found.restype = result
    return found  # type: ignore[no-any-return]


# The markers take less than a microsecond: handing the GIL to others and back would cost more. A dump waits.
_step = function(ctypes.PyDLL, "titan_step", ctypes.c_int64)
_span_begin = function(ctypes.PyDLL, "titan_span_begin", ctypes.c_char_p)
_span_end = function(ctypes.PyDLL, "titan_span_end")
_event = function(ctypes.PyDLL, "titan_event", ctypes.c_char_p)
_metric = function(ctypes.PyDLL, "titan_metric", ctypes.c_char_p, ctypes.c_double)
_label = function(ctypes.PyDLL, "titan_label", ctypes.c_char_p, ctypes.c_char_p)
_dump = function(ctypes.CDLL, "titan_dump", ctypes.c_char_p, result=ctypes.c_int)


def _bytes(text: object) -> bytes:
    return str(text).encode("utf-8", "replace")


def active() -> bool:
    """True if the library is in this process."""
    return _step is not _nothing


def step(number: int) -> None:
    """The training step that begins now, for the whole process. What is not an int is ignored: a tensor would have to
    be fetched."""
    if isinstance(number, int):
        _step(number)


class span(ContextDecorator):
    """A named part of a step, as a context manager or a decorator; spans of a thread nest."""

    def __init__(self, name: str) -> None:
        self._name = _bytes(name)

    def __enter__(self) -> "span":
        _span_begin(self._name)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        _span_end()


def event(name: str) -> None:
    """A moment worth a name ("checkpoint saved")."""
    _event(_bytes(name))


def metric(name: str, value: float) -> None:
    """A number at this moment ("loss", 2.31). What is not a float or an int is ignored: a tensor would have to be
    fetched."""
    if isinstance(value, (float, int)):
        try:
            _metric(_bytes(name), float(value))
        except OverflowError:
            pass


def label(key: str, value: object) -> None:
    """A fact about this process: a parallel dimension ("dp", 3) or a tag of the run."""
    _label(_bytes(key), _bytes(value))


def dump(reason: str = "asked for from Python") -> bool:
    """Asks every rank of the job for a dump and waits, 10 s at most, until this rank's is written. False when it is
    not."""
    return _dump(_bytes(reason)) == 0
