"""Spans by an extension module (_spans.c), in a tenth of the time that they take in Python.

It is one file for every CPython from 3.9 on. Where it is missing (the tree, another Python, one without a GIL, a second
interpreter of the process), and without the tracer, all is done in Python.
"""
import ctypes
import os
import sys
from typing import Any, Callable, Dict, Tuple

from . import tracer

# A reference count and a type. Without a GIL, or with lists of all objects for debugging, they are larger.
_OBJECT_BYTES = 2 * ctypes.sizeof(ctypes.c_void_p)


def faster(span: Callable[..., Any], make_again: Callable[[str, Dict[str, object]], Any],
           add_attributes: Callable[[int, Dict[str, object]], None], *given: object) -> Callable[..., Any]:
    """The function as C does it, which calls the function itself where that is rare; or the function. `given` is what
    _spans.c lists, from NUMBER_OF on. To be asked once."""
    if not tracer.is_loaded or sys.implementation.name != "cpython" or object.__basicsize__ != _OBJECT_BYTES:
        return span
    try:
        from . import _spans  # type: ignore[attr-defined]
    except ImportError:
        return span

    # What is rare. A class in Python that is made of the one in C would be known to the garbage collector, and slower.
    def set(self: Any, **attributes: object) -> None:
        """Adds facts to the span while it is entered: text, int or float."""
        if self.is_entered:
            add_attributes(self.id, attributes)

    def __call__(self: Any, *arguments: Any, **named: Any) -> Any:
        return span(self.name, **(self.attributes or {}))(*arguments, **named)

    def __reduce__(self: Any) -> Tuple[Any, ...]:
        return make_again, (self.name, self.attributes or {})

    for method in (set, __call__, __reduce__):
        setattr(_spans.SpanInC, method.__name__, method)

    class SpanMaker(_spans.Maker):  # type: ignore[misc]
        def __reduce__(self) -> str:  # pickled and copied by its name, as functions are
            return span.__qualname__

    _spans.start(span, *given)
    os.register_at_fork(after_in_child=_spans.forget_places)
    fast = SpanMaker()
    # By these torch.compile knows that it can trace the function in its place, where C would break the graph.
    vars(fast).update({name: getattr(span, name) for name in ("__module__", "__name__", "__qualname__", "__doc__")},
                      __wrapped__=span, __script_if_tracing_wrapper=True, __original_fn=span)
    return fast  # type: ignore[no-any-return]
