"""titantrace from Python: markers for the flight recorder, and where its library is.

    import titantrace

    titantrace.label("dp", "3")
    for step in range(steps):
        titantrace.step(step)
        with titantrace.span("forward"):
            ...

Thin calls of the C functions in titantrace.h. Without the preload (titan-run) every call does nothing, and none ever
raises.
"""
import ctypes as _ctypes
import os as _os
from contextlib import ContextDecorator as _ContextDecorator
from types import TracebackType as _TracebackType
from typing import Callable as _Callable
from typing import Optional as _Optional
from typing import Type as _Type

try:
    from ._version import __version__
except ImportError:  # the source tree
    __version__ = "0+source"

__all__ = ["active", "dump", "event", "include", "label", "library", "metric", "span", "step"]

_HERE = _os.path.dirname(_os.path.abspath(__file__))


def library() -> str:
    """The path of libtitantrace.so, for LD_PRELOAD."""
    return _os.path.join(_HERE, "libtitantrace.so")


def include() -> str:
    """The directory of titantrace.h."""
    return _os.path.join(_HERE, "include")


def _nothing(*_: object) -> int:
    return -1


def _function(load: _Callable[..., _ctypes.CDLL], name: str, *types: object) -> _Callable[..., int]:
    try:
        found = getattr(load(None), name)
    except (AttributeError, OSError):
        return _nothing
    found.argtypes = types
    found.restype = _ctypes.c_int if name == "titan_dump" else None
    return found  # type: ignore[no-any-return]


# The markers take less than a microsecond: handing the GIL to others and back would cost more. A dump waits.
_step = _function(_ctypes.PyDLL, "titan_step", _ctypes.c_int64)
_span_begin = _function(_ctypes.PyDLL, "titan_span_begin", _ctypes.c_char_p)
_span_end = _function(_ctypes.PyDLL, "titan_span_end")
_event = _function(_ctypes.PyDLL, "titan_event", _ctypes.c_char_p)
_metric = _function(_ctypes.PyDLL, "titan_metric", _ctypes.c_char_p, _ctypes.c_double)
_label = _function(_ctypes.PyDLL, "titan_label", _ctypes.c_char_p, _ctypes.c_char_p)
_dump = _function(_ctypes.CDLL, "titan_dump", _ctypes.c_char_p)


def _bytes(text: object) -> bytes:
    return str(text).encode("utf-8", "replace")


def active() -> bool:
    """Whether the library is in this process."""
    return _step is not _nothing


def step(number: int) -> None:
    """The training step that begins now, for the whole process. What is not an int is ignored: a tensor would have to
    be fetched."""
    if isinstance(number, int):
        _step(number)


class span(_ContextDecorator):
    """A named part of a step, as a context manager or a decorator; spans of a thread nest."""

    def __init__(self, name: str) -> None:
        self._name = _bytes(name)

    def __enter__(self) -> "span":
        _span_begin(self._name)
        return self

    def __exit__(self, kind: _Optional[_Type[BaseException]], error: _Optional[BaseException],
                 trace: _Optional[_TracebackType]) -> None:
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
