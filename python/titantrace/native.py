"""Spans in C, of libtitantrace.so itself (tracer/python_markers): a tenth of what they cost in Python.

The library is one file for all CPythons, linked with none: it finds what it calls of CPython by name, when it is asked
here. Where it refuses, all is done in Python: in another Python, in one without a GIL or with larger objects, in a
second interpreter of the process, and without the tracer.
"""
import ctypes
import functools
import os
import sys
from typing import Any, Callable, List, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

# A reference count and a type. Without a GIL, or with lists of all objects for debugging, they are larger.
_OBJECT_BYTES = 2 * ctypes.sizeof(ctypes.c_void_p)


def _made_in_c(*given: object) -> List[Any]:
    """What titan_python_markers_v2 makes of these; nothing where it refuses. To be asked once."""
    made: List[Any] = []
    if sys.implementation.name != "cpython" or object.__basicsize__ != _OBJECT_BYTES:
        return made
    try:
        make = ctypes.PyDLL(None).titan_python_markers_v2
        make.argtypes = [ctypes.py_object, ctypes.py_object]
        return made if make(given, made) == 0 else []
    except Exception:  # it is not there, or has failed
        return []


def in_c(*given: object) -> Callable[[_Function], _Function]:
    """The function as C does it, which calls the function itself where that is rare; or the function."""
    def decorate(function: _Function) -> _Function:
        made = _made_in_c(function, *given)
        if not made:
            return function
        fast, forget_places = made
        os.register_at_fork(after_in_child=forget_places)
        functools.update_wrapper(fast, function)
        # By these torch.compile knows that it can trace the function in its place, where C would break the graph.
        vars(fast).update(__script_if_tracing_wrapper=True, __original_fn=function)
        return fast  # type: ignore[no-any-return]
    return decorate
