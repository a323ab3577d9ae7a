"""The functions of titantrace.h, by ctypes. Where the tracer is not loaded, each does nothing and returns 0 or -1."""
import ctypes
import os
import sys
from types import CodeType, FrameType
from typing import Any, Callable, Container, Dict, Tuple, Union

from .values import text_of

_Function = Callable[..., int]


def _nothing(*_: object) -> int:
    return -1


def no_id(*_: object) -> int:
    return 0


def function(load: Callable[..., ctypes.CDLL], name: str, *types: Any, result: Any = None,
             absent: _Function = _nothing) -> _Function:
    """A function of the tracer, or `absent`."""
    try:
        found = getattr(load(None), name)
    except (AttributeError, OSError):
        return absent
    found.argtypes = types
    found.restype = result
    return found  # type: ignore[no-any-return]


class Mark(ctypes.Structure):
    """titan_mark of titantrace.h."""
    _fields_ = [("bytes", ctypes.c_size_t), ("time_ns", ctypes.c_int64), ("clock", ctypes.c_int32),
                ("site", ctypes.c_uint32), ("task", ctypes.c_uint64), ("parent", ctypes.c_uint64)]


_TEXT, _MARK, _ID = ctypes.c_char_p, ctypes.POINTER(Mark), ctypes.c_uint64

# The markers take less than a microsecond: handing the GIL to others and back would cost more. A dump waits.
step = function(ctypes.PyDLL, "titan_step", ctypes.c_int64)
step_relative = function(ctypes.PyDLL, "titan_step_relative", ctypes.c_int64, ctypes.c_int64)
step_tag = function(ctypes.PyDLL, "titan_step_tag", _TEXT)
span_open = function(ctypes.PyDLL, "titan_span_open", _TEXT, _MARK, result=_ID, absent=no_id)
span_close = function(ctypes.PyDLL, "titan_span_close", _ID, _MARK)
event_at = function(ctypes.PyDLL, "titan_event_at", _TEXT, _MARK, result=_ID, absent=no_id)
error = function(ctypes.PyDLL, "titan_error", _ID, _TEXT)
attribute_text = function(ctypes.PyDLL, "titan_attribute_text", _ID, _TEXT, _TEXT)
attribute_integer = function(ctypes.PyDLL, "titan_attribute_integer", _ID, _TEXT, ctypes.c_int64)
attribute_double = function(ctypes.PyDLL, "titan_attribute_double", _ID, _TEXT, ctypes.c_double)
metric_as = function(ctypes.PyDLL, "titan_metric_as", _TEXT, ctypes.c_double, ctypes.c_double, ctypes.c_int, _MARK)
label = function(ctypes.PyDLL, "titan_label", _TEXT, _TEXT)
site = function(ctypes.PyDLL, "titan_site", _TEXT, result=ctypes.c_uint32, absent=no_id)
dump = function(ctypes.CDLL, "titan_dump", _TEXT, result=ctypes.c_int)

is_loaded = step is not _nothing
REDUCTIONS = {"none": 1, "mean": 2, "sum": 3, "min": 4, "max": 5, "std": 6, "last": 7}


# What our own code can end with wherever it runs, as memory or the stack run out; ctypes makes one of its own of them.
# Others that come out of our code are the program's, by a handler of a signal, and are for the program to see.
OWN_ERRORS = (RecursionError, MemoryError, ctypes.ArgumentError)


def to_bytes(value: object) -> bytes:
    return text_of(value).encode("utf-8", "replace")


# The number of a place in the program, and a mark that tells no more than it.
Place = Tuple[int, Any]
NOWHERE: Place = (0, None)
# Each is told to the tracer once, by its words or by the instruction that calls. A forked child has another record.
_places: Dict[Union[str, Tuple[CodeType, int]], Place] = {}
os.register_at_fork(after_in_child=_places.clear)


def told_place(text: str) -> Place:
    """A place in those words; NOWHERE while nothing is recorded."""
    try:
        known = _places.get(text)
        if known is None:
            number = site(to_bytes(text)) if is_loaded else 0
            if number == 0:
                return NOWHERE
            known = _places[text] = (number, ctypes.byref(Mark(ctypes.sizeof(Mark), site=number)))
        return known
    except OWN_ERRORS:
        return NOWHERE


def words_of(frame: FrameType) -> str:
    """Its place as people write it: "train.py:40 step"."""
    code = frame.f_code
    file = code.co_filename.rpartition("/")[2]
    return f"{file}:{frame.f_lineno} {getattr(code, 'co_qualname', code.co_name)}"


def _place_of(frame: FrameType) -> Place:
    try:
        key = (frame.f_code, frame.f_lasti)
        known = _places.get(key)
        if known is None:
            known = told_place(words_of(frame))
            if known is not NOWHERE:
                _places[key] = known
        return known
    except OWN_ERRORS:
        return NOWHERE


def number_of_place(frame: FrameType) -> int:
    """The number of the place that the frame is at; 0 while nothing is recorded."""
    return _place_of(frame)[0]


def place(depth: int) -> Place:
    """The place that many calls further out."""
    return _place_of(sys._getframe(depth + 1)) if is_loaded else NOWHERE


def place_outside(packages: Container[str]) -> Place:
    """The innermost place in none of these packages."""
    if not is_loaded:
        return NOWHERE
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame = frame.f_back
    return _place_of(frame)


CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1


def mark_of(number: int, task: int = 0, parent: int = 0, time_ns: int = 0, clock: int = CLOCK_REALTIME) -> Any:
    return ctypes.byref(Mark(ctypes.sizeof(Mark), time_ns, clock, number, task, parent))
