"""What the bridges share whose library calls them back: one call opens a span, a later one closes it."""
import os
import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import tracer
from .bridges import begin_telling, end_telling, is_told, open_span
from .spans import add_attributes, mark_error
from .values import number_of


def now_ns() -> int:
    """For Stack.complete."""
    return time.monotonic_ns()


def host_values(values: Mapping[str, Any]) -> Dict[str, Any]:
    """The values that can be read without waiting for a device: numbers, numpy's, and tensors of one element in host
    memory."""
    return {name: value for name, value in values.items() if type(value) is not bool and number_of(value) is not None}


class Stack:
    """The spans that one trainer has open, innermost last. A copy of it has none, nor has a forked child's."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._open: List[Tuple[str, int]] = []
        self._process = os.getpid()

    def __reduce__(self) -> Tuple[Any, Tuple[str]]:
        return Stack, (self._library,)

    def _opened(self) -> List[Tuple[str, int]]:
        if self._process != os.getpid():
            self._open, self._process = [], os.getpid()
        return self._open

    def place(self) -> tracer.Place:
        return tracer.told_place(self._library)

    def __contains__(self, name: str) -> bool:
        return any(name == known for known, _ in self._opened())

    def is_told(self, name: str) -> bool:
        return is_told(name, self._library)

    def begin(self, name: str, **attributes: object) -> None:
        """Opens it inside those that are open; nothing where one of that name is."""
        if name in self or self.is_told(name):
            return
        opened = open_span(name, self.place())
        begin_telling(name, self._library)
        self._open.append((name, opened))
        if opened:
            add_attributes(opened, attributes)

    def end(self, name: str) -> None:
        """Closes it, with what was left open inside; nothing where it is not open."""
        while name in self:
            self._close_innermost()

    def complete(self, name: str, begun_ns: int) -> None:
        """A span that ends now, of which nothing was known when it began."""
        tracer.span_close(open_span(name, self.place(), time_ns=begun_ns, clock=tracer.CLOCK_MONOTONIC), None)

    def end_all(self, error: Optional[BaseException] = None) -> None:
        """Closes all, the innermost as failed where there is an error."""
        opened = self._opened()
        if error is not None and opened:
            mark_error(opened[-1][1], error)
        while opened:
            self._close_innermost()

    def _close_innermost(self) -> None:
        name, opened = self._open.pop()
        tracer.span_close(opened, None)
        end_telling(name, self._library)


def subclass(module: Dict[str, Any], name: str, part: type, base: type) -> type:
    """Makes a bridge's class where it is first asked for, since its base is the library's, and names it in the module
    for all who ask later."""
    made = type(name, (part, base), {"__module__": module["__name__"], "__doc__": part.__doc__})
    return module.setdefault(name, made)  # type: ignore[no-any-return]
